//! The hot path, case by case, on one thread and always the same: what `budget` counts the
//! instructions of.

mod below;
mod ingress;
mod record;
mod transfers;

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use styx_engine::EXECUTION_STACK_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Case {
    /// Transfers below the ingress: protocol, log and the functions as host code
    Native,
    /// The same with the guest in Rust
    Wasm,
    /// A call's JSON in and its reply's JSON out, on a pipelined connection
    Ingress,
    /// A call's part of an epoch's record, to bytes
    Encode,
    /// And back
    Decode,
}

impl Case {
    /// Its name, in the budget and on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().expect("none is hidden").get_name().to_owned()
    }
}

/// One run of a case.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The case
    case: Case,
    /// Calls that are counted; what is made ready before is not
    #[arg(long, default_value_t = 10_000)]
    calls: usize,
    /// The guest's component
    #[arg(long)]
    component: PathBuf,
    /// Where compiled code is kept
    #[arg(long)]
    cache: PathBuf,
}

/// A case made ready: does the calls, once, and says how many came to a result.
type Work = Box<dyn FnMut() -> usize>;

/// Name of the function in which instructions are counted.
pub const COUNTED: &str = "counted_hot_path";

/// Does the work where an instrument finds it: a function of its own, by its name.
#[inline(never)]
fn counted_hot_path(work: &mut dyn FnMut() -> usize) -> usize {
    // Not as its last act, which would be a jump out of it.
    std::hint::black_box(work())
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(EXECUTION_STACK_BYTES);
        let thread = thread.spawn_scoped(scope, || anyhow::Ok(counted_hot_path(&mut *prepare(options)?)))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    ensure!(done == options.calls, "INCOMPLETE: {done} of {} calls came to a result", options.calls);
    Ok(())
}

fn prepare(options: &Options) -> anyhow::Result<Work> {
    let Options { case, calls, component, cache } = options;
    let component = || std::fs::read(component).with_context(|| format!("reading {}", component.display()));
    Ok(match case {
        Case::Native => below::native(*calls)?,
        Case::Wasm => below::wasm(*calls, &component()?, cache.clone())?,
        Case::Ingress => ingress::ingress(*calls)?,
        Case::Encode => record::encode(*calls)?,
        Case::Decode => record::decode(*calls)?,
    })
}
