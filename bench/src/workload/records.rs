//! Records of ten fields, mostly read: what Styx's migrations are measured with (section 9.6).
//! There are so many of them that moving them takes a while.

use anyhow::ensure;
use clap::ValueEnum;
use rand::{Rng, RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::json;

use super::chance::{Skewed, percent, text};
use super::{Call, Check, Language, Read, Workload, sums};

const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;

/// How the workload is made up.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Records, of a thousand bytes each
    #[arg(long, default_value_t = 1_000_000)]
    pub records: u64,
    /// So many calls in a hundred read a record, the others replace a field
    #[arg(long, default_value_t = 85.0)]
    pub reads: f64,
    /// Exponent of the Zipf distribution of records
    #[arg(long, default_value_t = 0.0)]
    pub theta: f64,
}

pub struct Records {
    records: u64,
    reads: f64,
    chosen: Skewed,
}

impl Records {
    pub fn new(options: &Options) -> anyhow::Result<Self> {
        let Options { records, reads, theta } = *options;
        Ok(Records { records, reads, chosen: Skewed::new(records, theta)? })
    }

    fn whole(&self, read: &mut Read<'_>) -> anyhow::Result<()> {
        let [count, bytes] = sums(read, "record", "0", "count")?;
        let due = self.records as i64;
        ensure!(count == due, "there are {count} records, not {due}");
        let due = due * (FIELDS * FIELD_BYTES) as i64;
        ensure!(bytes == due, "the records have {bytes} bytes, not {due}");
        Ok(())
    }
}

impl Workload for Records {
    fn name(&self) -> &'static str {
        "ycsb-records"
    }

    fn app(&self) -> &'static str {
        "ycsb"
    }

    fn languages(&self) -> &'static [Language] {
        Language::value_variants()
    }

    fn fill(&self) -> Box<dyn Iterator<Item = Call> + Send + '_> {
        Box::new((0..self.records).map(|record| {
            let mut random = Pcg64Mcg::seed_from_u64(record);
            let fields: Vec<_> = (0..FIELDS).map(|_| text(&mut random, FIELD_BYTES)).collect();
            Call::write("record", record.to_string(), "insert", json!([fields]).to_string())
        }))
    }

    fn next(&self, random: &mut dyn RngCore) -> Call {
        let record = self.chosen.sample(random).to_string();
        if percent(random, self.reads) {
            return Call::read("record", record, "read", "[]".into());
        }
        let field = random.random_range(0..FIELDS);
        Call::write("record", record, "update", format!("[{field},\"{}\"]", text(random, FIELD_BYTES)))
    }

    fn entities(&self) -> Box<dyn Iterator<Item = Call> + '_> {
        Box::new((0..self.records).map(|record| Call::read("record", record.to_string(), "read", "[]".into())))
    }

    fn check(&self, read: &mut Read<'_>) -> Vec<Check> {
        vec![Check::new("all records are there, all fields of them whole", self.whole(read))]
    }
}
