//! Tables, as Markdown, to standard output.

use styx_sim::scale::cluster::BATCH;
use styx_sim::scale::cost::Costs;
use styx_sim::scale::load::expected;
use styx_sim::scale::measured::CLUSTERS;
use styx_sim::scale::study::{Counted, Point, Study, load};
use styx_sim::scale::{Design, Machines};

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

/// How much depends on what is assumed.
pub fn assumed(study: &Study, costs: &Costs) {
    let machines = study.machines;
    let cases = [
        ("as assumed", machines),
        ("trips of 100 µs", Machines { round_trip: 100.0, ..machines }),
        ("trips of 500 µs", Machines { round_trip: 500.0, ..machines }),
        ("syncs of 100 µs", Machines { sync: 100.0, ..machines }),
        ("syncs of 2 ms", Machines { sync: 2000.0, ..machines }),
        ("links of 1 Gb/s", Machines { gigabits: 1.0, ..machines }),
        ("links of 25 Gb/s", Machines { gigabits: 25.0, ..machines }),
        (
            "messages for a third",
            Machines { driver: machines.driver / 3.0, network: machines.network / 3.0, ..machines },
        ),
        ("ten times the work in guests", Machines { execute: 10.0 * machines.execute, ..machines }),
    ];
    println!(
        "\n| machines and network | workers | peak, 1/s | epoch, ms | at 80 %: p50, ms | p99, ms |\n|---|---|---|---|---|---|"
    );
    for (name, machines) in cases {
        for workers in [10, 100] {
            let Point { peak, below, .. } = study.point(load(workers, 20), machines, Design::AsIs, costs);
            let (rate, epoch) = (peak.rate, peak.epoch);
            println!("| {name} | {workers} | {rate:.0} | {epoch:.1} | {:.1} | {:.1} |", below.p50, below.p99);
        }
    }
}
