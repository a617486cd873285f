//! A partition that is another worker's already: its former owner hands over what it had, and the new one asks for what it
//! needs at once.

use std::collections::BTreeMap;

use super::outgoing::{Allowance, PIECES_MAX};
use super::shadow::{Shadows, URGENT_MAX};
use super::{CopiedOf, CopyAllowance, CopyProgress, Fetching, LACKS_MAX};
use crate::execute::attempt::{Operation, Scan};
use crate::ids::{OperatorId, PartitionId, PlacementVersion, Tid, WorkerId};
use crate::sequence::writes::PackedWrites;
use crate::state::entity::{Entity, Layout, Value};
use crate::state::range::KeyRange;
use crate::state::{Partition, State};
use crate::wire::fault::why;
use crate::wire::moving::{Moving, MovingMail, ShadowPiece, Wanted};

const LAYOUT: Layout = Layout::new(1, 2);
const FORMER: WorkerId = WorkerId(0);
const OWNER: WorkerId = WorkerId(1);
const OTHER: WorkerId = WorkerId(2);
const GOES: PartitionId = PartitionId(0);
const STAYS: PartitionId = PartitionId(1);
const VERSION: PlacementVersion = PlacementVersion(7);
/// Of an operator.
const ENTITIES: usize = 40;

fn entity(operator: u32, key: &str) -> Entity {
    Entity::new(&LAYOUT, OperatorId(operator), false, key.into())
}

/// Some entities of a partition.
fn entities(operator: u32, of: PartitionId) -> impl Iterator<Item = Entity> {
    (0..)
        .map(move |number: u32| entity(operator, &format!("k{number:04}")))
        .filter(move |entity| entity.partition() == of)
}

fn value() -> Value {
    Value::from(&b"before"[..])
}

/// What there is of the partition that goes: of two operators.
fn all() -> Vec<Entity> {
    entities(1, GOES).take(ENTITIES).chain(entities(2, GOES).take(ENTITIES)).collect()
}

fn partition() -> Partition {
    let mut partition = Partition::default();
    all().into_iter().for_each(|entity| partition.apply(entity, Some(value())));
    partition
}

/// The former owner, and the new one with its state.
struct Two {
    shadows: Shadows,
    allowance: Allowance,
    progress: Option<CopyProgress>,
    fetching: Fetching,
    state: State,
}

impl Two {
    fn new() -> Self {
        let mut two = Two {
            shadows: Shadows::default(),
            allowance: Allowance::default(),
            progress: Some(CopyProgress {
                version: VERSION,
                partitions: CopiedOf::default(),
                entities: CopiedOf::default(),
                bytes: CopiedOf::default(),
            }),
            fetching: Fetching::default(),
            state: State::new(LAYOUT),
        };
        let mut incomplete = Partition::default();
        incomplete.announce(partition().inventory()).unwrap();
        two.state.restore(GOES, incomplete);
        two.shadows.begin(VERSION, vec![(GOES, OWNER, partition())]);
        two.fetching.begin(VERSION, BTreeMap::from([(GOES, FORMER)]));
        two
    }

    /// With a rate at which nothing is left to be copied.
    fn slow() -> Self {
        let mut two = Self::new();
        two.allowance.set(CopyAllowance::Bytes(0));
        two
    }

    /// What the new owner asks for.
    fn asks(&mut self) -> Vec<Wanted> {
        let mails = self.fetching.take_mails();
        let wanted = mails.into_iter().flat_map(|(to, MovingMail { version, moving })| match moving {
            Moving::Wanted(wanted) if (to, version) == (FORMER, VERSION) => wanted,
            other => panic!("{other:?}"),
        });
        wanted.collect()
    }

    /// What the former owner sends, and the partitions that it has no more.
    fn sends(&mut self, bytes: usize) -> (Vec<Moving>, usize) {
        let (mails, sent) = self.shadows.take_mails(&mut self.allowance, &mut self.progress, bytes);
        assert!(mails.iter().all(|(to, mail)| (*to, mail.version) == (OWNER, VERSION)));
        (mails.into_iter().map(|(_, mail)| mail.moving).collect(), sent.len())
    }

