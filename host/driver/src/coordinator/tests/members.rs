//! Workers that join, leave, were emptied; and a migration for which everything stops.

use styx_protocol::ids::WorkerId;

use super::*;
use crate::testing::shop;

const NEW: NodeId = NodeId(13);
const DIGEST: Digest = Digest([9; 32]);

impl Rig {
    fn deploy_operator(&mut self) {
        let control = Control::Deploy(shop(DIGEST));
        self.step(Event::Deploy { control, waiter: "app" });
        self.advance();
    }

    fn migrate(&mut self, goal: Goal, options: MigrationOptions) {
        self.step(Event::Migrate { goal, options, waiter: Some("admin") });
        self.advance();
        self.advance();
    }

    /// The nodes that have the partitions, in order.
    fn owners(&self) -> Vec<u64> {
        let leader = self.driver.leader.as_ref().unwrap();
        let node = |owner: &WorkerId| leader.node(*owner).0;
        leader.placement().owners().iter().map(node).collect()
    }

    fn nodes_of_generation(&self) -> Vec<NodeId> {
        self.members.iter().map(|member| member.node).collect()
    }

    /// Among whom partitions are to be shared out, each time that this was wanted.
    fn shared_out(&self) -> Vec<Vec<NodeId>> {
        let among = |effect: &Effect<&'static str, &'static str>| match effect {
            Effect::ShareOut { nodes, .. } => Some(nodes.clone()),
            _ => None,
        };
        self.effects.iter().filter_map(among).collect()
    }
}

#[test]
fn a_worker_joins_when_it_has_compiled_what_is_deployed_and_has_nothing_before_its_share() {
    let mut rig = Rig::live(false);
    rig.deploy_operator();
    let (generation, before) = (rig.generation, rig.owners());
    rig.slow_compilers = true;
    rig.nodes.push(NEW);
    rig.beats(100);
    assert_eq!(rig.generation, generation, "nobody waits for it");
    let told = |effect: &Effect<_, _>| {
        matches!(effect, Effect::SendControl { to: NEW, envelope: Envelope::PrepareComponent(DIGEST) })
    };
    assert!(rig.has(told));
    rig.envelope(NEW, Envelope::ComponentPrepared(DIGEST, Err("no memory".into())));
    rig.beats(20);
    assert_eq!(rig.generation, generation, "it cannot");
    rig.envelope(NEW, Envelope::ComponentPrepared(DIGEST, Ok(())));
    rig.beats(20);
    assert_eq!(rig.generation, generation.next());
    assert_eq!(rig.nodes_of_generation(), [NodeId(11), NodeId(12), NEW]);
    assert_eq!(rig.owners(), before);
    assert_eq!(rig.shared_out(), [vec![NodeId(11), NodeId(12), NEW]]);
    rig.beats(110);
    assert_eq!(rig.shared_out().len(), 2, "nothing has come of it: it is wanted again");
    rig.step(Event::CancelMigration { waiter: None });
    rig.beats(1000);
    assert_eq!(rig.shared_out().len(), 2, "nobody wants it");

    rig.mail = true;
    rig.migrate(Goal::Balance, MigrationOptions::default());
    assert_eq!(rig.owners().iter().filter(|node| **node == NEW.0).count(), 1);
}

#[test]
fn shares_can_be_left_to_the_operator() {
    let mut rig = Rig::new(CoordinatorConfig { shares: false, ..config(false) }, Leadership::Forever);
    rig.beats(4);
    rig.nodes.push(NEW);
    rig.beats(200);
    assert_eq!(rig.nodes_of_generation().len(), 3);
    assert!(rig.shared_out().is_empty());
}

#[test]
fn a_worker_that_is_lost_is_not_waited_for_by_one_that_compiles() {
    let mut rig = Rig::live(false);
    rig.deploy_operator();
    rig.slow_compilers = true;
    rig.nodes.push(NEW);
    rig.beats(10);
    let gone = NetworkEvent::Unreached { peer: NodeId(12), gone: true, why: "killed".into() };
    rig.nodes.retain(|node| *node != NodeId(12));
    rig.step(Event::Network(gone));
    rig.beats(10);
    assert_eq!(rig.nodes_of_generation(), [NodeId(11)], "not with the one that compiles");
    let gone = NetworkEvent::Unreached { peer: NodeId(11), gone: true, why: "killed".into() };
    rig.nodes.retain(|node| *node != NodeId(11));
    rig.step(Event::Network(gone));
    rig.beats(100);
    assert_eq!(rig.nodes_of_generation(), [NEW], "there is nobody else");
}

