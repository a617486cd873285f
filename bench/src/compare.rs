//! `styx-bench compare`: systems in turn on the same machine, A B A B, and what they come to beside
//! each other. Figures of two machines, or of two hours, do not compare; those of neighbours do.

use std::path::PathBuf;

use anyhow::ensure;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde_json::{Value, json};

use crate::plan::{Kind, Plan};
use crate::result::Outcome;
use crate::run::holds;
use crate::workload::Choice;

/// What is compared, and how.
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    plan: Plan,
    /// The systems; the first is what the others are compared with
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "styx,postgres,two-phase,inprocess,native",
        global = true
    )]
    systems: Vec<Kind>,
    /// How often each is measured
    #[arg(long, default_value_t = 2, global = true)]
    rounds: usize,
    /// Where the results are kept
    #[arg(long, default_value = "target/results", global = true)]
    results: PathBuf,
    #[command(subcommand)]
    workload: Choice,
}

/// Measures all in turn, prints a table for people, and a list as one JSON line.
pub fn run(options: &Options) -> anyhow::Result<()> {
    ensure!(!options.systems.is_empty() && options.rounds > 0, "a comparison needs systems and rounds");
    let mut seen: Vec<Vec<Outcome>> = options.systems.iter().map(|_| Vec::new()).collect();
    for _ in 0..options.rounds {
        for (system, seen) in options.systems.iter().zip(&mut seen) {
            let plan = Plan { system: *system, ..options.plan.clone() };
            let outcome = plan.measure(&options.workload, None)?;
            outcome.write(&options.results)?;
            holds(&outcome)?;
            seen.push(outcome);
        }
    }
    let rows: Vec<Row> = seen.iter().map(|outcomes| Row::of(outcomes)).collect();
    eprintln!("{}", table(&rows));
    let list: Vec<Value> = rows.iter().map(|row| row.json(&rows[0], options.rounds)).collect();
    println!("{}", Value::from(list));
    Ok(())
}

/// What a system came to, in the middle of its rounds.
struct Row {
    first: Outcome,
    tps: f64,
    p50_ms: f64,
    p99_ms: f64,
    system_us: Option<f64>,
}

impl Row {
    fn of(outcomes: &[Outcome]) -> Row {
        let of = |figure: &dyn Fn(&Outcome) -> Option<f64>| median(outcomes.iter().filter_map(figure).collect());
        Row {
            first: outcomes[0].clone(),
            tps: of(&|outcome| Some(outcome.peak_tps())).unwrap_or(0.0),
            p50_ms: of(&|outcome| Some(outcome.usual().latency.p50_ms)).unwrap_or(0.0),
            p99_ms: of(&|outcome| Some(outcome.usual().latency.p99_ms)).unwrap_or(0.0),
            system_us: of(&|outcome| outcome.usual().cpu.system_us),
        }
    }

    /// How much faster the first is, and how much less processor time it takes.
    fn ratios(&self, first: &Row) -> (Option<f64>, Option<f64>) {
        let tps = (self.tps > 0.0).then(|| rounded(first.tps / self.tps));
        let cpu = self.system_us.zip(first.system_us).filter(|(_, first)| *first > 0.0);
        (tps, cpu.map(|(own, first)| rounded(own / first)))
    }

    fn json(&self, first: &Row, rounds: usize) -> Value {
        let (ratio, cpu_ratio) = self.ratios(first);
        let Outcome { system, driver, workload, guest, .. } = &self.first;
        json!({
            "system": system, "driver": driver, "workload": workload, "guest": guest, "peak_tps": self.tps,
            "p50_ms": rounded(self.p50_ms), "p99_ms": rounded(self.p99_ms), "system_cpu_us": self.system_us.map(rounded),
            "ratio": ratio, "cpu_ratio": cpu_ratio, "rounds": rounds,
        })
    }
}

fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// The middle one, or between the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    let first = &rows[0].first.system;
    let faster = format!("{first} / it");
    let cheaper = format!("its µs / {first}'s");
    table.set_header(["system", "guest", "answers /s", "p50 ms", "p99 ms", "system µs", &faster, &cheaper]);
    for row in rows {
        let (ratio, cpu) = row.ratios(&rows[0]);
        let number = |figure: Option<f64>| figure.map_or("–".to_owned(), |figure| format!("{figure:.2}"));
        table.add_row([
            format!("{} {}", row.first.system, row.first.driver),
            row.first.guest.clone(),
            format!("{:.0}", row.tps),
            format!("{:.2}", row.p50_ms),
            format!("{:.2}", row.p99_ms),
            number(row.system_us),
            number(ratio),
            number(cpu),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_found() {
        for (values, expected) in [(vec![], None), (vec![3.0], Some(3.0)), (vec![9.0, 1.0], Some(5.0))] {
            assert_eq!(median(values), expected);
        }
        assert_eq!(median(vec![5.0, 1.0, 100.0]), Some(5.0));
    }
}
