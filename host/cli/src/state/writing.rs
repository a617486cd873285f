//! Writes to entities from outside, by the functions that every operator has: `styx.put` and `styx.delete`.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use serde::{Deserialize, Deserializer};
use serde_json::json;
use serde_json::value::RawValue;

use super::calls::{Call, call_all, refused};
use super::{PAGE, pages};
use crate::client::Client;
use crate::error::CliError;
use crate::output::Output;

/// Lines and bytes of them that are sent at once.
const LINES_AT_ONCE: usize = 1000;
const BYTES_AT_ONCE: usize = 2 << 20;

/// An entity as it is exported; or one that is to go.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    operator: Option<String>,
    key: String,
    #[serde(default, deserialize_with = "present")]
    value: Option<Box<RawValue>>,
    encoding: Option<String>,
    #[serde(default)]
    delete: bool,
}

/// `null` is a value.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// What becomes of an entity.
enum Change {
    /// The arguments of `styx.put`.
    Put(String),
    Delete,
}

/// Changes of an app's entities, sent many at a time.
struct Writer<'a> {
    client: &'a Client,
    app: &'a str,
    /// By operator and key, with the line that says so: the last one counts.
    waiting: BTreeMap<(String, String), (u64, Change)>,
    bytes: usize,
    put: u64,
    deleted: u64,
}

impl<'a> Writer<'a> {
    fn new(client: &'a Client, app: &'a str) -> Self {
        Writer { client, app, waiting: BTreeMap::new(), bytes: 0, put: 0, deleted: 0 }
    }

    fn change(&mut self, line: u64, operator: String, key: String, change: Change) -> Result<(), CliError> {
        self.bytes += operator.len() + key.len();
        if let Change::Put(args) = &change {
            self.bytes += args.len();
        }
        self.waiting.insert((operator, key), (line, change));
        if self.waiting.len() >= LINES_AT_ONCE || self.bytes >= BYTES_AT_ONCE { self.send() } else { Ok(()) }
    }

    /// Sends what waits.
    fn send(&mut self) -> Result<(), CliError> {
        self.bytes = 0;
        let changes: Vec<_> = std::mem::take(&mut self.waiting).into_iter().collect();
        let calls = changes.iter().map(|((operator, key), (_, change))| {
            let (function, args) = match change {
                Change::Put(args) => ("styx.put", args.as_str()),
                Change::Delete => ("styx.delete", "[]"),
            };
            Call { operator, key, function, args }
        });
        let calls: Vec<Call<'_>> = calls.collect();
        let answers = call_all(self.client, self.app, &calls)?;
        let mut failed = None;
        for (answer, ((operator, key), (line, change))) in answers.iter().zip(&changes) {
            match change {
                _ if answer["error"].is_object() => failed = failed.or(Some((answer, operator, key, *line))),
                Change::Put(_) => self.put += 1,
                Change::Delete => self.deleted += 1,
            }
        }
        let Some((answer, operator, key, line)) = failed else { return Ok(()) };
        let place = if line == 0 { String::new() } else { format!("line {line}, ") };
        Err(refused(answer, &format!("{place}{operator}/{key}: ")))
    }
}

/// Writes one entity.
pub(super) fn put(client: &Client, target: [&str; 3], value: &str, output: &Output) -> Result<(), CliError> {
    let [app, operator, key] = target;
    let value: Box<RawValue> = serde_json::from_str(value).map_err(|error| {
        CliError::usage(
            "BAD_VALUE",
            format!("the value is no JSON: {error}"),
            "for example: styx state put shop/stock/apple '{\"price\": 3}'",
        )
    })?;
    let mut writer = Writer::new(client, app);
    writer.change(0, operator.to_owned(), key.to_owned(), Change::Put(format!("[{value}]")))?;
    writer.send()?;
    output.done(&format!("{app}/{operator}/{key} is written"));
    Ok(())
}

/// Removes one entity; whether there was one does not matter.
pub(super) fn delete(client: &Client, target: [&str; 3], output: &Output) -> Result<(), CliError> {
    let [app, operator, key] = target;
    let mut writer = Writer::new(client, app);
    writer.change(0, operator.to_owned(), key.to_owned(), Change::Delete)?;
    writer.send()?;
    output.done(&format!("{app}/{operator}/{key} is gone"));
    Ok(())
}

/// Removes all entities of an operator whose keys begin so, page by page.
pub(super) fn delete_all(
    client: &Client,
    app: &str,
    operator: &str,
    prefix: &str,
    output: &Output,
) -> Result<(), CliError> {
    let mut writer = Writer::new(client, app);
    let spinner = output.spinner("removing entities");
    let done = pages(client, app, operator, prefix, PAGE, |page| {
        for entry in page["entries"].as_array().into_iter().flatten() {
            writer.change(
                0,
                operator.to_owned(),
                entry["key"].as_str().unwrap_or_default().to_owned(),
                Change::Delete,
            )?;
        }
        spinner.set_message(format!("{} entities removed", writer.deleted));
        Ok(())
    });
    let done = done.and_then(|()| writer.send());
    spinner.finish_and_clear();
    done?;
    told(&writer, app, output);
    Ok(())
}

