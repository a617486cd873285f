//! One coordinator and what it hears, step by step.

use super::*;

const PATIENCE: Patience = Patience { silent_us: 100, settle_us: 50, drain_us: 1000 };

fn build(engine: EngineHash) -> Build {
    Build { version: "1.0.0".into(), engine }
}

/// A coordinator and workers whose heartbeats all arrive.
struct Cluster {
    membership: Membership<u16>,
    members: BTreeMap<u16, Member>,
    /// Workers whose beats get lost.
    deaf: Vec<u16>,
    /// Generations come to no rest.
    restless: bool,
    /// Who waits in vain for whom.
    silent: Option<(u16, WorkerId)>,
    now: u64,
    log: Vec<Action<u16>>,
}

impl Cluster {
    fn new(expected: usize, generation: Generation) -> Self {
        let membership = Membership::new(build(EngineHash(7)), PATIENCE, generation, expected, 1);
        Cluster {
            membership,
            members: BTreeMap::new(),
            deaf: vec![],
            restless: false,
            silent: None,
            now: 1,
            log: vec![],
        }
    }

    /// One whose first generation has so many members.
    fn of(members: u16) -> Self {
        let mut cluster = Cluster::new(usize::from(members), Generation(0));
        (1..=members).for_each(|place| cluster.join(place, 1));
        cluster.pass(60);
        cluster
    }

    fn join(&mut self, place: u16, life: u64) {
        self.members.insert(place, Member::new(life, build(EngineHash(7))));
    }

    fn input(&mut self, input: Input<u16>) {
        let mut actions = vec![];
        self.membership.step(self.now, input, &mut actions);
        for action in actions {
            match &action {
                Action::Persist(generation) => {
                    let generation = *generation;
                    self.log.push(action);
                    self.input(Input::Persisted(generation));
                    continue;
                }
                Action::Drain(generation) if !self.restless => {
                    let generation = *generation;
                    self.log.push(action);
                    self.input(Input::Drained(generation));
                    continue;
                }
                Action::Begin { generation, members } => {
                    for seated in members {
                        self.invite(seated, *generation);
                    }
                    self.log.push(action.clone());
                    self.input(Input::Live(self.membership.generation()));
                    continue;
                }
                Action::Invite(seated) => self.invite(seated, self.membership.generation()),
                Action::Beat(place, beat) => {
                    if !self.deaf.contains(place)
                        && let Some(member) = self.members.get_mut(place)
                    {
                        member.beat(*beat);
                    }
                    continue;
                }
                _ => {}
            }
            self.log.push(action);
        }
    }

    fn invite(&mut self, seated: &Seated<u16>, generation: Generation) {
        if !self.deaf.contains(&seated.place)
            && let Some(member) = self.members.get_mut(&seated.place)
        {
            member.invited(generation, seated.life);
        }
    }

    /// Time goes by with heartbeats every 10 µs.
    fn pass(&mut self, time: u64) {
        let end = self.now + time;
        while self.now < end {
            self.now += 10;
            let hellos: Vec<_> = self
                .members
                .iter()
                .map(|(place, member)| {
                    let silent = self.silent.filter(|(who, _)| who == place).map(|(_, whom)| whom);
                    (*place, member.hello(silent.into_iter().collect()))
                })
                .collect();
            for (from, hello) in hellos {
                self.input(Input::Hello { from, hello });
            }
            self.input(Input::Tick);
        }
    }

    /// Generations and their members so far.
    fn generations(&self) -> Vec<(u64, Vec<(u16, u64)>)> {
        let of = |action: &Action<u16>| match action {
            Action::Begin { generation, members } => {
                Some((generation.0, members.iter().map(|seated| (seated.place, seated.life)).collect()))
            }
            _ => None,
        };
        self.log.iter().filter_map(of).collect()
    }
}

