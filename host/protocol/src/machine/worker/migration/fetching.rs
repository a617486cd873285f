//! What this worker owns and does not have yet: it arrives piece by piece, and what is needed at once is asked for
//! (*State Migration in Styx*, Algorithm 4).

use std::collections::{BTreeMap, BTreeSet};

use crate::execute::attempt::Operation;
use crate::ids::{OperatorId, PartitionId, PlacementVersion, Tid, WorkerId};
use crate::sequence::writes::PackedWrites;
use crate::state::State;
use crate::state::entity::{Entity, Key};
use crate::wire::fault::why;
use crate::wire::moving::{Moving, MovingMail, ShadowPiece, Wanted};

/// Times that a transaction lacks one entity after the other before it gets all of the partition.
pub(crate) const LACKS_MAX: u8 = 2;
/// Transactions of which that is counted; beyond them all are counted anew.
const COUNTED_MAX: usize = 1 << 16;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Fetching {
    version: PlacementVersion,
    /// Partitions of which not all is here, and who has the rest.
    sources: BTreeMap<PartitionId, WorkerId>,
    /// What was asked for and has not arrived: nothing is asked for twice.
    asked: BTreeSet<(PartitionId, Option<(OperatorId, Key)>)>,
    wanted: BTreeMap<WorkerId, Vec<Wanted>>,
    /// How often attempts of a transaction lacked something here.
    lacked: BTreeMap<Tid, u8>,
    /// What arrived while the state was read, or before the placement.
    arrived: Vec<(PlacementVersion, WorkerId, Arrival)>,
    /// The coordinator does not know yet that all is here.
    told: bool,
}

#[derive(Debug)]
enum Arrival {
    Fetched(PackedWrites),
    Pieces(Vec<ShadowPiece>),
}

impl Fetching {
    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Partitions are this worker's with a placement, and the rest of each is with another one.
    pub fn begin(&mut self, version: PlacementVersion, sources: BTreeMap<PartitionId, WorkerId>) {
        debug_assert!(self.is_empty(), "one migration after the other");
        let arrived = std::mem::take(&mut self.arrived);
        *self = Fetching { version, sources, arrived, ..Fetching::default() };
    }

    /// Something is needed at once: whether all of it is here; what is not is asked for.
    pub fn want(&mut self, state: &State, operation: &Operation) -> bool {
        let mut is_here = true;
        let mut lacks = |id, wanted| {
            is_here = false;
            self.ask(id, wanted);
        };
        match operation {
            Operation::Get(entity) | Operation::Put(entity, _) if state.lacks(entity) => {
                lacks(entity.partition(), Wanted::Entity(entity.clone()));
            }
            Operation::Scan(scan) => {
                state.lacking(scan.operator, scan.partition).for_each(|id| lacks(id, Wanted::Partition(id)));
            }
            Operation::Get(_) | Operation::Put(..) | Operation::Call(_) | Operation::Observe(_) => {}
        }
        is_here
    }

    /// An attempt of a transaction lacked an entity, which is asked for, to be here when the next attempt is made. An attempt
    /// ends where it lacks the first: who lacks one after the other would not end before all has come anyway, and gets the
    /// partition as a whole, before others and however little may be copied. Not so a query, of which `tid` is 0: it runs
    /// beside the epochs in the end, and waits there.
    pub fn lacked(&mut self, tid: Tid, entity: Entity, state: &State) {
        let id = entity.partition();
        if self.want(state, &Operation::Get(entity)) || tid == Tid(0) {
            return;
        }
        if self.lacked.len() >= COUNTED_MAX {
            self.lacked.clear();
        }
        let times = self.lacked.entry(tid).or_default();
        *times = times.saturating_add(1);
        if *times > LACKS_MAX {
            self.ask(id, Wanted::Partition(id));
        }
    }

    fn ask(&mut self, id: PartitionId, wanted: Wanted) {
        let key = match &wanted {
            Wanted::Entity(entity) => Some((entity.operator(), entity.key().clone())),
            Wanted::Partition(_) => None,
        };
        if let Some(source) = self.sources.get(&id)
            && self.asked.insert((id, key))
        {
            self.wanted.entry(*source).or_default().push(wanted);
        }
    }

