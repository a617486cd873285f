//! `styx-scale`: the tables and figures of `docs/scaling.md`.

mod chart;
mod figures;
mod tables;

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;
use styx_sim::scale::measured;
use styx_sim::scale::study::Study;

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
    /// Where figures go; without, there are tables only
    #[arg(long)]
    figures: Option<PathBuf>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let study = if options.quick { Study::QUICK } else { Study::WHOLE };
    let costs = if options.measure { study.measure() } else { measured::costs() };
    let (counted, played) = (study.count(), study.play(&costs));
    tables::costs(&costs);
    tables::counted(&counted);
    tables::beside(&costs);
    tables::played(&played);
    if let Some(directory) = options.figures {
        std::fs::create_dir_all(&directory)?;
        figures::draw(&directory, &study, &counted, &played, &costs)?;
    }
    Ok(())
}