#[test]
fn the_first_generation_begins_when_all_who_are_expected_are_there() {
    let mut cluster = Cluster::new(2, Generation(0));
    cluster.join(1, 1);
    cluster.pass(20);
    assert_eq!(cluster.generations(), []);
    cluster.join(2, 1);
    cluster.pass(20);
    assert_eq!(cluster.generations(), [(1, vec![(1, 1), (2, 1)])]);
    assert_eq!(cluster.members[&2].generation(), Generation(1));
}

#[test]
fn it_does_not_wait_for_ever() {
    let mut cluster = Cluster::new(3, Generation(4));
    cluster.join(1, 1);
    cluster.pass(100);
    assert_eq!(cluster.generations(), [(5, vec![(1, 1)])]);
}

#[test]
fn a_number_is_durable_before_anybody_hears_of_it() {
    let mut membership = Membership::new(build(EngineHash(7)), PATIENCE, Generation(8), 1, 1);
    let mut member = Member::new(1, build(EngineHash(7)));
    for now in [10, 20] {
        let mut actions = vec![];
        membership.step(now, Input::Hello { from: 1u16, hello: member.hello(vec![]) }, &mut actions);
        assert!(!actions.iter().any(|action| matches!(action, Action::Begin { .. })));
        for action in &actions {
            if let Action::Beat(_, beat) = action {
                assert_eq!(beat.generation, Generation(8));
                member.beat(*beat);
            }
        }
    }
    let mut actions = vec![];
    membership.step(30, Input::Persisted(Generation(9)), &mut actions);
    assert_eq!(actions, [Action::Begin { generation: Generation(9), members: vec![Seated { place: 1, life: 1 }] }]);
}

#[test]
fn only_the_number_that_was_to_be_durable_begins_a_generation() {
    let mut membership = Membership::new(build(EngineHash(7)), PATIENCE, Generation(8), 1, 1);
    let hello = Hello { heard: 5, ..Member::new(1, build(EngineHash(7))).hello(vec![]) };
    let mut actions = vec![];
    membership.step(10, Input::Hello { from: 1u16, hello }, &mut actions);
    assert_eq!(actions.last(), Some(&Action::Persist(Generation(9))));
    for (durable, begins) in [(8, false), (10, false), (9, true), (9, false)] {
        actions.clear();
        membership.step(11, Input::Persisted(Generation(durable)), &mut actions);
        assert_eq!(actions.iter().any(|action| matches!(action, Action::Begin { .. })), begins, "{durable}");
    }
    assert_eq!(membership.generation(), Generation(9));
}

/// A process that is no member says, at the first of these times, which beat it has heard last; time goes on to the second.
fn say(membership: &mut Membership<u16>, place: u16, times: [u64; 2], heard: u64) -> Vec<Action<u16>> {
    let mut actions = vec![];
    let hello = Hello { heard, ..Member::new(1, build(EngineHash(7))).hello(vec![]) };
    membership.step(times[0], Input::Hello { from: place, hello }, &mut actions);
    actions.extend(passes(membership, times[0], times[1]));
    actions
}

/// Time goes on from one time to another while nobody says anything.
fn passes(membership: &mut Membership<u16>, from: u64, to: u64) -> Vec<Action<u16>> {
    let mut actions = vec![];
    let times = (from..to).step_by(20).chain([to]);
    times.for_each(|now| membership.step(now, Input::Tick, &mut actions));
    actions
}