    /// It arrives; how many pieces of the copy that were.
    fn arrives(&mut self, moving: Vec<Moving>) -> usize {
        for moving in moving {
            match moving {
                Moving::Fetched(writes) => self.fetching.fetched(FORMER, VERSION, writes),
                Moving::Pieces(pieces) => self.fetching.pieces(FORMER, VERSION, pieces),
                other => panic!("{other:?}"),
            }
        }
        let (taken, fault) = self.fetching.settle(&mut self.state);
        assert_eq!(fault, None);
        taken.into_iter().filter(|from| *from == FORMER).count()
    }
}

fn get(entity: &Entity) -> Operation {
    Operation::Get(entity.clone())
}

fn scan(operator: u32) -> Operation {
    let (operator, range) = (OperatorId(operator), KeyRange::all());
    Operation::Scan(Scan { operator, range, partition: None, limit: 1000, reverse: false })
}

fn is_fetched(moving: &Moving) -> bool {
    matches!(moving, Moving::Fetched(_))
}

#[test]
fn what_is_needed_is_asked_for_once_and_comes_before_the_rest() {
    let mut two = Two::slow();
    let (wanted, none) = (entities(1, GOES).nth(30).unwrap(), entities(1, GOES).nth(ENTITIES).unwrap());
    let elsewhere = entities(1, STAYS).next().unwrap();
    assert!(two.fetching.want(&two.state, &get(&elsewhere)) && two.fetching.want(&two.state, &scan(3)));
    assert!(two.asks().is_empty(), "that is here");
    for needs in [get(&wanted), Operation::Put(wanted.clone(), Some(value())), get(&none)] {
        assert!(!two.fetching.want(&two.state, &needs), "{needs:?}");
    }
    assert_eq!(two.asks(), [Wanted::Entity(wanted.clone()), Wanted::Entity(none.clone())]);
    assert!(!two.fetching.want(&two.state, &get(&wanted)));
    assert!(two.asks().is_empty(), "it is on its way");

    assert_eq!(two.shadows.want(OTHER, vec![Wanted::Entity(wanted.clone())]), Err(why::PLACEMENT));
    two.shadows.want(OWNER, vec![Wanted::Entity(wanted.clone()), Wanted::Entity(none.clone())]).unwrap();
    let (moving, sent) = two.sends(1000);
    assert!(moving.len() == 1 && is_fetched(&moving[0]) && sent == 0, "nothing else may be copied: {moving:?}");
    assert!(!two.fetching.has_arrived());
    assert_eq!(two.arrives(moving), 0);
    assert_eq!((two.state.get(&wanted), two.state.get(&none)), (Some(&value()), None));
    for here in [&wanted, &none] {
        assert!(two.fetching.want(&two.state, &get(here)), "{here:?}");
    }
    assert!(two.asks().is_empty() && !two.fetching.is_empty() && two.fetching.take_complete().is_none());
}

#[test]
fn what_is_asked_for_of_one_partition_is_on_its_way_though_another_is_complete() {
    let mut two = Two::new();
    let there = entities(1, STAYS).next().unwrap();
    let (mut other, mut incomplete) = (Partition::default(), Partition::default());
    other.apply(there.clone(), Some(value()));
    incomplete.announce(other.inventory()).unwrap();
    two.state.restore(STAYS, incomplete);
    two.fetching = Fetching::default();
    two.fetching.begin(VERSION, BTreeMap::from([(GOES, FORMER), (STAYS, FORMER)]));
    assert!(!two.fetching.want(&two.state, &get(&there)));
    assert_eq!(two.asks(), [Wanted::Entity(there.clone())]);
    let (moving, sent) = two.sends(1 << 20);
    assert_eq!((sent, two.arrives(moving)), (1, 1));
    assert!(two.state.partitions()[0].is_whole() && !two.state.partitions()[1].is_whole());
    assert!(!two.fetching.want(&two.state, &get(&there)));
    assert!(two.asks().is_empty());
}

