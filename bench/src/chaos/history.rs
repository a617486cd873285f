//! The history of some lists, judged by a checker that knows nothing of Styx.

use std::collections::BTreeMap;
use std::time::Duration;

use adya::{History, Opts, Valid, Workload, check};
use anyhow::Context;
use serde_json::{Value, json};

use super::ledger::Append;

/// How long the checker may look for cycles.
const TIME_MAX: Duration = Duration::from_secs(20);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    Wrong(String),
    /// It had not time enough.
    Undecided,
}

/// Judges whether these appends were strictly serializable, by the lists that they came to.
/// All appends to these lists must be among them.
pub(super) fn judge(appends: &[Append], lists: &BTreeMap<String, Vec<u64>>) -> anyhow::Result<Verdict> {
    if appends.is_empty() {
        return Ok(Verdict::Undecided);
    }
    let text = history(appends, lists);
    let history = History::from_json(&text).map_err(|error| anyhow::anyhow!("{error:?}")).context("the history")?;
    let options = Opts { models: vec!["strict-serializable".into()], timeout: TIME_MAX, ..Opts::default() };
    let report = check(&history, Workload::ListAppend, &options);
    Ok(match report.valid {
        Valid::True => Verdict::Right,
        Valid::False => Verdict::Wrong(format!("the history of some lists shows {:?}", report.anomaly_types)),
        Valid::Unknown => Verdict::Undecided,
    })
}

/// One operation a line, in the JSON lines of Elle; every request is a process of its own.
fn history(appends: &[Append], lists: &BTreeMap<String, Vec<u64>>) -> String {
    let mut lines: Vec<(u64, bool, Value)> = Vec::new();
    let mut end = 0;
    for append in appends {
        let (names, number) = (append.names(), append.number);
        let values = |shown: Option<[usize; 2]>| -> Vec<Value> {
            let of = |at: usize| {
                let read = shown.and_then(|lengths| lists.get(&names[at])?.get(..lengths[at]));
                [json!(["append", names[at], number]), json!(["r", names[at], read])]
            };
            [0, 1].into_iter().flat_map(of).collect()
        };
        let line = |kind: &str, value| json!({ "type": kind, "f": "txn", "process": number, "value": value });
        lines.push((append.asked_us, false, line("invoke", values(None))));
        end = end.max(append.asked_us).max(append.told_us);
        if let Some(told) = append.told {
            let ok = line("ok", values(Some(told.map(|seen| seen.length))));
            lines.push((append.told_us, true, ok));
        }
    }
    // Somebody reads them all in the end.
    let mut names: Vec<String> = appends.iter().flat_map(Append::names).collect();
    names.sort();
    names.dedup();
    for (at, name) in names.iter().enumerate() {
        let process = u64::MAX / 4 + at as u64;
        for (kind, read) in [("invoke", None), ("ok", Some(lists.get(name).map_or(&[][..], Vec::as_slice)))] {
            let line = json!({ "type": kind, "f": "txn", "process": process, "value": [["r", name, read]] });
            lines.push((end + 1 + u64::from(kind == "ok"), kind == "ok", line));
        }
    }
    lines.sort_by_key(|(time, completion, _)| (*time, *completion));
    let numbered = lines.into_iter().enumerate().map(|(index, (time, _, mut line))| {
        line["index"] = json!(index);
        line["time"] = json!(time * 1_000);
        line.to_string()
    });
    numbered.collect::<Vec<String>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::ledger::{Ledger, Seen, Way};

    #[test]
    fn a_serial_history_is_right_and_one_whose_order_changed_is_not() {
        let (mut ledger, mut lists) = (Ledger::new(7), BTreeMap::<String, Vec<u64>>::new());
        let mut appends = Vec::new();
        for at in 0..200u64 {
            let mut append = ledger.append(Way::Plain, at * 10);
            let names = append.names();
            names.iter().for_each(|name| lists.entry(name.clone()).or_default().push(append.number));
            if at % 7 > 0 {
                append.told = Some(names.map(|name| Seen { length: lists[&name].len(), hash: 0 }));
                append.told_us = at * 10 + 5;
            }
            appends.push(append);
        }
        assert_eq!(judge(&appends, &lists).unwrap(), Verdict::Right);
        // Two stand the other way round in one list than both of them saw.
        lists.values_mut().find(|list| list.len() > 3).unwrap().swap(1, 2);
        assert!(matches!(judge(&appends, &lists).unwrap(), Verdict::Wrong(_)));
    }
}
