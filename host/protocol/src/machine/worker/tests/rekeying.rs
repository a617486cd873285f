//! Keys of an operator get a prefix: a worker deals its entities out before the epoch is cut, and waits for the other's. Epochs
//! are of the log, which executes nothing.

use std::collections::BTreeMap;

use super::*;
use crate::abort::Abort;
use crate::ids::{PartitionId, PlacementVersion};
use crate::sequence::deployment::{Component, Deployment, Digest, Isolation, Limits, OperatorSpec};
use crate::sequence::writes::PackedWrites;
use crate::state::entity::Entity;
use crate::state::range::KeyRange;
use crate::wire::moving::{Moving, MovingMail, MovingMode};

const LAYOUT: Layout = Layout::new(1, 16);
const PEER: Node = Node::Worker(WorkerId(1));

fn deployment(prefix: Option<&str>) -> Deployment {
    Deployment {
        id: format!("dp_{prefix:?}"),
        app: "app".into(),
        created: Timestamp(0),
        components: vec![Component { name: "c".into(), digest: Digest([1; 32]), size: 0, sdk: "none".into() }],
        operators: vec![OperatorSpec {
            name: "o".into(),
            component: 0,
            key_prefix: prefix.map(Into::into),
            isolation: Isolation::Warm,
            doc: String::new(),
            state: Default::default(),
            functions: vec![],
        }],
        limits: Limits::default(),
        interface: Default::default(),
    }
}

fn epoch(number: u64, control: Control) -> Message {
    let Message::Begin(begin) = begin(number) else { unreachable!() };
    let replay = Some(Replay::Apply { begun: vec![], carried: vec![] });
    Message::Begin(Begin { epoch: Epoch(number), controls: vec![control], replay, ..begin })
}

fn entity(number: u32, composite: bool) -> Entity {
    Entity::new(&LAYOUT, OperatorId(0), composite, format!("p{}:{number}", number % 7).as_str().into())
}

/// The worker of an entity, as partitions are dealt out to two.
fn owner(entity: &Entity) -> u16 {
    entity.partition().0 % 2
}

fn packed(entities: impl IntoIterator<Item = Entity>) -> PackedWrites {
    let mut packed = PackedWrites::default();
    entities.into_iter().for_each(|entity| packed.push(&entity, Some(b"v")));
    packed
}

/// The first of two workers with its part of a hundred entities, whose keys have no prefix; a step moves so many.
fn filled(step_max: usize, piece_bytes: usize) -> Worker<u64> {
    let mut worker = worker_of(Config { layout: LAYOUT, snapshots: true, step_max, piece_bytes, ..config() });
    let writes = packed((0..100).map(|number| entity(number, false)).filter(|entity| owner(entity) == 0));
    let changes = EpochChanges { writes, ..EpochChanges::default() };
    say(&mut worker, Node::Coordinator, Message::Changes { round: Round(1), changes });
    say(&mut worker, Node::Coordinator, epoch(1, Control::Deploy(deployment(None))));
    while worker.is_unfinished() {
        step(&mut worker, Input::Continue);
    }
    assert!(worker.is_idle() && worker.state().len() > 30);
    worker
}

fn rekey() -> Message {
    epoch(2, Control::Rekey(deployment(Some("p"))))
}

fn dealt(round: u64, entities: impl IntoIterator<Item = Entity>, last: bool) -> Message {
    Message::Dealt { round: Round(round), entities: packed(entities), last }
}

/// What is sent to the other worker: keys, and whether those were the last.
fn sent(actions: &[Action<u64>]) -> Vec<(Vec<String>, bool)> {
    let sent = actions.iter().filter_map(|action| match action {
        Action::Send { to: PEER, message: Message::Dealt { entities, last, .. } } => Some((entities, *last)),
        _ => None,
    });
    let keys = |entities: &PackedWrites| {
        let entities = entities.unpack(&LAYOUT).unwrap().into_iter();
        entities.map(|(entity, _)| entity.key().to_string()).collect()
    };
    sent.map(|(entities, last)| (keys(entities), last)).collect()
}

