//! The figures.

use std::error::Error;
use std::path::Path;

use styx_sim::scale::cluster::BATCH;
use styx_sim::scale::load::{Kind, Load, Traffic, expected};
use styx_sim::scale::model::{Plan, play};
use styx_sim::scale::study::{Counted, Point, SHARED, Study, load};
use styx_sim::scale::{Costs, Design, Machines};

use crate::chart::{Line, Style, lines, shares};

/// Draws all of them.
pub fn draw(
    to: &Path,
    study: &Study,
    counted: &[Counted],
    played: &[Point],
    costs: &Costs,
) -> Result<(), Box<dyn Error>> {
    let file = |name: &str| to.join(format!("scaling-{name}.svg"));
    throughput(&file("throughput"), played)?;
    epoch(&file("epoch"), played)?;
    latency(&file("latency"), played)?;
    coordinator(&file("coordinator"), played)?;
    for shared in [0, 100] {
        designs(&file(&format!("designs-{shared}")), shared, played)?;
    }
    traffic(&file("traffic"), study, counted)?;
    stragglers(&file("stragglers"), study, costs)?;
    sizes(&file("sizes"), study, costs)
}

/// Of all clusters of a kind, something by their size.
fn by_size(played: &[Point], design: Design, shared: usize, what: impl Fn(&Point) -> f64) -> Vec<(f64, f64)> {
    let these = played.iter().filter(|point| point.plan.design == design && point.plan.load.shared == shared);
    these.map(|point| (f64::from(point.plan.load.workers), what(point))).collect()
}

fn throughput(path: &Path, played: &[Point]) -> Result<(), Box<dyn Error>> {
    let line = |(at, shared): (usize, &usize)| {
        Line::new(format!("{shared} % shared"), at, by_size(played, Design::AsIs, *shared, |point| point.peak.rate))
    };
    let mut all: Vec<Line> = SHARED.iter().enumerate().map(line).collect();
    let one = all[0].points[0].1;
    let points = all[0].points.iter().map(|(workers, _)| (*workers, one * workers)).collect();
    all.push(Line { style: Style::Thin, ..Line::new("workers × what one does", 6, points) });
    let axes = ["workers", "transactions/s"];
    lines(path, "The most that a cluster does, as the protocol is", axes, true, &all)
}

fn epoch(path: &Path, played: &[Point]) -> Result<(), Box<dyn Error>> {
    let mut bars = Vec::new();
    for shared in SHARED {
        for workers in [10, 100, 1000] {
            let wanted = |point: &&Point| {
                let plan = &point.plan;
                plan.design == Design::AsIs && (plan.load.shared, plan.load.workers) == (shared, workers)
            };
            let Some(point) = played.iter().find(wanted) else { continue };
            let parts = point.peak.parts;
            let values = vec![parts.work, parts.slowest, parts.trips, parts.coordinator];
            bars.push((format!("{shared} % shared, {workers} workers"), values, format!("{:.0} ms", point.peak.epoch)));
        }
    }
    let parts = ["workers work", "wait for the slowest", "messages travel", "wait for the coordinator"];
    shares(path, "Where an epoch of 1,000 transactions per worker goes, as the protocol is", &parts, &bars)
}

fn latency(path: &Path, played: &[Point]) -> Result<(), Box<dyn Error>> {
    let mut all = Vec::new();
    for (at, shared) in [0, 100].into_iter().enumerate() {
        let p50 = by_size(played, Design::AsIs, shared, |point| point.below.p50);
        let p99 = by_size(played, Design::AsIs, shared, |point| point.below.p99);
        all.push(Line::new(format!("{shared} % shared, median"), at, p50));
        all.push(Line { style: Style::Marks, ..Line::new(format!("{shared} % shared, p99"), at, p99) });
    }
    lines(path, "What clients wait at 80 % of the most", ["workers", "ms"], true, &all)
}

fn coordinator(path: &Path, played: &[Point]) -> Result<(), Box<dyn Error>> {
    let mut all = Vec::new();
    for (at, shared) in [0, 100].into_iter().enumerate() {
        let mut add = |name: &str, colour: usize, what: fn(&Point) -> f64| {
            let points = by_size(played, Design::AsIs, shared, |point| 100.0 * what(point));
            all.push(Line::new(format!("{shared} % shared: {name}"), colour + 3 * at, points));
        };
        add("machine", 0, |point| point.peak.driver);
        add("connections", 1, |point| point.peak.network);
        add("log", 2, |point| point.peak.log);
    }
    lines(path, "How busy the coordinator's threads are at the most", ["workers", "%"], false, &all)
}

