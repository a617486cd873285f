//! The first stage of a round: what is rooted here is executed, some at a time where there are several
//! workers, until all of it is complete.

use std::collections::BTreeMap;
use std::ops::Range;

use super::super::Batch;
use super::super::graphs::{Graphs, Part};
use super::super::ground::Ground;
use super::super::io::Executed;
use super::roots::{Opened, Roots};
use super::take_execution;
use crate::cluster::worker_set::WorkerSet;
use crate::execute::attempt::{Execution, Finding};
use crate::execute::task::{GraphId, RunId};
use crate::ids::{Tid, WorkerId};
use crate::wire::fault::why;
use crate::wire::mail::Joined;
use crate::wire::message::{GraphEnd, QueryEnd};

/// See the module.
#[derive(Debug)]
pub(super) struct Executing<W> {
    queries: Roots<W>,
    /// Roots handed out to be executed.
    handed_out: usize,
    /// Whether some are out.
    out: bool,
    /// Roots that wait for other workers.
    open: usize,
    /// Graphs of several workers that are rooted here.
    ends: Vec<GraphEnd>,
    /// Queries that are rooted here, and of which other workers have lines to show.
    logged: Vec<QueryEnd>,
    /// Long transactions and queries of which other workers have not all answered.
    joining: BTreeMap<RunId, Joining>,
}

/// A long transaction, or a query, that is to take part.
#[derive(Debug)]
struct Joining {
    missing: WorkerSet,
    /// Whether all that it has read still counts; of a query always.
    current: bool,
    /// None of a query.
    end: Option<GraphEnd>,
}

/// What follows when another worker has answered.
pub(super) enum Answered {
    Waits,
    /// All workers know a query.
    Begins(RunId),
    /// A transaction does not take part: something that it has read was written.
    Stale(Tid),
}

impl<W> Executing<W> {
    pub fn new(queries: Roots<W>) -> Self {
        let (ends, logged, joining) = (Vec::new(), Vec::new(), BTreeMap::new());
        Executing { queries, handed_out: 0, out: false, open: 0, ends, logged, joining }
    }

    /// The next roots to be executed; none while some are out, or while there is no room for more that may
    /// wait for other workers.
    pub fn next_batch(&mut self, roots: &Roots<W>, ground: &Ground, under_way: usize, most: usize) -> Option<Batch> {
        let (slots, total) = (roots.len(), roots.len() + self.queries.len());
        if self.out {
            return None;
        }
        let range = next(self.handed_out..total, under_way, most)?;
        (self.handed_out, self.out) = (range.end, true);
        Some(Batch {
            transactions: roots.transactions(range.start.min(slots)..range.end.min(slots)),
            queries: self.queries.transactions(range.start.max(slots) - slots..range.end.max(slots) - slots),
            state: ground.state().clone(),
            catalog: ground.catalog().clone(),
            view: ground.is_shared().then(|| ground.view().clone()),
        })
    }

    /// A batch has come back; gives how many of it need other workers.
    pub fn executed(&mut self, executed: Executed, roots: &mut Roots<W>, me: WorkerId, graphs: &mut Graphs) -> usize {
        assert!(std::mem::replace(&mut self.out, false), "what comes back was handed out");
        let (transactions, queries) = (roots.add(executed.transactions), self.queries.add(executed.queries));
        assert_eq!(roots.started() + self.queries.started(), self.handed_out, "all that was handed out comes back");
        let opened = transactions.len() + queries.len();
        self.open += opened;
        for Opened { at, attempt, progress } in transactions {
            let transaction = roots.transaction(at);
            graphs.open(GraphId(transaction.tid.0), transaction.clone(), attempt, progress);
        }
        for Opened { at, attempt, progress } in queries {
            graphs.open(GraphId::of_query(me, at), self.queries.transaction(at).clone(), attempt, progress);
        }
        opened
    }

    /// A graph that is rooted here is complete.
    pub fn concluded(&mut self, mut part: Box<Part>, roots: &mut Roots<W>, ground: &Ground) {
        self.open -= 1;
        let end = part.end(ground.reads_snapshot(&part.transaction));
        let mut execution = take_execution(&mut part);
        let postponed = part.report.has(Finding::Postponed);
        if postponed {
            execution = Execution { postponed, lacks: part.report.has(Finding::Lacks), ..Execution::default() };
        }
        let graph = part.header.graph;
        if let Some(at) = graph.query_place() {
            if !postponed && part.report.has(Finding::Logged) {
                self.logged.push(QueryEnd { graph, number: end.number, workers: end.workers });
            }
            return self.queries.set(at, execution);
        }
        roots.set(roots.find(end.tid), execution);
        if !postponed && end.workers != WorkerSet::only(ground.me()) {
            self.ends.push(end);
        }
    }

    /// A long transaction, or a query, asks other workers to take part.
    pub fn join(&mut self, run: RunId, workers: WorkerSet, end: Option<GraphEnd>) {
        self.joining.insert(run, Joining { missing: workers, current: true, end });
    }

    /// Another worker has answered.
    ///
    /// # Errors
    /// It was not asked.
    pub fn joined(&mut self, from: WorkerId, joined: Joined) -> Result<Answered, &'static str> {
        let Some(joining) = self.joining.get_mut(&joined.run).filter(|joining| joining.missing.contains(from)) else {
            return Err(why::NOT_ASKED);
        };
        joining.missing.remove(from);
        joining.current &= joined.current;
        if !joining.missing.is_empty() {
            return Ok(Answered::Waits);
        }
        let Joining { current, end, .. } = self.joining.remove(&joined.run).expect("just seen");
        Ok(match end {
            None => Answered::Begins(joined.run),
            Some(end) if current => {
                self.ends.push(end);
                Answered::Waits
            }
            Some(end) => Answered::Stale(end.tid),
        })
    }

    /// When all that is rooted here is complete: the queries, the graphs of several workers among it, and the queries of
    /// which others have lines to show.
    pub fn complete(&mut self, roots: &Roots<W>) -> Option<(Roots<W>, Vec<GraphEnd>, Vec<QueryEnd>)> {
        let complete = self.handed_out == roots.len() + self.queries.len() && !self.out && self.open == 0;
        let complete = complete && self.joining.is_empty();
        if !complete {
            return None;
        }
        let (ends, logged) = (std::mem::take(&mut self.ends), std::mem::take(&mut self.logged));
        Some((std::mem::take(&mut self.queries), ends, logged))
    }

    /// What holds between steps.
    pub fn invariants(&self, roots: &Roots<W>) -> Result<(), &'static str> {
        let back = roots.started() + self.queries.started();
        if (back < self.handed_out) != self.out {
            return Err("roots are out as long as not all that were handed out have come back");
        }
        Ok(())
    }
}

/// Which of the roots that are left are next, while so many functions are under way of so many that may be; none while more
/// than half of them are. Those that wait do not wait for these.
fn next(left: Range<usize>, under_way: usize, most: usize) -> Option<Range<usize>> {
    if left.is_empty() || under_way > most / 2 {
        return None;
    }
    Some(left.start..left.end.min(left.start.saturating_add(most - under_way)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_next_than_there_is_room_for() {
        assert_eq!(next(3..20, 0, 8), Some(3..11));
        assert_eq!(next(3..20, 3, 8), Some(3..8));
        assert_eq!(next(3..20, 4, 8), Some(3..7));
        assert_eq!(next(3..20, 5, 8), None);
        assert_eq!(next(3..5, 1, 8), Some(3..5));
        assert_eq!(next(3..5, 1, usize::MAX), Some(3..5));
        assert_eq!(next(5..5, 0, 8), None);
    }
}