fn is_over(actions: &[Action<u64>]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Send { message: Message::Finished(_), .. }))
}

fn why(actions: &[Action<u64>]) -> Vec<&str> {
    let why = actions.iter().filter_map(|action| match action {
        Action::Fault(fault) => Some(fault.why),
        _ => None,
    });
    why.collect()
}

#[test]
fn an_epoch_waits_for_what_both_deal_out_some_at_a_time() {
    let mut worker = filled(7, 60);
    // The other one may have begun before.
    let comes: Vec<Entity> = (0..100)
        .map(|number| entity(number, false))
        .filter(|before| owner(before) == 1)
        .map(|before| Entity::new(&LAYOUT, OperatorId(0), true, before.key().clone()))
        .filter(|entity| owner(entity) == 0)
        .collect();
    let (first, rest) = comes.split_at(3);
    assert!(say(&mut worker, PEER, dealt(2, first.to_vec(), false)).is_empty());
    let mut actions = say(&mut worker, Node::Coordinator, rekey());
    let (mut pieces, mut steps) = (Vec::new(), 0);
    loop {
        assert!(!is_over(&actions), "the other has not said its last");
        assert_eq!(why(&actions), Vec::<&str>::new());
        let some = sent(&actions);
        pieces.extend(some.iter().cloned());
        steps += 1;
        if worker.is_unfinished() {
            let before = worker.state().changes();
            actions = step(&mut worker, Input::Continue);
            assert!(worker.state().changes() - before <= 7 + 1, "a step changes so much");
        } else if pieces.last().is_some_and(|(_, last)| *last) {
            break;
        } else {
            // Two pieces are on their way at a time.
            actions = say(&mut worker, PEER, Message::DealtTaken(Round(2)));
        }
    }
    assert!(steps > 5 && pieces.len() > 3, "{steps} {}", pieces.len());
    assert!(!worker.is_idle());
    let mut actions = say(&mut worker, PEER, dealt(2, rest.to_vec(), true));
    while worker.is_unfinished() {
        assert!(!is_over(&actions));
        actions = step(&mut worker, Input::Continue);
    }
    assert!(is_over(&actions) && worker.is_idle());
    let mut gone: Vec<String> = pieces.into_iter().flat_map(|(keys, _)| keys).collect();
    gone.sort_unstable();
    let mut expected = Vec::new();
    for number in 0..100 {
        let (before, now) = (entity(number, false), entity(number, true));
        assert_eq!(worker.state().get(&now).is_some(), owner(&now) == 0, "{now:?}");
        if (owner(&before), owner(&now)) == (0, 1) {
            expected.push(now.key().to_string());
        }
    }
    expected.sort_unstable();
    assert_eq!(gone, expected);
    worker.state().check();
    assert_eq!(worker.state().len(), (0..100).filter(|number| owner(&entity(*number, true)) == 0).count());
}

#[test]
fn what_is_dealt_and_cannot_be_is_the_fault_of_its_sender() {
    let mine = |composite| (0..100).map(|number| entity(number, composite)).find(|entity| owner(entity) == 0).unwrap();
    let theirs = (0..100).map(|number| entity(number, true)).find(|entity| owner(entity) == 1).unwrap();
    let misplaced = Entity::within(
        &LAYOUT,
        OperatorId(0),
        PartitionId((mine(true).partition().0 + 2) % 16),
        mine(true).key().clone(),
    );
    let another = Entity::new(&LAYOUT, OperatorId(1), true, mine(true).key().clone());
    for wrong in [theirs, misplaced, another] {
        let mut worker = filled(STEP_MAX, PIECE_BYTES);
        say(&mut worker, Node::Coordinator, rekey());
        let actions = say(&mut worker, PEER, dealt(2, [wrong.clone()], true));
        assert_eq!(why(&actions), [why::NO_WRITES], "{wrong:?}");
    }
    let mut worker = filled(STEP_MAX, PIECE_BYTES);
    for round in [1, 3] {
        assert_eq!(why(&say(&mut worker, PEER, dealt(round, [], true))), [why::ANOTHER_ROUND], "{round}");
    }
    say(&mut worker, PEER, dealt(2, [], true));
    let actions = say(&mut worker, Node::Coordinator, epoch(2, Control::Remove("none".into())));
    assert_eq!(why(&actions), [why::NOT_ASKED], "no keys are others");

    let mut worker = filled(STEP_MAX, PIECE_BYTES);
    say(&mut worker, Node::Coordinator, rekey());
    assert_eq!(why(&say(&mut worker, PEER, Message::DealtTaken(Round(2)))), Vec::<&str>::new());
    assert_eq!(why(&say(&mut worker, PEER, Message::DealtTaken(Round(2)))), [why::NOT_ASKED]);
    let mut early = filled(STEP_MAX, PIECE_BYTES);
    let refused = (0..4).map(|_| why(&say(&mut early, PEER, dealt(2, [], false))).len()).collect::<Vec<_>>();
    assert_eq!(refused, [0, 0, 0, 1], "so many are not on their way");
}