#[test]
fn patience_ends_to_the_microsecond() {
    let alone = || {
        let mut membership = Membership::new(build(EngineHash(7)), PATIENCE, Generation(0), 1, 1);
        say(&mut membership, 1, [10, 10], 5);
        membership.step(10, Input::Persisted(Generation(1)), &mut vec![]);
        membership.step(10, Input::Live(Generation(1)), &mut vec![]);
        membership
    };
    // Silent since the beat of time 5.
    for (now, lost) in [(104, false), (105, true)] {
        let actions = passes(&mut alone(), 10, now);
        assert_eq!(actions.contains(&Action::Suspend), lost, "{now}");
    }
    // A newcomer, reachable since time 20.
    for (now, settled) in [(69, false), (70, true)] {
        let mut membership = alone();
        let actions = say(&mut membership, 2, [20, now], 15);
        assert_eq!(actions.contains(&Action::Drain(Generation(1))), settled, "{now}: {actions:?}");
    }
    // And how long the generation may take to come to a rest.
    for (now, ends) in [(1069, false), (1070, true)] {
        let mut membership = alone();
        say(&mut membership, 2, [20, 70], 15);
        // One that is heard of in between.
        for time in (70..1000).step_by(20) {
            say(&mut membership, 1, [time, time], time);
        }
        say(&mut membership, 1, [1000, 1000], 1000);
        let actions = passes(&mut membership, 1000, now);
        assert_eq!(actions, if ends { vec![Action::Persist(Generation(2))] } else { vec![] }, "{now}");
    }
    // The first two of three that are awaited: not longer for the second.
    for (now, begins) in [(59, false), (60, true)] {
        let mut membership = Membership::new(build(EngineHash(7)), PATIENCE, Generation(0), 3, 1);
        say(&mut membership, 1, [10, 10], 5);
        let actions = say(&mut membership, 2, [40, now], 35);
        assert_eq!(actions.contains(&Action::Persist(Generation(1))), begins, "{now}: {actions:?}");
    }
}

#[test]
fn who_shows_that_beats_arrive_counts_at_once_but_not_by_a_beat_to_come() {
    for (heard, counts) in [(0, false), (1, true), (5, true), (10, true), (11, false)] {
        let mut membership = Membership::new(build(EngineHash(7)), PATIENCE, Generation(0), 1, 1);
        let hello = Hello { heard, ..Member::new(1, build(EngineHash(7))).hello(vec![]) };
        let mut actions = vec![];
        membership.step(10, Input::Hello { from: 1u16, hello }, &mut actions);
        membership.step(10, Input::Tick, &mut actions);
        let begins = actions.iter().any(|action| matches!(action, Action::Persist(_)));
        assert_eq!(begins, counts, "{heard}: {actions:?}");
    }
}

#[test]
fn who_falls_silent_or_hears_nothing_is_lost_and_may_come_back() {
    for deaf in [false, true] {
        let mut cluster = Cluster::new(2, Generation(0));
        cluster.join(1, 1);
        cluster.join(2, 1);
        cluster.pass(30);
        let gone = if deaf {
            cluster.deaf.push(2);
            None
        } else {
            cluster.members.remove(&2)
        };
        cluster.pass(80);
        assert_eq!(cluster.generations().len(), 1, "patience");
        cluster.pass(50);
        assert_eq!(cluster.generations()[1..], [(2, vec![(1, 1)])]);
        cluster.deaf.clear();
        cluster.members.extend(gone.map(|gone| (2, gone)));
        cluster.pass(40);
        assert_eq!(cluster.generations().len(), 2, "newcomers settle first");
        cluster.pass(40);
        assert_eq!(cluster.generations()[2..], [(3, vec![(1, 1), (2, 1)])]);
        assert_eq!(cluster.members[&2].generation(), Generation(3));
    }
}

#[test]
fn a_coordinator_that_stood_still_loses_nobody_for_it_and_whoever_is_silent_afterwards() {
    let mut cluster = Cluster::of(2);
    for stood in [26, 150, 10_000] {
        cluster.now += stood;
        cluster.input(Input::Tick);
        cluster.pass(200);
        assert_eq!(cluster.generations().len(), 1, "{stood}");
    }
    // One of them falls silent meanwhile.
    cluster.now += 500;
    cluster.members.remove(&2);
    cluster.input(Input::Tick);
    cluster.pass(80);
    assert_eq!(cluster.generations().len(), 1, "patience");
    cluster.pass(50);
    assert_eq!(cluster.generations()[1..], [(2, vec![(1, 1)])]);
    // Who was lost before is not found again by it.
    cluster.now += 500;
    cluster.input(Input::Tick);
    cluster.pass(100);
    assert_eq!(cluster.generations().len(), 2);
}

