//! Tables, as Markdown, to standard output.

use styx_sim::scale::cluster::BATCH;
use styx_sim::scale::cost::Costs;
use styx_sim::scale::load::expected;
use styx_sim::scale::measured::CLUSTERS;
use styx_sim::scale::study::{Counted, Point};

/// What steps cost.
pub fn costs(costs: &Costs) {
    println!("| step | ns each | ns for each of its second feature | of its third |\n|---|---|---|---|");
    for (op, [one, two, three]) in costs.iter() {
        println!("| {op:?} | {one:.0} | {two:.1} | {three:.1} |");
    }
    println!();
}

/// Messages of an epoch: counted, and by formula.
pub fn counted(counted: &[Counted]) {
    println!(
        "| workers | shared, % | message | messages | things listed | bytes | bytes by formula |\n|---|---|---|---|---|---|---|"
    );
    for Counted { load, traffic } in counted {
        let formula = expected(*load, BATCH);
        for (kind, found) in traffic {
            let said = formula.get(kind).map_or(0, |traffic| traffic.bytes);
            let (messages, items, bytes) = (found.messages, found.items, found.bytes);
            println!("| {} | {} | {kind:?} | {messages} | {items} | {bytes} | {said} |", load.workers, load.shared);
        }
    }
    println!();
}

/// The model beside measured clusters.
pub fn beside(costs: &Costs) {
    println!(
        "| workers | transactions of each in an epoch | shared, % | measured, 1/s | model, 1/s | coordinator, µs of processor for each | model | workers, µs | model |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for measured in CLUSTERS {
        let played = measured.played(costs);
        println!(
            "| {} | {} | {} | {:.0} | {:.0} | {:.2} | {:.2} | {:.1} | {:.1} |",
            measured.workers,
            measured.transactions,
            measured.shared,
            measured.rate,
            played.rate,
            measured.coordinator_cpu,
            played.coordinator_cpu,
            measured.worker_cpu,
            played.worker_cpu,
        );
    }
    println!();
}

/// What was played.
pub fn played(played: &[Point]) {
    println!(
        "| arranged | shared, % | workers | peak, 1/s | epoch, ms | works | waits for the slowest | trips | coordinator | its thread busy | its connections | its log | at 80 %: p50, ms | p99, ms | epoch, ms |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for Point { plan, peak, below } in played {
        let parts = peak.parts;
        println!(
            "| {} | {} | {} | {:.0} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} | {:.1} |",
            plan.design.name(),
            plan.load.shared,
            plan.load.workers,
            peak.rate,
            peak.epoch,
            parts.work,
            parts.slowest,
            parts.trips,
            parts.coordinator,
            peak.driver,
            peak.network,
            peak.log,
            below.p50,
            below.p99,
            below.epoch,
        );
    }
}
