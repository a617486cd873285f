//! One transaction of an app under test: its buffered writes and its call stack.

use std::any::Any;
use std::collections::BTreeMap;

use super::{Invoke, Registered, States};
use crate::state::Scan;
use crate::{Abort, Level, Result};

/// What the app under test is called.
pub(crate) const APP: &str = "test";

/// A call that runs after its caller has returned.
pub(crate) struct Later {
    pub operator: String,
    pub key: String,
    pub function: String,
    pub arguments: Vec<u8>,
    /// Called by a function that may not write.
    pub read_only: bool,
}

/// An invocation in progress.
pub(crate) struct Frame {
    /// Of another app than the one under test.
    pub app: Option<&'static str>,
    pub operator: &'static str,
    /// The operator as it is known here: with its app, if that is another one.
    owner: String,
    function: String,
    pub key: String,
    read_only: bool,
    generator: u64,
    later: Vec<Later>,
}

/// A running transaction.
pub(crate) struct Run {
    operators: Vec<Registered>,
    committed: States,
    /// `None` is a delete.
    writes: BTreeMap<(String, String), Option<Vec<u8>>>,
    frames: Vec<Frame>,
    invocations: u64,
    logs: Vec<(Level, String)>,
    pub doomed: Option<Abort>,
    pub time_us: u64,
    pub tid: u64,
}

impl Run {
    pub fn new(operators: Vec<Registered>, committed: States, time_us: u64, tid: u64) -> Self {
        Self {
            operators,
            committed,
            writes: BTreeMap::new(),
            frames: Vec::new(),
            invocations: 0,
            logs: Vec::new(),
            doomed: None,
            time_us,
            tid,
        }
    }

    /// Commits or drops the writes.
    pub fn finish(mut self, succeeded: bool) -> (States, Vec<(Level, String)>, Option<Abort>) {
        if succeeded && self.doomed.is_none() {
            for (entity, value) in self.writes {
                match value {
                    Some(value) => self.committed.insert(entity, value),
                    None => self.committed.remove(&entity),
                };
            }
        }
        (self.committed, self.logs, self.doomed)
    }

    /// An operator that is called, as it is known here: what a function of another app calls by a mere name is that app's.
    pub fn qualified(&self, operator: &str) -> String {
        let (app, name) = match operator.split_once('/') {
            Some((app, name)) => (Some(app), name),
            None => (self.frames.last().and_then(|frame| frame.app), operator),
        };
        app.filter(|app| *app != APP).map_or_else(|| name.to_owned(), |app| format!("{app}/{name}"))
    }

    /// Starts an invocation of an operator as it is known here.
    pub fn enter(&mut self, operator: &str, key: &str, function: &str, read_only: bool) -> Result<Invoke> {
        let is_it = |known: &&Registered| match known.app {
            Some(app) => operator.split_once('/') == Some((app, known.name)),
            None => known.name == operator,
        };
        let Some(found) = self.operators.iter().find(is_it) else {
            let message = if operator.contains('/') {
                format!("there is no operator {operator}: give it to App::with_other")
            } else {
                format!("the app has no operator {operator}")
            };
            return Err(Abort::with_code("UNKNOWN_OPERATOR", message));
        };
        // What the host does to entities no function does.
        let callable = function != crate::migration::MIGRATE || self.frames.is_empty();
        let functions = (found.describe)().functions.into_iter();
        let described =
            functions.filter(|known| known.name != "styx.state" && callable).find(|known| known.name == function);
        let Some(described) = described else {
            return Err(crate::export::unknown_function(operator, function));
        };
        self.invocations += 1;
        self.frames.push(Frame {
            app: found.app,
            operator: found.name,
            owner: operator.to_owned(),
            function: function.to_owned(),
            key: key.to_owned(),
            read_only: described.read_only || read_only,
            generator: self.tid.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.invocations.rotate_left(32),
            later: Vec::new(),
        });
        Ok(found.invoke)
    }