#[test]
fn another_life_of_a_process_is_another_member() {
    let mut cluster = Cluster::new(2, Generation(0));
    cluster.join(1, 1);
    cluster.join(2, 1);
    cluster.pass(30);
    let old = cluster.members[&2].hello(vec![]);
    cluster.join(2, 2);
    cluster.pass(30);
    assert_eq!(cluster.generations()[1..], [(2, vec![(1, 1), (2, 2)])]);
    // A hello of the life before, delayed.
    cluster.input(Input::Hello { from: 2, hello: old });
    cluster.pass(30);
    assert_eq!(cluster.generations().len(), 2);
}

#[test]
fn a_worker_that_runs_something_else_is_refused_and_told_both() {
    let mut cluster = Cluster::new(1, Generation(0));
    cluster.join(1, 1);
    cluster.members.insert(2, Member::new(1, Build { version: "2.0.0".into(), engine: EngineHash(8) }));
    cluster.pass(300);
    assert_eq!(cluster.generations(), [(1, vec![(1, 1)])]);
    let message = cluster.log.iter().find_map(|action| match action {
        Action::Refuse(2, message) => Some(message.as_str()),
        _ => None,
    });
    assert_eq!(
        message,
        Some(
            "this worker runs version 2.0.0 with engine 0000000000000008, its coordinator version 1.0.0 with engine 0000000000000007: install the same release on both"
        )
    );
}

#[test]
fn of_two_who_do_not_reach_each_other_one_goes_and_comes_back_later_each_time() {
    let mut cluster = Cluster::new(3, Generation(0));
    (1..=3).for_each(|place| cluster.join(place, 1));
    cluster.pass(30);
    cluster.silent = Some((2, WorkerId(2)));
    cluster.pass(20);
    assert_eq!(cluster.generations()[1..], [(2, vec![(1, 1), (2, 1)])]);
    let mut generations = vec![];
    for _ in 0..4 {
        cluster.pass(1_000);
        generations.push(cluster.generations().len());
    }
    assert!(generations[3] <= 16, "it flaps less and less: {generations:?}");
    cluster.pass(60_000);
    let before = cluster.generations().len();
    cluster.pass(130_000);
    let since = cluster.generations().len() - before;
    assert!((16..=22).contains(&since), "and is tried again now and then: {since}");
    cluster.silent = None;
    cluster.pass(20_000);
    assert_eq!(cluster.generations().last().unwrap().1.len(), 3);
}

#[test]
fn who_went_for_a_while_is_back_when_that_is_over() {
    let mut cluster = Cluster::of(2);
    let hello = cluster.members[&1].hello(vec![WorkerId(1)]);
    cluster.input(Input::Hello { from: 1, hello });
    assert_eq!(cluster.generations()[1..], [(2, vec![(1, 1)])]);
    cluster.pass(90);
    assert_eq!(cluster.generations().len(), 2, "twice as long as newcomers settle");
    cluster.pass(10);
    assert_eq!(cluster.generations()[2..], [(3, vec![(1, 1), (2, 1)])]);
}

#[test]
fn a_replaced_coordinator_learns_it_from_any_worker() {
    let mut cluster = Cluster::new(1, Generation(3));
    cluster.join(1, 1);
    cluster.pass(30);
    let mut member = Member::new(1, build(EngineHash(7)));
    assert!(member.invited(Generation(9), 1));
    cluster.input(Input::Hello { from: 2, hello: member.hello(vec![]) });
    assert_eq!(cluster.log.last(), Some(&Action::Depose(Generation(9))));
}

#[test]
fn nobody_left_means_no_generation() {
    let mut cluster = Cluster::new(1, Generation(0));
    cluster.join(1, 1);
    cluster.pass(30);
    cluster.members.clear();
    cluster.pass(200);
    assert_eq!(cluster.log.last(), Some(&Action::Suspend));
    assert!(cluster.membership.members().is_empty());
}