#[test]
fn one_that_compiles_is_not_waited_for_though_it_speaks_while_no_generation_runs() {
    let mut rig = Rig::live(true);
    rig.deploy_operator();
    rig.slow_compilers = true;
    rig.nodes.push(NEW);
    rig.beats(10);
    rig.store.push_back(Err(StoreFailure::Unavailable("it is away".into())));
    let gone = NetworkEvent::Unreached { peer: NodeId(12), gone: true, why: "killed".into() };
    rig.nodes.retain(|node| *node != NodeId(12));
    rig.step(Event::Network(gone));
    rig.beats(300);
    assert_eq!(rig.nodes_of_generation(), [NodeId(11)]);
}

#[test]
fn a_worker_that_leaves_gives_its_partitions_away_first() {
    let mut rig = Rig::live(false);
    rig.mail = true;
    let generation = rig.generation;
    rig.leaving.push(NodeId(12));
    rig.beats(10);
    assert_eq!(shown(&rig).unwrap().state, MigrationState::Done, "by a migration, in the same generation");
    assert_eq!(shown(&rig).unwrap().id.generation, generation);
    assert_eq!(rig.owners(), vec![11; 4]);
    assert_eq!((rig.generation, rig.nodes_of_generation()), (generation.next(), vec![NodeId(11)]));
    assert!(
        rig.has(|effect| { matches!(effect, Effect::SendControl { to: NodeId(12), envelope: Envelope::Released }) })
    );
}

/// The snapshot behind which owners may change is there: no other one is cut before something happens.
#[test]
fn owners_change_though_nothing_has_happened_since_the_last_snapshot() {
    let mut rig = Rig::live(true);
    rig.mail = true;
    rig.deploy("shop", "admin");
    rig.step(Event::TakeSnapshot { waiter: "keeper" });
    (0..rig.members.len()).for_each(|member| rig.part(member as u16, 1));
    let generation = rig.generation;
    let put = Ok(ManifestPut { sequence: 1, bytes: 2, written_bytes: 2 });
    rig.step(Event::ManifestPut { generation, result: put });
    rig.step(Event::Maintained { generation, result: Ok(None) });
    assert!(rig.has(|effect| matches!(effect, Effect::SnapshotAnswer { waiter: "keeper", result: Ok(_) })));
    rig.migrate(Goal::Empty(NodeId(12)), MigrationOptions::default());
    rig.beats(10);
    assert_eq!((rig.generation, rig.owners()), (generation, vec![11; 4]));
    assert_eq!(shown(&rig).unwrap().state, MigrationState::Done);
}

#[test]
fn a_coordinator_that_is_stopped_while_its_workers_leave_drains_once() {
    let mut rig = Rig::live(true);
    rig.deploy("shop", "admin");
    rig.leaving = rig.nodes.clone();
    rig.beats(1);
    rig.advance();
    rig.step(Event::Stop);
    (0..rig.members.len()).for_each(|member| rig.part(member as u16, 1));
    let generation = rig.generation;
    let put = Ok(ManifestPut { sequence: 1, bytes: 2, written_bytes: 2 });
    rig.step(Event::ManifestPut { generation, result: put });
    rig.beats(1);
    let said = |what: &str| {
        let says =
            |effect: &&Effect<_, _>| matches!(effect, Effect::Diagnostic(line) if line.message.starts_with(what));
        rig.effects.iter().filter(says).count()
    };
    assert_eq!((said("the generation drains"), said("a snapshot of epoch 1 was taken")), (1, 1));
}

#[test]
fn who_leaves_is_not_waited_for_for_ever_and_where_all_leave_nobody_gives_anything() {
    let mut rig = Rig::live(false);
    let generation = rig.generation;
    rig.leaving.push(NodeId(12));
    rig.beats(1900);
    assert_eq!(rig.generation, generation, "its partitions are on their way");
    rig.beats(200);
    assert_eq!(rig.nodes_of_generation(), [NodeId(11)], "for too long");

    let mut rig = Rig::live(false);
    rig.leaving = rig.nodes.clone();
    rig.beats(10);
    let released = |node: NodeId| move |effect: &Effect<_, _>| matches!(effect, Effect::SendControl { to, envelope: Envelope::Released } if *to == node);
    assert!(rig.has(released(NodeId(11))) && rig.has(released(NodeId(12))));
}

