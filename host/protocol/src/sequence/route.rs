//! Which worker a request belongs to.

use crate::cluster::placement::Placement;
use crate::ids::{PartitionId, RequestId, WorkerId};
use crate::sequence::catalog::Catalog;
use crate::sequence::transaction::Request;
use crate::state::entity::Layout;

/// The worker that sequences a request: the owner of its entity; or, if its end is to be
/// remembered, the one that remembers, so that whoever brings the id again meets it there.
pub fn sequencer_of(request: &Request, layout: &Layout, catalog: &Catalog, placement: &Placement) -> WorkerId {
    if request.retained {
        return memory_of(request.id, layout, placement);
    }
    let composite = catalog.operator(request.operator).is_some_and(|operator| operator.composite);
    placement.owner(layout.partition(&request.key, composite))
}

/// The worker that remembers the end of a request.
pub fn memory_of(id: RequestId, layout: &Layout, placement: &Placement) -> WorkerId {
    placement.owner(partition_of(id, layout))
}

/// The partition that the memory of a request belongs to.
pub fn partition_of(id: RequestId, layout: &Layout) -> PartitionId {
    layout.of_memory(layout.memory(id))
}
