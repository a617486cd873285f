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
        self.step(Event::Migrate { goal, options, gains: vec![], waiter: Some("admin") });
        self.advance();
        self.advance();
    }

    /// The nodes that have the partitions, in order.
    fn owners(&self) -> Vec<u64> {
        let leader = self.driver.leader.as_ref().unwrap();
        let node = |owner: &WorkerId| leader.node(*owner).0;
        leader.placement().owners().iter().map(node).collect()
    }

    /// A snapshot of this epoch is taken.
    fn take_snapshot(&mut self, epoch: u64) {
        self.step(Event::TakeSnapshot { waiter: "keeper" });
        self.is_written(epoch);
        assert!(self.has(|effect| matches!(effect, Effect::SnapshotAnswer { waiter: "keeper", result: Ok(_) })));
    }

    /// All that a snapshot of this epoch needs is in the store.
    fn is_written(&mut self, epoch: u64) {
        (0..self.members.len()).for_each(|member| self.part(member as u16, epoch));
        let generation = self.generation;
        let put = Ok(ManifestPut { sequence: epoch, bytes: 2, written_bytes: 2 });
        self.step(Event::ManifestPut { generation, result: put });
        self.step(Event::Maintained { generation, result: Ok(None) });
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

/// Who has what, as the end of the log says.
fn seated(log: &[Arc<EpochRecord>]) -> Seating {
    let placed = log.last().unwrap();
    let [.., Control::Place(placement), Control::Seat(seats)] = &placed.controls[..] else { panic!("{placed:?}") };
    Seating { seats: seats.clone(), owners: placement.owners().to_vec() }
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
    rig.take_snapshot(1);
    let generation = rig.generation;
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

    let mut next =
        Rig::new(CoordinatorConfig { seating: Some(seated(&rig.log)), ..config(false) }, Leadership::Forever);
    next.log = rig.log.clone();
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
fn who_would_hold_more_than_it_may_gets_nothing_and_everything_goes_on() {
    let mut rig = Rig::live(false);
    rig.mail = true;
    rig.holdings.insert(NodeId(11), Holdings { bytes: 10, most: 100, apps: vec![] });
    rig.beats(1);
    let (before, goal) = (rig.owners(), Goal::Empty(NodeId(12)));
    for mode in [MigrationMode::Online, MigrationMode::Immediate, MigrationMode::StopAndRestart] {
        let options = MigrationOptions { mode, ..MigrationOptions::default() };
        let gains = vec![(NodeId(11), 90)];
        rig.step(Event::Migrate { goal: goal.clone(), options, gains, waiter: Some("admin") });
        let refused = rig.effects.drain(..).find_map(|effect| match effect {
            Effect::Answer("admin", Answer::Controlled(Err(abort))) => Some(abort.message.to_string()),
            _ => None,
        });
        assert_eq!(
            refused.as_deref(),
            Some("worker 1 has no room for that: it would hold 100 bytes of state, and may hold 100")
        );
        assert_eq!(rig.owners(), before);
    }
    let gains = vec![(NodeId(11), 89)];
    let options = MigrationOptions { dry_run: true, ..MigrationOptions::default() };
    let may = Event::Migrate { goal: goal.clone(), options, gains: gains.clone(), waiter: Some("admin") };
    rig.step(may);
    let answered = |effect| matches!(effect, Effect::Answer("admin", Answer::Controlled(Ok(()))));
    assert!(rig.effects.drain(..).any(answered) && rig.owners() == before, "nothing is done in a dry run");
    rig.step(Event::Migrate { goal, options: Default::default(), gains, waiter: Some("admin") });
    rig.advance();
    rig.advance();
    assert_eq!(rig.owners(), [11; 4]);
}

#[test]
fn a_migration_that_stops_everything_is_done_when_the_next_generation_is_live_and_the_log_says_so() {
    let mut rig = Rig::live(false);
    let (generation, before) = (rig.generation, rig.owners());
    let options = MigrationOptions { mode: MigrationMode::StopAndRestart, ..MigrationOptions::default() };
    let moves = |to| Goal::Move(vec![(PartitionId(0), to)]);
    let other = rig.nodes.iter().copied().find(|node| node.0 != before[0]).unwrap();
    rig.migrate(moves(NodeId(before[0])), options);
    assert_eq!(rig.generation, generation, "it is there already");
    rig.step(Event::Migrate { goal: moves(other), options, gains: vec![], waiter: Some("admin") });
    let begun = shown(&rig).unwrap();
    assert_eq!((begun.state, begun.partitions.of), (MigrationState::Flipping, 1), "it is shown while it is under way");
    assert_eq!(rig.deployed(), [""; 0]);
    rig.slow_log = true;
    rig.beats(10);
    assert_eq!((rig.generation, rig.owners()[0]), (generation.next(), other.0));
    assert_eq!(rig.owners()[1..], before[1..]);
    assert_eq!(shown(&rig).unwrap().state, MigrationState::Flipping, "who begins anew does not know of it yet");
    rig.step(Event::Migrate {
        goal: Goal::Empty(other),
        options: Default::default(),
        gains: vec![],
        waiter: Some("second"),
    });
    let refused = |effect: &Effect<_, _>| matches!(effect, Effect::Answer("second", Answer::Controlled(Err(_))));
    assert!(rig.has(refused) && rig.deployed().is_empty());
    rig.slow_log = false;
    rig.sync();
    assert_eq!((rig.deployed(), shown(&rig).unwrap().state), (vec!["admin"], MigrationState::Done));
    let mut next =
        Rig::new(CoordinatorConfig { seating: Some(seated(&rig.log)), ..config(false) }, Leadership::Forever);
    next.log = rig.log.clone();
    next.beats(10);
    assert_eq!(next.owners(), rig.owners());
    rig.nodes.push(NEW);
    rig.beats(100);
    assert_eq!(rig.owners()[0], other.0, "and it stays so");
}

/// A generation that ends before its log says so leaves it to the next.
#[test]
fn a_migration_that_stops_everything_is_done_by_whichever_generation_the_log_says_it() {
    let mut rig = Rig::live(false);
    let generation = rig.generation;
    let options = MigrationOptions { mode: MigrationMode::StopAndRestart, ..MigrationOptions::default() };
    rig.slow_log = true;
    rig.step(Event::Migrate { goal: Goal::Repartition(8), options, gains: vec![], waiter: Some("admin") });
    rig.beats(10);
    assert_eq!((rig.generation, rig.owners().len()), (generation.next(), 8));
    // What it has appended is not there.
    rig.log.clear();
    rig.appended.clear();
    let gone = NetworkEvent::Unreached { peer: NodeId(12), gone: true, why: "killed".into() };
    rig.step(Event::Network(gone));
    assert!(rig.deployed().is_empty());
    rig.slow_log = false;
    rig.beats(100);
    assert!(rig.generation > generation.next());
    assert_eq!((rig.deployed(), shown(&rig).unwrap().state), (vec!["admin"], MigrationState::Done));
    assert_eq!((rig.owners().len(), seated(&rig.log).owners.len()), (8, 8));
}

/// A snapshot that is there is of other partitions, and another one is cut though nobody writes.
#[test]
fn owners_change_though_nothing_has_happened_since_everything_stopped_for_other_partitions() {
    let mut rig = Rig::live(true);
    rig.mail = true;
    let restart = MigrationOptions { mode: MigrationMode::StopAndRestart, ..MigrationOptions::default() };
    rig.migrate(Goal::Empty(NodeId(12)), restart);
    rig.beats(10);
    rig.take_snapshot(1);
    rig.store.push_back(Ok(Some(SnapshotFound { log_position: rig.end(), ..found(1) })));
    rig.migrate(Goal::Repartition(8), restart);
    rig.beats(10);
    assert_eq!((rig.owners(), shown(&rig).unwrap().state), (vec![11; 8], MigrationState::Done));
    rig.migrate(Goal::Balance, MigrationOptions::default());
    rig.beats(10);
    rig.is_written(2);
    rig.beats(10);
    assert_eq!(shown(&rig).unwrap().state, MigrationState::Done);
    assert_eq!(rig.owners().iter().filter(|node| **node == 12).count(), 4);
}