#[test]
fn who_was_emptied_stays_so_when_members_change_and_when_the_coordinator_is_another() {
    let mut rig = Rig::live(false);
    rig.mail = true;
    rig.migrate(Goal::Empty(NodeId(12)), MigrationOptions::default());
    assert_eq!(rig.owners(), [11; 4]);
    rig.nodes.push(NEW);
    rig.beats(100);
    assert_eq!(rig.nodes_of_generation().len(), 3);
    assert_eq!(rig.owners(), [11; 4]);
    assert_eq!(rig.shared_out(), [vec![NodeId(11), NEW]], "the newcomer is to have some, the emptied one is not");

    let log = rig.log.clone();
    let placed = log.last().unwrap();
    let [.., Control::Place(placement), Control::Seat(seats)] = &placed.controls[..] else { panic!("{placed:?}") };
    let seating = Seating { seats: seats.clone(), owners: placement.owners().to_vec() };
    let mut next = Rig::new(CoordinatorConfig { seating: Some(seating), ..config(false) }, Leadership::Forever);
    next.log = log;
    next.beats(10);
    assert_eq!(next.owners(), [11; 4]);
    assert_eq!(next.nodes_of_generation(), [NodeId(11), NodeId(12)]);
    assert!(next.shared_out().is_empty());
}

#[test]
fn what_is_on_its_way_to_a_worker_that_leaves_is_called_back_and_goes_elsewhere() {
    for (leaves, migrations) in [(11, 2), (12, 1)] {
        let mut rig = Rig::live(false);
        // What is to leave leaves only when it is allowed.
        rig.members.iter_mut().for_each(|member| member.machine.copy_as_allowed());
        rig.migrate(Goal::Empty(NodeId(12)), MigrationOptions::default());
        rig.leaving.push(NodeId(leaves));
        rig.beats(5);
        let newest = shown(&rig).unwrap();
        assert_eq!((newest.id.number, newest.state), (migrations, MigrationState::Copying), "{leaves}");
    }
}

#[test]
fn what_a_worker_that_leaves_had_goes_to_those_that_were_not_emptied() {
    let mut rig = Rig::new(CoordinatorConfig { workers: 3, ..config(false) }, Leadership::Forever);
    rig.nodes.push(NEW);
    rig.beats(4);
    rig.mail = true;
    rig.migrate(Goal::Empty(NodeId(12)), MigrationOptions::default());
    rig.leaving.push(NodeId(11));
    rig.beats(10);
    assert_eq!(rig.owners(), [NEW.0; 4]);
    // There is nobody else any more.
    rig.nodes.retain(|node| *node != NodeId(11));
    rig.leaving.push(NEW);
    rig.beats(10);
    assert_eq!(rig.owners(), [12; 4]);
}

#[test]
fn a_migration_that_stops_everything_is_done_when_the_next_generation_is_live() {
    let mut rig = Rig::live(false);
    let (generation, before) = (rig.generation, rig.owners());
    let options = MigrationOptions { mode: MigrationMode::StopAndRestart, ..MigrationOptions::default() };
    let moves = |to| Goal::Move(vec![(PartitionId(0), to)]);
    let other = rig.nodes.iter().copied().find(|node| node.0 != before[0]).unwrap();
    rig.migrate(moves(NodeId(before[0])), options);
    assert_eq!(rig.generation, generation, "it is there already");
    rig.step(Event::Migrate { goal: moves(other), options, waiter: Some("admin") });
    let begun = shown(&rig).unwrap();
    assert_eq!((begun.state, begun.partitions.of), (MigrationState::Flipping, 1), "it is shown while it is under way");
    assert_eq!(rig.deployed(), [""; 0]);
    rig.beats(10);
    assert_eq!((rig.generation, rig.owners()[0]), (generation.next(), other.0));
    assert_eq!(rig.owners()[1..], before[1..]);
    assert_eq!((rig.deployed(), shown(&rig).unwrap().state), (vec!["admin"], MigrationState::Done));
    rig.nodes.push(NEW);
    rig.beats(100);
    assert_eq!(rig.owners()[0], other.0, "and it stays so");
}