    /// What is to be asked of others.
    pub fn take_mails(&mut self) -> Vec<(WorkerId, MovingMail)> {
        let version = self.version;
        let mail = |(from, wanted)| (from, MovingMail { version, moving: Moving::Wanted(wanted) });
        std::mem::take(&mut self.wanted).into_iter().map(mail).collect()
    }

    /// Something that was asked for arrives.
    pub fn fetched(&mut self, from: WorkerId, version: PlacementVersion, writes: PackedWrites) {
        self.arrived.push((version, from, Arrival::Fetched(writes)));
    }

    /// Pieces of what is missing arrive.
    pub fn pieces(&mut self, from: WorkerId, version: PlacementVersion, pieces: Vec<ShadowPiece>) {
        self.arrived.push((version, from, Arrival::Pieces(pieces)));
    }

    /// Whether something waits for the state not to be read.
    pub fn has_arrived(&self) -> bool {
        self.arrived.iter().any(|(version, ..)| *version == self.version)
    }

    /// Puts what has arrived into its place, while nobody reads the state; gives from whom pieces were, and who sent what
    /// cannot be, and why.
    pub fn settle(&mut self, state: &mut State) -> (Vec<WorkerId>, Option<(WorkerId, &'static str)>) {
        let (mut taken, mut fault) = (Vec::new(), None);
        let version = self.version;
        let arrived: Vec<_> = self.arrived.extract_if(.., |(of, ..)| *of <= version).collect();
        for (of, from, arrival) in arrived {
            let settled = match arrival {
                _ if of < version => Err(why::PLACEMENT),
                Arrival::Fetched(writes) => self.settle_fetched(from, &writes, state),
                Arrival::Pieces(pieces) => {
                    taken.push(from);
                    pieces.into_iter().try_for_each(|piece| self.settle_piece(from, piece, state))
                }
            };
            if let Err(why) = settled {
                fault.get_or_insert((from, why));
            }
        }
        (taken, fault)
    }

    fn settle_fetched(&mut self, from: WorkerId, writes: &PackedWrites, state: &mut State) -> Result<(), &'static str> {
        for (entity, value) in writes.unpack(&state.layout()).map_err(|_| why::NO_WRITES)? {
            let id = entity.partition();
            // All of the partition may have come before.
            if self.sources.get(&id).is_some_and(|source| *source != from) {
                return Err(why::PLACEMENT);
            }
            self.asked.remove(&(id, Some((entity.operator(), entity.key().clone()))));
            state.incomplete(id).arrive(entity, value, true).map_err(|_| why::NOT_ANNOUNCED)?;
        }
        Ok(())
    }

    fn settle_piece(
        &mut self,
        from: WorkerId,
        ShadowPiece { partition: id, writes, last }: ShadowPiece,
        state: &mut State,
    ) -> Result<(), &'static str> {
        if self.sources.get(&id) != Some(&from) {
            return Err(why::PLACEMENT);
        }
        let mut upto = None;
        for (entity, value) in writes.unpack(&state.layout()).map_err(|_| why::NO_WRITES)? {
            if entity.partition() != id {
                return Err(why::PLACEMENT);
            }
            upto = Some((entity.operator(), entity.key().clone()));
            state.incomplete(id).arrive(entity, value, false).map_err(|_| why::NOT_ANNOUNCED)?;
        }
        if last {
            state.incomplete(id).complete().map_err(|_| why::NOT_ANNOUNCED)?;
            self.sources.remove(&id);
            self.asked.retain(|(of, _)| *of != id);
        } else {
            state.incomplete(id).arrived_upto(upto.ok_or(why::NOT_ANNOUNCED)?);
        }
        Ok(())
    }

    /// Whether all is here, once.
    pub fn take_complete(&mut self) -> Option<PlacementVersion> {
        if self.version == PlacementVersion::default() || self.told || !self.is_empty() {
            return None;
        }
        self.told = true;
        Some(self.version)
    }
}
