//! Parallel re-invocation (Styx §6.3): in the fallback, each worker runs the calls of a graph that
//! came to it in the first execution, with the parameters of then, in the serial order of the
//! transaction. Who calls a function of another worker, synchronously or not, waits there for its
//! end, which may be known already; so what each worker does is in serial order as well.
//!
//! No circle can wait: whoever waits for a call waits for something later in the serial order,
//! which waits only for what lies between the two.

use super::part::{Job, Origin};
use super::{Graphs, Part};
use crate::abort::Abort;
use crate::commit::share::Shares;
use crate::execute::attempt::{CachedCall, Execution, Operation, Path, RemoteRequests, RemoteResponse};
use crate::execute::task::{GraphId, TaskKind};
use crate::state::entity::Value;
use crate::wire::message::CachedResult;

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

impl Part {
    /// Puts what the first execution had to run here on the agenda.
    pub(super) fn plan(&mut self, cached: &Execution) {
        let mut entries = cached.entered.to_vec();
        entries.sort_by(|a, b| b.target.path.cmp(&a.target.path));
        self.agenda = Some(Box::new(Agenda {
            entries,
            current: Vec::new(),
            blocked: Vec::new(),
            results: Vec::new(),
            told: false,
        }));
    }

    /// What can be done next; `None` when all is done.
    pub(super) fn next_on_agenda(&mut self) -> Option<Job> {
        let agenda = self.agenda.as_mut().expect("there is an agenda");
        let next = agenda.entries.last();
        match (agenda.blocked.last(), next) {
            (Some((_, path, _)), Some(entry)) if starts_with(entry, path) => {}
            (Some((fragment, _, place)), _) => {
                let fragment = *fragment;
                let found = agenda.results.iter().position(|(of, _)| of == place);
                let Some(found) = found else { return Some(Job::Wait) };
                let (_, answer) = agenda.results.swap_remove(found);
                agenda.blocked.pop();
                let waiting = self.fragment(fragment);
                waiting.expect_answers(1);
                waiting.answered(0, answer);
                return Some(Job::Resume { fragment });
            }
            (None, Some(_)) => {}
            (None, None) => return None,
        }
        let entry = agenda.entries.pop().expect("just seen");
        let task = match entry.issuer {
            None => TaskKind::Root,
            Some(issuer) => TaskKind::Call { target: entry.target.clone(), issuer },
        };
        let fragment = self.add_fragment(Origin::Async, Shares::default());
        self.agenda.as_mut().expect("there is an agenda").current.push((fragment, entry));
        Some(Job::Start { fragment, task })
    }

    /// A function waits for a call that its own worker runs.
    pub(super) fn await_cached(&mut self, fragment: u32, ask: RemoteRequests) {
        let [(_, asked)] = <[_; 1]>::try_from(ask.operations).expect("one call at a time");
        let Operation::Call(target) = asked.operation else {
            panic!("a graph that reaches for state elsewhere is not re-invoked from its cache");
        };
        let path = target.path.expect("among several workers paths are kept");
        let agenda = self.agenda.as_mut().expect("there is an agenda");
        agenda.blocked.push((fragment, path, target.place));
    }
}

fn starts_with(entry: &CachedCall, path: &Path) -> bool {
    entry.target.path.as_ref().is_some_and(|own| own.starts_with(path))
}

impl Graphs {
    /// A function of the agenda is over.
    pub(super) fn entry_done(&mut self, graph: GraphId, fragment: u32, result: Result<Value, Abort>) {
        let part = self.part(graph);
        part.remove_fragment(fragment);
        let agenda = part.agenda.as_mut().expect("there is an agenda");
        let at = agenda.current.iter().position(|(of, _)| *of == fragment).expect("it was on the agenda");
        let (_, entry) = agenda.current.swap_remove(at);
        let number = part.header.number;
        match entry.issuer {
            None => part.root.as_mut().expect("the root has no issuer").result = Some(result),
            Some(issuer) => {
                let result =
                    CachedResult { graph, number, place: entry.target.place, answer: RemoteResponse::called(result) };
                self.mail(issuer).results.push(result);
            }
        }
    }

    /// Another worker's function is over for which one here may wait.
    pub(super) fn cached_result(&mut self, result: CachedResult) {
        let Some(part) = self.parts.get_mut(result.graph) else { return };
        let Some(agenda) = part.agenda.as_mut().filter(|_| part.header.number == result.number) else { return };
        agenda.results.push((result.place, result.answer));
        self.run(result.graph);
    }

    /// All of the agenda is done: the root is told, once.
    pub(super) fn agenda_done(&mut self, graph: GraphId) {
        let part = self.part(graph);
        let agenda = part.agenda.as_mut().expect("there is an agenda");
        if !std::mem::replace(&mut agenda.told, true) {
            let report = part.take_report();
            self.acknowledge(graph, None, report);
        }
    }
}