/// Writes what [`super::export`] has written, into the same operators of an app.
pub(super) fn import(client: &Client, target: &str, file: Option<&Path>, output: &Output) -> Result<(), CliError> {
    let (app, only) = match target.split_once('/') {
        Some((app, operator)) => (app, Some(operator)),
        None => (target, None),
    };
    let failed = |error: std::io::Error| {
        let place = file.map_or_else(|| "standard input".into(), |file| file.display().to_string());
        CliError::usage("IO", format!("{place}: {error}"), "give a file that `styx state export` has written")
    };
    let bar = output.bytes("importing");
    let mut from: Box<dyn BufRead> = match file {
        Some(file) => {
            let opened = std::fs::File::open(file).map_err(failed)?;
            bar.set_length(opened.metadata().map_err(failed)?.len());
            Box::new(std::io::BufReader::new(opened))
        }
        None => Box::new(std::io::stdin().lock()),
    };
    let mut writer = Writer::new(client, app);
    let (mut text, mut number) = (String::new(), 0);
    let done = loop {
        text.clear();
        match from.read_line(&mut text).map_err(failed) {
            Ok(0) => break writer.send(),
            Ok(bytes) => bar.inc(bytes as u64),
            Err(error) => break Err(error),
        }
        number += 1;
        let taken = match text.trim() {
            "" => Ok(()),
            line => change_of(line, number, only)
                .and_then(|(operator, key, change)| writer.change(number, operator, key, change)),
        };
        if taken.is_err() {
            break taken;
        }
    };
    bar.finish_and_clear();
    done.map_err(|error| CliError {
        message: format!("{} ({} written and {} removed before)", error.message, writer.put, writer.deleted),
        ..error
    })?;
    told(&writer, app, output);
    Ok(())
}

fn told(writer: &Writer<'_>, app: &str, output: &Output) {
    let (put, deleted) = (writer.put, writer.deleted);
    if output.is_json() {
        return output.value(&json!({ "written": put, "removed": deleted }));
    }
    output.done(&match (put, deleted) {
        (_, 0) => format!("{put} entities of {app} written"),
        (0, _) => format!("{deleted} entities of {app} removed"),
        _ => format!("{put} entities of {app} written, {deleted} removed"),
    });
}

/// What a line wants.
fn change_of(text: &str, number: u64, only: Option<&str>) -> Result<(String, String, Change), CliError> {
    let wrong = |why: String| {
        CliError::usage(
            "BAD_LINE",
            format!("line {number}: {why}"),
            r#"a line is {"operator":…,"key":…,"value":…,"encoding":"json"}, or has "delete":true instead of a value"#,
        )
    };
    let line: Line = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let operator = match (line.operator, only) {
        (Some(operator), Some(only)) if operator != only => {
            return Err(wrong(format!("it is of operator \"{operator}\", and \"{only}\" is imported")));
        }
        (Some(operator), _) => operator,
        (None, Some(only)) => only.to_owned(),
        (None, None) => return Err(wrong("it names no operator".into())),
    };
    let change = match (line.value, line.encoding.as_deref(), line.delete) {
        (None, None, true) => Change::Delete,
        (Some(value), None | Some("json"), false) => Change::Put(format!("[{value}]")),
        (Some(value), Some("base64"), false) => Change::Put(format!("{{\"base64\":{value}}}")),
        (Some(_), Some(other), false) => return Err(wrong(format!("there is no encoding \"{other}\""))),
        (None, _, false) => return Err(wrong("it has no value".into())),
        (_, _, true) => return Err(wrong("it has a value and is to be deleted".into())),
    };
    Ok((operator, line.key, change))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_what_was_exported_or_a_removal() {
        let read = |text: &str, only| match change_of(text, 3, only) {
            Ok((operator, key, Change::Put(args))) => format!("{operator}/{key} = {args}"),
            Ok((operator, key, Change::Delete)) => format!("{operator}/{key} gone"),
            Err(error) => error.message,
        };
        let cases = [
            (r#"{"operator":"a","key":"k","encoding":"json","value":{"x": 1.50}}"#, None, r#"a/k = [{"x": 1.50}]"#),
            (r#"{"operator":"a","key":"k","value":null}"#, None, "a/k = [null]"),
            (r#"{"key":"k","value":1}"#, Some("a"), "a/k = [1]"),
            (r#"{"operator":"a","key":"k","encoding":"base64","value":"AAE="}"#, None, r#"a/k = {"base64":"AAE="}"#),
            (r#"{"operator":"a","key":"k","delete":true}"#, Some("a"), "a/k gone"),
            (r#"{"operator":"a","key":"k"}"#, None, "line 3: it has no value"),
            (r#"{"key":"k","value":1}"#, None, "line 3: it names no operator"),
            (
                r#"{"operator":"b","key":"k","value":1}"#,
                Some("a"),
                "line 3: it is of operator \"b\", and \"a\" is imported",
            ),
            (
                r#"{"operator":"a","key":"k","value":1,"delete":true}"#,
                None,
                "line 3: it has a value and is to be deleted",
            ),
            (r#"{"operator":"a","key":"k","value":1,"encoding":"xml"}"#, None, "line 3: there is no encoding \"xml\""),
        ];
        for (text, only, expected) in cases {
            assert_eq!(read(text, only), expected);
        }
        assert!(read(r#"{"operator":"a","key":"k","valu":1}"#, None).contains("valu"));
        assert!(read("[]", None).starts_with("line 3: "));
    }
}
