//! The scale study: its formulas say what the machines tell each other, its model what clusters
//! did that were measured, and its program runs.

use std::path::Path;
use std::process::Command;

use styx_sim::scale::cluster::{BATCH, Cluster};
use styx_sim::scale::load::{Kind, Load, expected};
use styx_sim::scale::measured::{self, CLUSTERS};
use styx_sim::scale::study::{Study, load};
use styx_sim::scale::{Design, Machines};

#[test]
fn messages_are_as_the_formulas_say() {
    for (workers, transactions) in [(1, 300), (2, 300), (5, 300), (16, 60), (64, 20)] {
        for (shared, conflicts) in [(0, 0), (0, 10), (20, 0), (100, 0), (100, 10)] {
            for parts in [2, 4] {
                if shared > 0 && usize::from(workers) < parts {
                    continue;
                }
                let load = Load { workers, transactions, parts, shared, conflicts };
                let mut cluster = Cluster::new(load);
                cluster.epoch();
                let by_formula = expected(load, BATCH);
                let (all, again) =
                    (u64::from(workers) * transactions as u64, u64::from(workers) * load.conflicts() as u64);
                assert_eq!(cluster.ended, [all - again, again], "{load:?}");
                assert_eq!(
                    cluster.traffic.keys().collect::<Vec<_>>(),
                    by_formula.keys().collect::<Vec<_>>(),
                    "{load:?}"
                );
                for (kind, said) in &by_formula {
                    let found = cluster.traffic[kind];
                    assert_eq!(found.items, said.items, "{kind:?} of {load:?}");
                    // How many mails the fallback takes depends on when locks are granted.
                    if *kind != Kind::Graphs || conflicts == 0 {
                        assert_eq!(found.messages, said.messages, "{kind:?} of {load:?}");
                    }
                    let off = found.bytes as f64 / said.bytes as f64 - 1.0;
                    assert!(off.abs() < 0.07, "{kind:?} of {load:?}: {} bytes, not {}", found.bytes, said.bytes);
                }
            }
        }
    }
}

#[test]
fn workers_need_not_hear_of_graphs_that_they_take_no_part_in() {
    let load = Load { workers: 8, transactions: 100, parts: 2, shared: 30, conflicts: 10 };
    let [mut told, mut addressed] = [Cluster::new(load), Cluster::new(load)];
    addressed.address();
    for _ in 0..3 {
        told.epoch();
        addressed.epoch();
        assert!(told.ended[1] > 0);
        assert_eq!((told.chain(), told.ended), (addressed.chain(), addressed.ended));
    }
}

#[test]
fn the_model_says_what_was_measured() {
    let costs = measured::costs();
    for measured in CLUSTERS.iter().filter(|measured| measured.transactions == 1000) {
        let played = measured.played(&costs);
        let workers = played.worker_cpu / measured.worker_cpu;
        let coordinator = played.coordinator_cpu / measured.coordinator_cpu;
        assert!((0.85..1.15).contains(&workers), "{measured:?}: {played:?}");
        assert!((0.6..1.2).contains(&coordinator), "{measured:?}: {played:?}");
        // All of it ran on two cores, which the model does not know.
        let rate = played.rate.min(2e6 / (played.worker_cpu + played.coordinator_cpu)) / measured.rate;
        assert!((0.9..1.5).contains(&rate), "{measured:?}: {played:?}");
    }
}

#[test]
fn the_model_shows_what_stands_in_the_way() {
    let (study, costs) = (Study { epochs: 20_000, ..Study::QUICK }, measured::costs());
    let peak = |workers, shared, machines, design| study.point(load(workers, shared), machines, design, &costs).peak;
    let (zone, calm) = (Machines::ZONE, Machines { jitter: 0.0, pause_every: 0.0, ..Machines::ZONE });
    // Ten workers do most of ten times what one does.
    let (one, ten) = (peak(1, 0, calm, Design::AsIs).rate, peak(10, 0, calm, Design::AsIs).rate);
    assert!((9.0..10.0).contains(&(ten / one)), "{one} and {ten}");
    // With many, everybody waits for the coordinator; with several of it, for each other.
    let (as_is, tree) = (peak(200, 100, zone, Design::AsIs), peak(200, 100, zone, Design::Tree));
    assert!(as_is.parts.coordinator > 5.0 * as_is.parts.work, "{as_is:?}");
    assert!(tree.rate > 5.0 * as_is.rate && tree.parts.slowest > tree.parts.coordinator, "{tree:?}");
    // Parts add up, and nothing is busier than always.
    for outcome in [as_is, tree] {
        let parts = outcome.parts;
        let sum = parts.work + parts.slowest + parts.trips + parts.coordinator;
        assert!((sum / outcome.epoch - 1.0).abs() < 0.01, "{outcome:?}");
        assert!([outcome.driver, outcome.network, outcome.log].iter().all(|busy| (0.0..=1.0).contains(busy)));
    }
    // A pause of one is a pause of all.
    let pausing = Machines { jitter: 0.0, pause_every: 10.0, pause: 20_000.0, ..zone };
    let (alike, paused) = (peak(100, 0, calm, Design::Tree).rate, peak(100, 0, pausing, Design::Tree).rate);
    assert!(paused < 0.9 * alike, "{paused} and {alike}");
}

#[test]
fn the_program_counts_measures_plays_and_draws() {
    let figures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("figures");
    let output = Command::new(env!("CARGO_BIN_EXE_styx-scale"))
        .args(["--quick", "--measure", "--figures"])
        .arg(&figures)
        .output()
        .expect("the program is there");
    let tables = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{tables}{}", String::from_utf8_lossy(&output.stderr));
    for part in
        ["| Decode(Settle) |", "| 4 | 100 | Settle | 4 | 640 |", "| as it is | 100 | 100 |", "| and a tree | 0 | 1 |"]
    {
        assert!(tables.contains(part), "{part} is missing: {tables}");
    }
    for name in
        ["throughput", "epoch", "latency", "coordinator", "designs-0", "designs-100", "traffic", "stragglers", "sizes"]
    {
        let figure = std::fs::read_to_string(figures.join(format!("scaling-{name}.svg"))).expect("it was drawn");
        assert!(figure.contains("workers") && figure.contains("</svg>"), "{name}: {figure}");
    }
}
