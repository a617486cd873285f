//! `styx-scale`: the tables and figures of `docs/scaling.md`.

mod chart;
mod figures;
mod tables;

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;
use styx_sim::scale::study::Study;
use styx_sim::scale::{Machines, measured};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about = "What limits a cluster of many workers: counts, measures, plays, draws")]
struct Options {
    /// Measure what steps cost on this machine, instead of taking what is recorded
    #[arg(long)]
    measure: bool,
    /// As little as shows that it works
    #[arg(long)]
    quick: bool,
    /// There and back between two machines, in µs
    #[arg(long, default_value_t = Machines::ZONE.round_trip)]
    round_trip: f64,
    /// Until a record is durable, in µs
    #[arg(long, default_value_t = Machines::ZONE.sync)]
    sync: f64,
    /// Bandwidth of each machine's link, in Gb/s
    #[arg(long, default_value_t = Machines::ZONE.gigabits)]
    gigabits: f64,
    /// What a transaction costs its worker besides the protocol, in µs
    #[arg(long, default_value_t = Machines::ZONE.execute)]
    execute: f64,
    /// Seconds between two pauses of a worker; 0 for none
    #[arg(long, default_value_t = Machines::ZONE.pause_every)]
    pause_every: f64,
    /// How long a pause lasts, in µs
    #[arg(long, default_value_t = Machines::ZONE.pause)]
    pause: f64,
    /// Where figures go; without, there are tables only
    #[arg(long)]
    figures: Option<PathBuf>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let Options { round_trip, sync, gigabits, execute, pause_every, pause, .. } = options;
    let machines = Machines { round_trip, sync, gigabits, execute, pause_every, pause, ..Machines::ZONE };
    let study = Study { machines, ..if options.quick { Study::QUICK } else { Study::WHOLE } };
    let costs = if options.measure { study.measure() } else { measured::costs() };
    let (counted, played) = (study.count(), study.play(&costs));
    tables::costs(&costs);
    tables::counted(&counted);
    tables::beside(&costs);
    tables::played(&played);
    tables::assumed(&study, &costs);
    if let Some(directory) = options.figures {
        std::fs::create_dir_all(&directory)?;
        figures::draw(&directory, &study, &counted, &played, &costs)?;
    }
    Ok(())
}