#[test]
fn a_scan_needs_the_whole_partition_however_little_may_be_copied() {
    let mut two = Two::slow();
    assert!(!two.fetching.want(&two.state, &scan(2)) && !two.fetching.want(&two.state, &scan(1)));
    assert_eq!(two.asks(), [Wanted::Partition(GOES)]);
    assert_eq!(two.sends(200), (vec![], 0));
    two.shadows.want(OWNER, vec![Wanted::Partition(GOES)]).unwrap();
    let mut pieces = 0;
    loop {
        let (moving, sent) = two.sends(200);
        assert!(moving.len() <= URGENT_MAX && !moving.is_empty(), "{moving:?}");
        pieces += moving.len();
        assert_eq!(two.sends(200), (vec![], 0), "no more are on their way");
        let taken = two.arrives(moving);
        (0..taken).for_each(|_| assert!(two.shadows.taken(OWNER)));
        if sent > 0 {
            break;
        }
    }
    assert!(pieces > 4 && two.shadows.is_empty());
    assert!(!two.shadows.taken(OWNER) && !two.shadows.taken(OTHER), "all that were on their way are there");
    assert!(two.fetching.is_empty() && two.state.partitions()[0].is_whole());
    assert_eq!(two.state.hash(), partition().hash());
    let progress = two.progress.unwrap();
    assert_eq!((progress.partitions.done, progress.entities.done), (1, all().len() as u64));
    assert_eq!(progress.bytes.done, partition().bytes());
    assert_eq!((two.fetching.take_complete(), two.fetching.take_complete()), (Some(VERSION), None), "told once");
    // Whoever asks for what is over has been sent it.
    two.shadows.want(OWNER, vec![Wanted::Partition(GOES), Wanted::Entity(all()[0].clone())]).unwrap();
    assert_eq!(two.sends(200), (vec![], 0));
}

#[test]
fn partitions_that_are_needed_come_in_the_order_in_which_they_were_asked_for() {
    let mut two = Two::slow();
    let mut other = Partition::default();
    entities(1, STAYS).take(ENTITIES).for_each(|entity| other.apply(entity, Some(value())));
    two.shadows.begin(VERSION, vec![(STAYS, OWNER, other)]);
    let mut order = Vec::new();
    let mut next = vec![Wanted::Partition(STAYS)];
    loop {
        two.shadows.want(OWNER, std::mem::take(&mut next)).unwrap();
        let (moving, _) = two.sends(1);
        assert!(moving.len() <= URGENT_MAX, "{moving:?}");
        for moving in moving {
            let Moving::Pieces(pieces) = moving else { panic!("{moving:?}") };
            order.extend(pieces.iter().map(|piece| piece.partition));
            assert!(two.shadows.taken(OWNER));
        }
        if two.shadows.is_empty() {
            break;
        }
        next.push(Wanted::Partition(GOES));
    }
    let change = order.partition_point(|id| *id == STAYS);
    assert!(change >= ENTITIES && order.len() > change, "{order:?}");
    assert!(order[change..].iter().all(|id| *id == GOES), "{order:?}");
}

#[test]
fn a_rate_bounds_what_is_copied_and_not_asked_for() {
    let mut two = Two::new();
    two.allowance.set(CopyAllowance::Bytes(250));
    let (moving, _) = two.sends(100);
    assert_eq!(moving.len(), PIECES_MAX);
    let taken = two.arrives(moving);
    (0..taken).for_each(|_| assert!(two.shadows.taken(OWNER)));
    let (moving, _) = two.sends(100);
    assert!((1..=PIECES_MAX).contains(&moving.len()));
    let taken = two.arrives(moving);
    (0..taken).for_each(|_| assert!(two.shadows.taken(OWNER)));
    assert_eq!(two.sends(100), (vec![], 0), "used up");
    two.allowance.set(CopyAllowance::Bytes(1000));
    two.allowance.take(1000 - 1);
    assert_eq!(two.sends(100), (vec![], 0), "what was too much is taken off the next ones");
    two.allowance.set(CopyAllowance::Unlimited);
    assert_eq!(two.sends(1 << 20).1, 1);
}

