//! Runs the checker and says what it found.

use std::time::{Duration, Instant};

use stateright::{Checker, DiscoveryClassification, Expectation, HasDiscoveries, Model};

use crate::scenario::{Hunt, Protocol, SCENARIOS, Scenario};
use crate::world::Step;

/// What an exploration found.
pub struct Report {
    /// Distinct states.
    pub states: usize,
    /// Steps taken from them.
    pub steps: usize,
    /// The longest way that was needed to a state.
    pub depth: usize,
    /// How long it took.
    pub elapsed: Duration,
    /// Properties that do not hold, each with the steps to where it shows.
    pub broken: Vec<(&'static str, Vec<Step>)>,
    /// What should happen somewhere and does not.
    pub unseen: Vec<&'static str>,
}

impl Report {
    /// Whether all is as it should be.
    pub fn is_good(&self) -> bool {
        self.broken.is_empty() && self.unseen.is_empty()
    }
}

/// Explores a scenario to its end.
pub fn explore(scenario: &Scenario) -> Report {
    let protocol = Protocol { scenario: *scenario, mistake: None };
    // Without a failure it never finishes before all states are seen.
    run(protocol, HasDiscoveries::AnyFailures)
}

/// Explores a mistake's scenario until everything is broken that it must break.
pub fn hunt(hunt: &Hunt) -> Report {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == hunt.scenario).expect("hunts name a scenario");
    let scenario = Scenario { crashes: hunt.crashes, ..*scenario };
    let protocol = Protocol { scenario, mistake: Some(hunt.mistake) };
    run(protocol, HasDiscoveries::AllOf(hunt.breaks.iter().copied().collect()))
}

fn run(protocol: Protocol, until: HasDiscoveries) -> Report {
    let started = Instant::now();
    // One thread: breadth first, hence short counterexamples, and the same figures every time.
    let checker = protocol.checker().threads(1).finish_when(until).spawn_bfs().join();
    let elapsed = started.elapsed();
    let discoveries = checker.discoveries();
    let hopes = protocol.properties().into_iter().filter(|property| property.expectation == Expectation::Sometimes);
    let unseen = hopes.map(|property| property.name).filter(|name| !discoveries.contains_key(name)).collect();
    let is_failure =
        |name: &str| matches!(checker.discovery_classification(name), DiscoveryClassification::Counterexample);
    let broken = discoveries.into_iter().filter(|(name, _)| is_failure(name));
    let mut broken: Vec<_> = broken.map(|(name, path)| (name, path.into_actions())).collect();
    broken.sort_by_key(|(_, steps)| steps.len());
    let (states, steps, depth) = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
    Report { states, steps, depth, elapsed, broken, unseen }
}