    /// Ends the invocation and returns what it has called asynchronously.
    pub fn leave(&mut self) -> Vec<Later> {
        self.frames.pop().expect("an invocation ends once").later
    }

    /// How a server tells it: what a function passes to another is never the client's fault, and bugs are logged.
    pub fn own_fault(&mut self, abort: Abort, operator: &str, key: &str, function: &str) -> Abort {
        let text = abort.message();
        let message = match abort.code() {
            _ if self.doomed.is_some() => return abort,
            "BAD_ARGUMENTS" if !self.frames.is_empty() => {
                format!("{operator}.{function} was called with arguments that it does not take: {text}")
            }
            "GUEST_EXCEPTION" => format!("{operator}.{function} on {key:?}: {text}"),
            _ => return abort,
        };
        self.bug(message)
    }

    /// The failure of a call that nobody answers.
    pub fn called_nobody(&mut self, abort: Abort) -> Abort {
        match self.frames.last() {
            Some(caller) if self.doomed.is_none() => {
                let message = format!("{}.{} called nobody: {}", caller.owner, caller.function, abort.message());
                self.bug(message)
            }
            _ => abort,
        }
    }

    fn bug(&mut self, message: String) -> Abort {
        self.log(Level::Warn, &format!("GUEST_EXCEPTION: {message}"));
        Abort::bug(message)
    }

    pub fn frame(&self) -> &Frame {
        self.frames.last().expect("an invocation is running")
    }

    fn frame_mut(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("an invocation is running")
    }

    /// Whether the running function may not write, and so none that it calls.
    pub fn is_read_only(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.read_only)
    }

    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let entity = (self.frame().owner.clone(), key.to_owned());
        self.writes.get(&entity).cloned().unwrap_or_else(|| self.committed.get(&entity).cloned())
    }

    pub fn put(&mut self, key: &str, value: Option<Vec<u8>>) {
        let frame = self.frame();
        let entity = (frame.owner.clone(), key.to_owned());
        if frame.read_only {
            let message = format!("{}.{key} is written by a read-only function", frame.owner);
            self.doomed.get_or_insert(Abort::with_code("GUEST_TRAP", message));
        }
        self.writes.insert(entity, value);
    }

    pub fn scan(&self, scan: &Scan<'_>) -> Vec<(String, Vec<u8>)> {
        let operator = &self.frame().owner;
        let mut merged: BTreeMap<&str, &[u8]> = BTreeMap::new();
        merged.extend(
            self.committed
                .iter()
                .filter(|((of, _), _)| *of == *operator)
                .map(|((_, key), value)| (key.as_str(), value.as_slice())),
        );
        for ((_, key), value) in self.writes.iter().filter(|((of, _), _)| *of == *operator) {
            match value {
                Some(value) => merged.insert(key, value),
                None => merged.remove(key.as_str()),
            };
        }
        let within = |key: &str| {
            key.starts_with(scan.prefix)
                && scan.after.is_none_or(|after| if scan.reverse { key < after } else { key > after })
        };
        let limit = if scan.limit == 0 { usize::MAX } else { scan.limit as usize };
        let found =
            merged.into_iter().filter(|(key, _)| within(key)).map(|(key, value)| (key.to_owned(), value.to_vec()));
        if scan.reverse { found.rev().take(limit).collect() } else { found.take(limit).collect() }
    }

    pub fn call_async(&mut self, operator: &str, key: &str, function: &str, arguments: &[u8]) {
        let read_only = self.is_read_only();
        let later = Later {
            operator: self.qualified(operator),
            key: key.to_owned(),
            function: function.to_owned(),
            arguments: arguments.to_vec(),
            read_only,
        };
        self.frame_mut().later.push(later);
    }

    /// SplitMix64, seeded per invocation.
    pub fn random(&mut self) -> u64 {
        let state = &mut self.frame_mut().generator;
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn log(&mut self, level: Level, message: &str) {
        self.logs.push((level, message.to_owned()));
    }
}

/// The text of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panicked".to_owned())
}