#[test]
fn what_arrives_and_cannot_be_is_the_fault_of_its_sender() {
    let packed = |entity: Option<&Entity>, bytes| {
        let mut writes = PackedWrites::default();
        entity.into_iter().for_each(|entity| writes.push(entity, Some(&vec![0; bytes])));
        writes
    };
    let piece = |partition, entity, bytes, last| vec![ShadowPiece { partition, writes: packed(entity, bytes), last }];
    let (mine, elsewhere) = (&all()[0], &entities(1, STAYS).next().unwrap());
    let pieces = [
        (FORMER, VERSION, piece(STAYS, None, 0, true), why::PLACEMENT),
        (OTHER, VERSION, piece(GOES, None, 0, true), why::PLACEMENT),
        (FORMER, PlacementVersion(6), piece(GOES, None, 0, true), why::PLACEMENT),
        (FORMER, VERSION, piece(GOES, Some(elsewhere), 6, false), why::PLACEMENT),
        // More than all that there was.
        (FORMER, VERSION, piece(GOES, Some(mine), 10_000, false), why::NOT_ANNOUNCED),
        (FORMER, VERSION, piece(GOES, None, 0, false), why::NOT_ANNOUNCED),
        (FORMER, VERSION, piece(GOES, Some(mine), 6, true), why::NOT_ANNOUNCED),
    ];
    for (from, version, pieces, why) in pieces {
        let mut two = Two::new();
        two.fetching.pieces(from, version, pieces.clone());
        assert_eq!(two.fetching.settle(&mut two.state).1, Some((from, why)), "{pieces:?}");
    }
    for (from, bytes, why) in [(OTHER, 6, why::PLACEMENT), (FORMER, 10_000, why::NOT_ANNOUNCED)] {
        let mut two = Two::new();
        two.fetching.fetched(from, VERSION, packed(Some(mine), bytes));
        assert_eq!(two.fetching.settle(&mut two.state).1, Some((from, why)));
    }
}

#[test]
fn what_arrives_before_its_placement_waits_for_it() {
    let mut two = Two::new();
    let (moving, _) = two.sends(1 << 20);
    two.fetching = Fetching::default();
    let [Moving::Pieces(pieces)] = &moving[..] else { panic!("{moving:?}") };
    two.fetching.pieces(FORMER, VERSION, pieces.clone());
    assert!(!two.fetching.has_arrived());
    assert_eq!(two.fetching.settle(&mut two.state), (vec![], None));
    two.fetching.begin(VERSION, BTreeMap::from([(GOES, FORMER)]));
    assert!(two.fetching.has_arrived());
    assert_eq!(two.fetching.settle(&mut two.state), (vec![FORMER], None));
    assert!(two.fetching.is_empty() && !two.fetching.has_arrived());
}

#[test]
fn queries_get_what_they_lack_and_no_more() {
    let mut two = Two::slow();
    for entity in entities(1, GOES).take(ENTITIES) {
        two.fetching.lacked(Tid(0), entity, &two.state);
        assert!(matches!(two.asks()[..], [Wanted::Entity(_)]), "others lacked something before");
    }
}

#[test]
fn who_lacks_one_entity_after_the_other_gets_the_partition() {
    let mut two = Two::slow();
    let mut attempts = 0;
    for (at, entity) in entities(1, GOES).take(ENTITIES).enumerate() {
        // As many others lack something, once each.
        two.fetching.lacked(Tid(1000 + at as u64), entities(2, GOES).nth(at).unwrap(), &two.state);
        if !two.state.lacks(&entity) {
            continue;
        }
        two.fetching.lacked(Tid(7), entity.clone(), &two.state);
        attempts += 1;
        let asked = two.asks();
        let all = asked.iter().filter(|wanted| matches!(wanted, Wanted::Partition(GOES))).count();
        assert_eq!(all, usize::from(attempts == LACKS_MAX + 1), "{attempts}: {asked:?}");
        two.shadows.want(OWNER, asked).unwrap();
        let sent = two.sends(1 << 20).0;
        two.arrives(sent);
        assert!(!two.state.lacks(&entity), "what is needed comes with the next answer");
    }
    assert_eq!(attempts, LACKS_MAX + 1, "it is executed so often in vain, however much it needs");
    assert!(two.fetching.is_empty(), "and however little may be copied");
}
