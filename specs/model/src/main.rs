//! `styx-model`: explores all scenarios and prints what came out; with a mistake's name, how it shows.

use std::process::ExitCode;

use styx_model::explore::{Report, explore, hunt};
use styx_model::scenario::{HUNTS, SCENARIOS};

fn main() -> ExitCode {
    match std::env::args().nth(1) {
        None => all(),
        Some(name) => trace(&name),
    }
}

fn all() -> ExitCode {
    let mut good = true;
    println!("{:<24} {:>8} {:>9} {:>6} {:>8}  result", "scenario", "states", "steps", "depth", "seconds");
    for scenario in SCENARIOS {
        let report = explore(scenario);
        good &= report.is_good();
        let broken = report.broken.iter().map(|(name, _)| format!("BROKEN: {name}"));
        let unseen = report.unseen.iter().map(|name| format!("UNSEEN: {name}"));
        let result = broken.chain(unseen).collect::<Vec<_>>().join("; ");
        row(scenario.name, &report, if result.is_empty() { "holds" } else { &result });
    }
    println!();
    for hunted in HUNTS {
        let report = hunt(hunted);
        let found = hunted.breaks.iter().filter_map(|name| report.broken.iter().find(|(broken, _)| broken == name));
        let found: Vec<String> = found.map(|(name, steps)| format!("{name} ({} steps)", steps.len())).collect();
        good &= found.len() == hunted.breaks.len();
        let missed = if found.len() == hunted.breaks.len() { "caught: " } else { "MISSED; " };
        row(&format!("{:?}", hunted.mistake), &report, &format!("{missed}{}", found.join("; ")));
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn row(name: &str, report: &Report, result: &str) {
    let seconds = report.elapsed.as_secs_f64();
    println!("{name:<24} {:>8} {:>9} {:>6} {seconds:>8.2}  {result}", report.states, report.steps, report.depth);
}

fn trace(name: &str) -> ExitCode {
    let Some(hunted) = HUNTS.iter().find(|hunt| format!("{:?}", hunt.mistake) == name) else {
        eprintln!("no mistake is called {name}; without a name, styx-model lists them");
        return ExitCode::from(2);
    };
    for (broken, steps) in hunt(hunted).broken {
        println!("not so: {broken}");
        steps.iter().for_each(|step| println!("  {step:?}"));
    }
    ExitCode::SUCCESS
}
