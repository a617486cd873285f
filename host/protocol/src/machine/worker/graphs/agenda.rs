//! Parallel re-invocation (Styx §6.3): in the fallback, each worker runs the calls of a graph that
//! came to it in the first execution, with the parameters of then, in the serial order of the
//! transaction. Who calls a function of another worker, synchronously or not, waits there for its
//! end, which may be known already; so what each worker does is in serial order as well.
//!
//! No circle can wait: whoever waits for a call waits for something later in the serial order,
//! which waits only for what lies between the two.

use crate::execute::attempt::{CachedCall, Operation, Path, RemoteRequests, RemoteResponse};

/// What one worker has to run again of a graph.
#[derive(Debug)]
pub(super) struct Agenda {
    /// In serial order; the next one last.
    entries: Vec<CachedCall>,
    /// The entry of each fragment.
    current: Vec<(u32, CachedCall)>,
    /// Functions that wait, the innermost last: the call's path and its place.
    blocked: Vec<(u32, Path, u64)>,
    /// Results that have come, by the call's place.
    results: Vec<(u64, RemoteResponse)>,
    /// The root was told.
    told: bool,
}

/// What can be done next.
pub(super) enum Next {
    /// Run a call of the first execution again.
    Start(CachedCall),
    /// Continue a function that waits.
    Resume { fragment: u32, answer: RemoteResponse },
    /// Nothing, until a result comes.
    Wait,
    /// Nothing more.
    Done,
}

impl Agenda {
    /// What the first execution entered here, in any order.
    pub fn new(entered: &[CachedCall]) -> Self {
        let mut entries = entered.to_vec();
        entries.sort_by(|a, b| b.target.path.cmp(&a.target.path));
        Agenda { entries, current: Vec::new(), blocked: Vec::new(), results: Vec::new(), told: false }
    }

    pub fn next(&mut self) -> Next {
        match (self.blocked.last(), self.entries.last()) {
            (Some((_, path, _)), Some(entry)) if starts_with(entry, path) => {}
            (Some((fragment, _, place)), _) => {
                let fragment = *fragment;
                let Some(found) = self.results.iter().position(|(of, _)| of == place) else { return Next::Wait };
                let (_, answer) = self.results.swap_remove(found);
                self.blocked.pop();
                return Next::Resume { fragment, answer };
            }
            (None, _) => {}
        }
        self.entries.pop().map_or(Next::Done, Next::Start)
    }

    /// An entry runs.
    pub fn started(&mut self, fragment: u32, entry: CachedCall) {
        self.current.push((fragment, entry));
    }

    /// A function waits for a call that its own worker runs.
    pub fn block(&mut self, fragment: u32, ask: RemoteRequests) {
        let [(_, asked)] = <[_; 1]>::try_from(ask.operations).expect("one call at a time");
        let Operation::Call(target) = asked.operation else {
            panic!("a graph that reaches for state elsewhere is not re-invoked from its cache");
        };
        let path = target.path.expect("among several workers paths are kept");
        self.blocked.push((fragment, path, target.place));
    }

    /// The result of a call elsewhere has come.
    pub fn keep(&mut self, place: u64, answer: RemoteResponse) {
        self.results.push((place, answer));
    }

    /// A function is over: its entry.
    pub fn end(&mut self, fragment: u32) -> CachedCall {
        let at = self.current.iter().position(|(of, _)| *of == fragment).expect("it was on the agenda");
        self.current.swap_remove(at).1
    }

    pub fn is_told(&self) -> bool {
        self.told
    }

    /// Whether the root is to be told that all is done: once.
    pub fn tell(&mut self) -> bool {
        !std::mem::replace(&mut self.told, true)
    }
}

fn starts_with(entry: &CachedCall, path: &Path) -> bool {
    entry.target.path.as_ref().is_some_and(|own| own.starts_with(path))
}