#[test]
fn who_follows_partitions_since_the_round_began_hears_what_comes_and_goes() {
    let mut worker = filled(7, 60);
    let version = PlacementVersion(2);
    let moves = (0..16).step_by(2).map(|id| (PartitionId(id), WorkerId(1))).collect();
    let mut actions = say(&mut worker, Node::Coordinator, rekey());
    assert!(!worker.is_idle());
    actions.extend(say(&mut worker, Node::Coordinator, Message::Migrate { version, mode: MovingMode::Online, moves }));
    let mut followed: BTreeMap<(u16, String), bool> = BTreeMap::new();
    let mut last = false;
    loop {
        assert_eq!(why(&actions), Vec::<&str>::new());
        let mut answers = Vec::new();
        for action in std::mem::take(&mut actions) {
            let Action::Send { message, .. } = action else { continue };
            match message {
                Message::Moving(MovingMail { moving, .. }) => {
                    let (changes, is_piece) = match moving {
                        Moving::Copied(changes) => (changes, true),
                        Moving::Followed(changes) => (changes, false),
                        other => panic!("{other:?}"),
                    };
                    for (entity, value) in changes.writes.unpack(&LAYOUT).unwrap() {
                        followed.insert((entity.partition().0, entity.key().to_string()), value.is_some());
                    }
                    if is_piece {
                        answers.push(Message::Moving(MovingMail { version, moving: Moving::Taken }));
                    }
                }
                Message::Dealt { last: is_last, .. } => {
                    last |= is_last;
                    answers.push(Message::DealtTaken(Round(2)));
                }
                _ => {}
            }
        }
        for answer in answers {
            actions.extend(say(&mut worker, PEER, answer));
        }
        if worker.is_unfinished() {
            actions.extend(step(&mut worker, Input::Continue));
        } else if actions.is_empty() {
            break;
        }
    }
    assert!(last, "all is dealt out");
    followed.retain(|_, is_there| *is_there);
    let partitions = worker.state().partitions().iter().zip(0..);
    let entities = |id: u16| worker.state().scan(OperatorId(0), &KeyRange::all(), Some(PartitionId(id)), 1000, false);
    let here: Vec<(u16, String)> =
        partitions.flat_map(|(_, id)| entities(id).into_iter().map(move |(key, _)| (id, key.to_string()))).collect();
    assert_eq!(followed.into_keys().collect::<Vec<_>>(), here);
}

#[test]
fn keys_stay_while_partitions_move() {
    let mut worker = filled(STEP_MAX, PIECE_BYTES);
    let moves = vec![(PartitionId(0), WorkerId(1))];
    let migrate = Message::Migrate { version: PlacementVersion(2), mode: MovingMode::Online, moves };
    assert_eq!(why(&say(&mut worker, Node::Coordinator, migrate)), Vec::<&str>::new());
    assert_eq!(why(&say(&mut worker, Node::Coordinator, rekey())), [why::MOVES]);
    let refused: Result<(), Abort> = worker.catalog().check(&Control::Deploy(deployment(Some("p"))));
    assert!(refused.unwrap_err().message.contains("rekey"));
}
