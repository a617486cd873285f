//! Scrutiny: whether what another worker says of a graph can be true, before anything is done about it.

use super::Part;
use crate::commit::share::{Share, Shares};
use crate::execute::attempt::{Operation, Report};
use crate::execute::task::GraphId;
use crate::ids::WorkerId;
use crate::machine::worker::ground::Ground;
use crate::state::entity::Entity;
use crate::wire::fault::why;
use crate::wire::mail::{Header, Order};

type Refusal = Result<(), &'static str>;

/// An order by itself: it names a graph, and something that is here.
pub(super) fn order(order: &Order, ground: &Ground) -> Refusal {
    let Order { header, asked, question, share, report: known } = order;
    report(known, Some(ground))?;
    if header.root.0 >= ground.view().placement.workers() {
        return Err(why::OTHER_WORKERS);
    }
    let graph = match header.graph.query_place() {
        Some(place) if header.query => GraphId::of_query(header.root, place),
        _ => GraphId(header.tid.0),
    };
    if graph != header.graph || header.query != graph.query_place().is_some() {
        return Err(why::ANOTHER_GRAPH);
    }
    let is_call = matches!(asked.operation, Operation::Call(_));
    if question.is_none() && !is_call {
        return Err(why::NOBODY_WAITS);
    }
    // One thread of control needs no shares; who runs its own calls of a cached graph is not asked.
    let is_shared = is_call && !header.mode.is_strict();
    let is_share = share.is_none_or(|share| Shares::default().admit(share));
    if header.mode.is_cached() || share.is_some() != is_shared || !is_share {
        return Err(why::SHARES);
    }
    if is_here(&asked.operation, ground) { Ok(()) } else { Err(why::NO_TARGET) }
}

/// What asks to take part in an epoch: it names the graph of a transaction that is rooted where it comes from.
pub fn join(header: &Header, from: WorkerId) -> Refusal {
    if header.root != from {
        return Err(why::OTHER_WORKERS);
    }
    let names = header.graph == GraphId(header.tid.0) && header.graph.query_place().is_none();
    if names { Ok(()) } else { Err(why::ANOTHER_GRAPH) }
}

fn is_here(operation: &Operation, ground: &Ground) -> bool {
    let owns = |entity: &Entity| {
        let composite = ground.catalog().is_composite(entity.operator());
        entity.is_sound(&ground.state().layout(), composite) && ground.owns(entity.partition())
    };
    match operation {
        Operation::Call(target) => {
            let operator = ground.catalog().operator(target.entity.operator());
            let exists = operator.is_some_and(|operator| operator.functions().nth(target.function.into()).is_some());
            exists && target.path.is_some() && target.depth < u32::MAX && owns(&target.entity)
        }
        Operation::Get(entity) | Operation::Put(entity, _) => owns(entity),
        Operation::Scan(scan) => {
            let exists = ground.catalog().operator(scan.operator).is_some();
            let partitions = ground.state().layout().partitions;
            exists && scan.partition.is_none_or(|partition| u32::from(partition.0) < partitions)
        }
        Operation::Observe(_) => true,
    }
}

/// A report: it speaks of workers that there are.
pub(super) fn report(report: &Report, ground: Option<&Ground>) -> Refusal {
    let fits = ground.is_none_or(|ground| report.workers.is_within(ground.view().placement.workers()));
    if fits { Ok(()) } else { Err(why::OTHER_WORKERS) }
}

/// An order for a graph that is known: of the same attempt, or of a later one that its root has begun elsewhere.
pub(super) fn follows(header: &Header, share: Option<Share>, known: &Part) -> Refusal {
    let Header { number, mode, .. } = known.header;
    if known.header != (Header { number, mode, ..*header }) {
        return Err(why::ANOTHER_GRAPH);
    }
    let same = (number, mode) == (header.number, header.mode);
    let later = number < header.number && known.root.is_none() && known.is_idle();
    if !(same || later) || known.is_complete() {
        return Err(why::ANOTHER_ATTEMPT);
    }
    if same && !share.is_none_or(|share| known.admits(share)) { Err(why::SHARES) } else { Ok(()) }
}
