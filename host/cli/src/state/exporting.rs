//! All entities of an app, or of one operator, as lines.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use reqwest::Method;
use serde_json::{Value, json};

use super::{PAGE, pages};
use crate::client::Client;
use crate::error::CliError;
use crate::invoke::encode;
use crate::output::Output;

/// Where entities are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// A snapshot that is taken now.
    Snapshot,
    /// The newest one that there is.
    NewestSnapshot,
    /// The state itself, which goes on meanwhile.
    Pages,
}

/// Where lines go. A file has its name when all of them are in it.
struct Lines<'a> {
    file: Option<&'a Path>,
    to: BufWriter<Box<dyn Write>>,
    entities: u64,
    /// Whether a line has begun, and not ended.
    open: bool,
    spinner: ProgressBar,
}

impl<'a> Lines<'a> {
    fn new(file: Option<&'a Path>, output: &Output) -> Result<Self, CliError> {
        let to: Box<dyn Write> = match file {
            Some(file) => Box::new(File::create(part(file)).map_err(|error| failed(Some(file), &error))?),
            None => Box::new(std::io::stdout().lock()),
        };
        // What is written to a terminal shows how far it is.
        let spinner = if file.is_some() { output.spinner("exporting") } else { ProgressBar::hidden() };
        Ok(Lines { file, to: BufWriter::with_capacity(64 << 10, to), entities: 0, open: false, spinner })
    }

    fn write(&mut self, text: &[u8]) -> Result<(), CliError> {
        let Some(last) = text.last() else { return Ok(()) };
        self.entities += text.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.open = *last != b'\n';
        self.spinner.set_message(format!("{} entities", self.entities));
        self.to.write_all(text).map_err(|error| failed(self.file, &error))
    }

    fn finish(mut self) -> Result<u64, CliError> {
        self.spinner.finish_and_clear();
        let failed = |error: std::io::Error| failed(self.file, &error);
        self.to.flush().map_err(failed)?;
        if self.open {
            let hint = "export it again; the server's log says what was wrong";
            return Err(CliError::new("INCOMPLETE", "the export broke off in the middle of a line", hint));
        }
        if let Some(file) = self.file {
            std::fs::rename(part(file), file).map_err(failed)?;
        }
        Ok(self.entities)
    }
}

/// The name of a file before it is whole.
fn part(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

fn failed(file: Option<&Path>, error: &std::io::Error) -> CliError {
    let place = file.map_or_else(|| "standard output".into(), |file| file.display().to_string());
    CliError::new("IO", format!("{place}: {error}"), "give --output a file that can be written")
}

/// See [`super::StateVerb::Export`].
pub(super) fn export(
    client: &Client,
    target: &str,
    from: From,
    file: Option<&Path>,
    output: &Output,
) -> Result<(), CliError> {
    let mut lines = Lines::new(file, output)?;
    let exported = match from {
        From::Pages => export_pages(client, target, &mut lines),
        _ => match export_snapshot(client, target, from == From::NewestSnapshot, &mut lines) {
            // Where there are no snapshots.
            Err(error) if error.code == "NO_SNAPSHOT" && from == From::Snapshot && lines.entities == 0 => {
                export_pages(client, target, &mut lines)
            }
            exported => exported,
        },
    };
    let when = exported.inspect_err(|_| {
        if let Some(file) = file {
            // Half of it is none; and there may be none.
            let _ = std::fs::remove_file(part(file));
        }
    })?;
    let entities = lines.finish()?;
    output.done(&format!("{entities} entities of {target}, {when}"));
    Ok(())
}

fn export_snapshot(client: &Client, target: &str, latest: bool, lines: &mut Lines<'_>) -> Result<String, CliError> {
    let (app, operator) = match target.split_once('/') {
        Some((app, operator)) => (app, format!("&operator={}", encode(operator))),
        None => (target, String::new()),
    };
    let path = format!("/v1/apps/{}/export?latest={latest}{operator}", encode(app));
    let mut written = Ok(());
    let epoch = client.stream(client.admin(Method::GET, &path), &mut |piece| {
        written = lines.write(piece);
        written.is_ok()
    })?;
    written?;
    Ok(format!("as of epoch {}", epoch.unwrap_or_default()))
}

fn export_pages(client: &Client, target: &str, lines: &mut Lines<'_>) -> Result<String, CliError> {
    let (app, operators) = match target.split_once('/') {
        Some((app, operator)) => (app, vec![operator.to_owned()]),
        None => {
            let body = client.send(client.admin(Method::GET, &format!("/v1/apps/{}", encode(target))))?.body;
            let operators = body["operators"].as_array().cloned().unwrap_or_default();
            (target, operators.iter().map(|each| each["name"].as_str().unwrap_or_default().to_owned()).collect())
        }
    };
    let mut epochs = None;
    for operator in &operators {
        pages(client, app, operator, "", PAGE, |body| {
            let epoch = body["epoch"].as_u64().unwrap_or_default();
            let (first, _) = *epochs.get_or_insert((epoch, epoch));
            epochs = Some((first, epoch));
            for entry in body["entries"].as_array().into_iter().flatten() {
                let mut line = json!({ "operator": operator });
                for (name, value) in entry.as_object().into_iter().flatten() {
                    line[name] = Value::clone(value);
                }
                lines.write(format!("{line}\n").as_bytes())?;
            }
            Ok(())
        })?;
    }
    let (first, last) = epochs.unwrap_or_default();
    Ok(if first == last {
        format!("as of epoch {last}")
    } else {
        format!("read in epochs {first} to {last}; a page is of one epoch, and pages may be of several")
    })
}
