//! Every scenario holds in every state, and what it is meant to provoke happens.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use stateright::Model;
use styx_model::explore::explore;
use styx_model::scenario::{Protocol, SCENARIOS, Scenario};
use styx_model::world::World;

fn scenario(name: &str) -> &'static Scenario {
    SCENARIOS.iter().find(|scenario| scenario.name == name).expect("a scenario has this name")
}

fn check(name: &str) {
    let report = explore(scenario(name));
    println!("{name}: {} states, {} steps, depth {}", report.states, report.steps, report.depth);
    assert!(report.broken.is_empty(), "{:#?}", report.broken);
    assert!(report.unseen.is_empty(), "the scenario does not provoke: {:?}", report.unseen);
}

#[test]
fn reordering() {
    check("reordering");
}

#[test]
fn hot_keys() {
    check("hot keys");
}

#[test]
fn drift() {
    check("drift");
}

#[test]
fn passing_on() {
    check("passing on");
}

#[test]
fn results() {
    check("results");
}

#[test]
fn looks() {
    check("looks");
}

#[test]
fn other_cut() {
    check("other cut");
}

/// No way leads back to a state: being able to go on therefore means to end.
#[test]
fn no_cycles() {
    #[derive(PartialEq)]
    enum Seen {
        OnTheWay,
        Left,
    }
    let protocol = Protocol { scenario: *scenario("hot keys"), mistake: None };
    let hasher = RandomState::new();
    let mut seen: HashMap<u64, Seen> = HashMap::new();
    let mut way: Vec<(u64, Vec<World>)> = vec![(0, protocol.init_states())];
    while let Some((from, ahead)) = way.last_mut() {
        let Some(world) = ahead.pop() else {
            seen.insert(*from, Seen::Left);
            way.pop();
            continue;
        };
        let hash = hasher.hash_one(&world);
        match seen.get(&hash) {
            Some(known) => assert!(*known == Seen::Left, "a way leads back to {world:#?}"),
            None => {
                seen.insert(hash, Seen::OnTheWay);
                way.push((hash, protocol.next_states(&world)));
            }
        }
    }
    assert!(seen.len() > 15_000, "the search saw only {} states", seen.len());
}