fn designs(path: &Path, shared: usize, played: &[Point]) -> Result<(), Box<dyn Error>> {
    let line = |(at, design): (usize, &Design)| {
        Line::new(design.name(), at, by_size(played, *design, shared, |point| point.peak.rate))
    };
    let all: Vec<Line> = Design::ALL.iter().enumerate().map(line).collect();
    let title = format!("The most that a cluster could do, {shared} % shared");
    lines(path, &title, ["workers", "transactions/s"], true, &all)
}

/// Bytes that the coordinator sends and receives in an epoch: by formula, and counted.
fn traffic(path: &Path, study: &Study, counted: &[Counted]) -> Result<(), Box<dyn Error>> {
    let sum = |traffic: &mut dyn Iterator<Item = (&Kind, &Traffic)>| {
        traffic.filter(|(kind, _)| **kind != Kind::Graphs).map(|(_, traffic)| traffic.bytes as f64).sum::<f64>()
    };
    let mut all = Vec::new();
    for (at, shared) in SHARED.into_iter().enumerate() {
        let said = |&workers: &u16| {
            let load = Load { workers, transactions: study.transactions, parts: 2, shared, conflicts: 0 };
            (f64::from(workers), sum(&mut expected(load, BATCH).iter()))
        };
        all.push(Line {
            style: Style::Thin,
            ..Line::new(format!("{shared} %: formula"), at, study.workers.iter().map(said).collect())
        });
        let these = counted.iter().filter(|counted| counted.load.shared == shared);
        let points = these.map(|counted| (f64::from(counted.load.workers), sum(&mut counted.traffic.iter())));
        all.push(Line { style: Style::Marks, ..Line::new(format!("{shared} %: counted"), at, points.collect()) });
    }
    let title = "Bytes to and from the coordinator in an epoch of 1,000 transactions per worker";
    lines(path, title, ["workers", "bytes"], true, &all)
}

/// What workers that are slow now and then cost, where the coordinator is not in the way.
fn stragglers(path: &Path, study: &Study, costs: &Costs) -> Result<(), Box<dyn Error>> {
    let zone = study.machines;
    let calm = Machines { jitter: 0.0, pause_every: 0.0, ..zone };
    let cases = [
        ("all alike", calm),
        ("10 % more or less", Machines { jitter: 0.1, ..calm }),
        ("30 % more or less", Machines { jitter: 0.3, ..calm }),
        ("10 %, and 20 ms a minute", Machines { jitter: 0.1, pause_every: 60.0, pause: 20_000.0, ..zone }),
        ("10 %, and 20 ms every 10 s", Machines { jitter: 0.1, pause_every: 10.0, pause: 20_000.0, ..zone }),
        ("10 %, and 200 ms a minute", Machines { jitter: 0.1, pause_every: 60.0, pause: 200_000.0, ..zone }),
    ];
    let rate = |machines, workers| study.point(load(workers, 0), machines, Design::Tree, costs).peak.rate;
    let line = |(at, (name, machines)): (usize, (&str, Machines))| {
        let one = rate(calm, 1);
        let left = |&workers: &u16| 100.0 * rate(machines, workers) / one / f64::from(workers);
        let points = study.workers.iter().map(|workers| (f64::from(*workers), left(workers)));
        Line::new(name, at, points.collect())
    };
    let all: Vec<Line> = cases.into_iter().enumerate().map(line).collect();
    let title = "What is left of each worker where everybody waits for the slowest";
    lines(path, title, ["workers", "% of what one alone does"], false, &all)
}

/// Longer epochs: more is done, and clients wait longer.
fn sizes(path: &Path, study: &Study, costs: &Costs) -> Result<(), Box<dyn Error>> {
    let line = |(at, workers): (usize, u16)| {
        let points = [100, 300, 1000, 3000, 10_000].map(|transactions| {
            let load = Load { transactions, ..load(workers, 100) };
            let plan = Plan {
                load,
                machines: Machines::ZONE,
                design: Design::Tree,
                rate: None,
                epochs: study.epochs / 1000 + 3,
            };
            let peak = play(&plan, costs, 1);
            (peak.epoch, peak.rate)
        });
        Line::new(format!("{workers} workers"), at, points.to_vec())
    };
    let all: Vec<Line> = [10, 100, 1000].into_iter().enumerate().map(line).collect();
    let title = "Epochs of 100, 300, 1,000, 3,000 and 10,000 transactions per worker, 100 % shared, in a tree";
    lines(path, title, ["length of an epoch, ms", "transactions/s"], true, &all)
}
