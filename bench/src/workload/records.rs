//! Records of ten fields, mostly read: what Styx's migrations are measured with (section 9.6).
//! There are so many of them that moving them takes a while.
//!
//! A field's figure counts its updates in the lower bits, and adds up fingerprints of their texts in the upper ones:
//! a field that nobody has updated holds its first text, one that was updated once the new one, any other
//! not the first.

use anyhow::{Context, ensure};
use clap::ValueEnum;
use rand::{Rng, RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

use super::chance::{Skewed, percent, text};
use super::{Ask, Call, Check, Language, Ledger, Seen, Workload, chosen, each, sums};

const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;
/// Bits of a figure that count updates.
const COUNT_BITS: u32 = 20;

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

    fn whole(&self, ask: &mut Ask<'_>) -> anyhow::Result<()> {
        let [count, bytes] = sums(ask, "record", "0", "count")?;
        let due = self.records as i64;
        ensure!(count == due, "there are {count} records, not {due}");
        let due = due * (FIELDS * FIELD_BYTES) as i64;
        ensure!(bytes == due, "the records have {bytes} bytes, not {due}");
        Ok(())
    }

    fn answered(&self, ask: &mut Ask<'_>, ledger: &Ledger) -> anyhow::Result<()> {
        let updates = |record| figures(record).map(|figure| ledger.due(figure));
        let records = chosen(self.records as u32, |record| updates(record).any(|updates| updates.exact() != Some(0)));
        let calls = records.into_iter().map(|record| (record, read(record)));
        each(ask, calls, |record, fields| {
            let fields = texts(&fields)?;
            let all = fields.iter().zip(first_fields(record.into())).zip(updates(record)).enumerate();
            for (field, ((found, first), updates)) in all {
                let is_due = match updates.exact() {
                    Some(0) => **found == *first,
                    Some(figure) if figure & ((1 << COUNT_BITS) - 1) == 1 => update(found) == figure,
                    Some(_) => **found != *first,
                    None => true,
                };
                ensure!(is_due, "field {field} of record {record} is not what was answered: {found:?}");
            }
            Ok(())
        })
    }
}

fn read(record: u32) -> Call {
    Call::read("record", record.to_string(), "read", "[]".into())
}

/// What a record holds at first.
fn first_fields(record: u64) -> [String; FIELDS] {
    let mut random = Pcg64Mcg::seed_from_u64(record);
    std::array::from_fn(|_| text(&mut random, FIELD_BYTES))
}

/// The figures of a record's fields.
fn figures(record: u32) -> impl Iterator<Item = u32> {
    (0..FIELDS as u32).map(move |field| record * FIELDS as u32 + field)
}

/// What an update with this text adds to the field's figure.
fn update(text: &str) -> i64 {
    let fingerprint = text
        .bytes()
        .fold(0u64, |hash, byte| (hash.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    (fingerprint << COUNT_BITS) as i64 | 1
}

/// The fields of a record as it is read, all there.
fn texts(record: &Value) -> anyhow::Result<Vec<&str>> {
    let fields = record.as_array().context("a record is an array")?;
    let fields: Option<Vec<&str>> = fields.iter().map(Value::as_str).collect();
    let fields = fields.filter(|fields| fields.len() == FIELDS && fields.iter().all(|text| text.len() == FIELD_BYTES));
    fields.with_context(|| format!("a record has {FIELDS} fields of {FIELD_BYTES} characters: {record}"))
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
            Call::write("record", record.to_string(), "insert", json!([first_fields(record)]).to_string())
        }))
    }

    fn next(&self, random: &mut dyn RngCore) -> Call {
        let record = self.chosen.sample(random) as u32;
        if percent(random, self.reads) {
            return read(record);
        }
        let (field, text) = (random.random_range(0..FIELDS), text(random, FIELD_BYTES));
        Call::write("record", record.to_string(), "update", format!("[{field},\"{text}\"]"))
            .adding([(record * FIELDS as u32 + field as u32, update(&text))])
    }

    fn figures(&self) -> usize {
        self.records as usize * FIELDS
    }

    fn check(&self, ask: &mut Ask<'_>, ledger: &Ledger) -> Vec<Check> {
        vec![
            Check::new("all records are there, all fields of them whole", self.whole(ask)),
            Check::new("fields hold what was answered", self.answered(ask, ledger)),
        ]
    }

    fn witnesses(&self, call: &Call) -> Vec<Call> {
        vec![Call::read("record", &*call.key, "read", "[]".into())]
    }

    fn judge(&self, seen: &Seen<'_>) -> anyhow::Result<()> {
        let mut due = texts(&seen.before[0])?;
        if let [field, text] = &*seen.arguments {
            let field = field.as_u64().context("a field is a number")?;
            due[field as usize] = text.as_str().context("a field is a text")?;
            ensure!(seen.answer == Some(Value::Null), "an update is answered by {:?}", seen.answer);
        } else {
            ensure!(seen.answer.as_ref() == seen.before.first(), "what was read is not what is there");
        }
        ensure!(texts(&seen.after[0])? == due, "it became {}, not {due:?}", seen.after[0]);
        Ok(())
    }
}