#[test]
fn a_worker_follows_no_invitation_that_is_old_or_meant_for_another_life() {
    let mut member = Member::new(5, build(EngineHash(7)));
    assert!(!member.invited(Generation(4), 3), "for another life");
    assert!(member.invited(Generation(4), 5));
    assert!(!member.invited(Generation(4), 5) && !member.invited(Generation(3), 5));
    assert!(!member.beat(Beat { number: 9, generation: Generation(3), answers: 0 }));
    assert_eq!(member.hello(vec![]).heard, 0, "what it has followed replaces those before");
    assert!(member.beat(Beat { number: 10, generation: Generation(6), answers: 0 }), "its generation is over");
    assert_eq!(member.generation(), Generation(0));
    assert!(!member.invited(Generation(4), 5) && !member.invited(Generation(5), 5), "so are these");
    assert!(!member.beat(Beat { number: 20, generation: Generation(5), answers: 0 }), "this coordinator was replaced");
    assert_eq!(member.hello(vec![]).heard, 10);
    assert!(member.invited(Generation(6), 5));
    assert!(!member.beat(Beat { number: 30, generation: Generation(6), answers: 10 }));
}

#[test]
fn a_doubt_is_over_when_a_beat_answers_what_was_said_since() {
    let beat = |number, generation, answers| Beat { number, generation, answers };
    let mut doubt = Doubt::default();
    assert!(!doubt.hear(beat(10, Generation(3), 8), Generation(3)), "it may have been sent before");
    assert!(!doubt.hear(beat(11, Generation(3), 9), Generation(3)), "so may this");
    assert!(!doubt.hear(beat(13, Generation(4), 10), Generation(3)), "the generation is over");
    assert!(doubt.hear(beat(13, Generation(3), 10), Generation(3)));
}

#[test]
fn who_wants_to_leave_is_let_go_when_nobody_counts_on_it() {
    let mut cluster = Cluster::of(2);
    cluster.restless = true;
    cluster.members.get_mut(&2).unwrap().leave();
    cluster.log.clear();
    cluster.pass(100);
    assert_eq!(cluster.log, [Action::Drain(Generation(1))]);
    cluster.input(Input::Drained(Generation(1)));
    cluster.pass(20);
    assert_eq!(cluster.generations(), [(2, vec![(1, 1)])]);
    assert!(cluster.log.contains(&Action::Release(2)));
    // Its next life is welcome.
    cluster.restless = false;
    cluster.join(2, 2);
    cluster.pass(100);
    assert_eq!(cluster.generations()[1..], [(3, vec![(1, 1), (2, 2)])]);
}

#[test]
fn a_generation_that_comes_to_no_rest_ends_all_the_same() {
    let mut cluster = Cluster::of(1);
    cluster.restless = true;
    cluster.join(2, 1);
    cluster.pass(500);
    assert_eq!(cluster.generations(), [(1, vec![(1, 1)])]);
    cluster.pass(1000);
    assert_eq!(cluster.generations()[1], (2, vec![(1, 1), (2, 1)]));
}

#[test]
fn whoever_is_lost_meanwhile_is_not_waited_for() {
    let mut cluster = Cluster::of(2);
    cluster.restless = true;
    cluster.members.get_mut(&2).unwrap().leave();
    cluster.pass(50);
    cluster.members.remove(&2);
    cluster.pass(300);
    assert_eq!(cluster.generations()[1], (2, vec![(1, 1)]));
}

#[test]
fn the_last_one_may_leave_too() {
    let mut cluster = Cluster::of(1);
    cluster.members.get_mut(&1).unwrap().leave();
    cluster.log.clear();
    cluster.pass(50);
    assert_eq!(cluster.log[..3], [Action::Drain(Generation(1)), Action::Suspend, Action::Release(1)]);
}
