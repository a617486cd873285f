//! `styx snapshots`.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use indicatif::ProgressBar;
use reqwest::Method;
use serde_json::{Value, json};
use styx_durability::log::begin;
use styx_durability::metadata::identity;
use styx_durability::recovery::Found;
use styx_protocol::record::Genesis;
use styx_storage::log::{EmbeddedLog, EmbeddedOptions, Log, LogError};
use styx_storage::snapshot::{Imported, Progress, SnapshotError, SnapshotStore, StoreLocation};
use tokio::runtime::Runtime;

use crate::client::Client;
use crate::error::CliError;
use crate::output::Output;
use styx_server::clock::now;
use styx_server::config::{Flags, ServerConfig, store_location};
use styx_server::snapshots::SnapshotView;

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotsVerb {
    /// List the snapshots of a running server, or of a store
    List {
        #[command(flatten)]
        at: StoreArgs,
    },
    /// Have a running server take a snapshot now
    Create,
    /// Read all of a snapshot, and check every byte
    Verify {
        /// Its number [default: the newest]
        sequence: Option<u64>,
        #[command(flatten)]
        at: StoreArgs,
    },
    /// Begin again where a snapshot was taken: what came after it is set aside. The server must be stopped
    Restore {
        /// Its number [default: the newest]
        sequence: Option<u64>,
        #[command(flatten)]
        at: StoreArgs,
    },
    /// Copy a snapshot to another place: a backup
    Export {
        /// Directory, or s3://bucket/prefix
        to: String,
        /// Its number [default: the newest]
        #[arg(long)]
        sequence: Option<u64>,
        #[command(flatten)]
        at: StoreArgs,
    },
    /// Begin a new server with a snapshot that was exported, perhaps of another cluster
    Import {
        /// Directory, or s3://bucket/prefix
        from: String,
        #[command(flatten)]
        at: StoreArgs,
    },
}

/// Which store, as the server would choose it.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// Where snapshots are [default: as the server has it: from styx.toml, or snapshots in the data directory]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The server's data directory [default: ./.styx]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

pub(crate) fn run(
    client: impl Fn() -> Result<Client, CliError>,
    verb: SnapshotsVerb,
    output: &Output,
) -> Result<(), CliError> {
    match verb {
        SnapshotsVerb::List { at } if at.store.is_none() && at.data_dir.is_none() => {
            let client = client()?;
            show(client.send(client.admin(Method::GET, "/v1/snapshots"))?.body, output);
        }
        SnapshotsVerb::List { at } => {
            let listed = OpenStore::at(&at)?.store.list().map_err(failed)?;
            show(json!({ "snapshots": listed.iter().map(SnapshotView::from).collect::<Vec<_>>() }), output);
        }
        SnapshotsVerb::Create => {
            let client = client()?;
            let spinner = output.spinner("taking a snapshot");
            let taken = client.send(client.admin(Method::POST, "/v1/snapshots"))?.body;
            spinner.finish_and_clear();
            output.did(&format!("snapshot {} of epoch {}", taken["sequence"], taken["epoch"]), &taken);
        }
        SnapshotsVerb::Verify { sequence, at } => verify(&OpenStore::at(&at)?, sequence, output)?,
        SnapshotsVerb::Restore { sequence, at } => restore(&OpenStore::at(&at)?, sequence, output)?,
        SnapshotsVerb::Export { to, sequence, at } => {
            let opened = OpenStore::at(&at)?;
            let sequence = opened.choose(sequence)?;
            let bar = output.bytes("copying");
            let place = store_location(to);
            let copied = opened.store.export(sequence, &place, &|progress| watch(&bar, progress));
            let copied = copied.map_err(|error| opened.failed(error))?;
            bar.finish_and_clear();
            let bytes = copied.progress.bytes;
            output.did(
                &format!("snapshot {sequence} of epoch {} is at {}", copied.manifest.epoch, place.url()),
                &json!({ "sequence": sequence, "epoch": copied.manifest.epoch, "bytes": bytes }),
            );
        }
        SnapshotsVerb::Import { from, at } => import(&at, from, output)?,
    }
    Ok(())
}

/// A store, opened beside the server or without one.
struct OpenStore {
    /// Does the input and output.
    _runtime: Runtime,
    store: SnapshotStore,
    data_dir: PathBuf,
}

/// A place as a shell takes it.
fn quoted(place: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-:".contains(letter);
    if place.chars().all(is_plain) { place.to_owned() } else { format!("'{}'", place.replace('\'', r"'\''")) }
}

fn runtime() -> Result<Runtime, CliError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| CliError::new("RUNTIME", error.to_string(), ""))
}

fn configured(at: &StoreArgs) -> Result<(PathBuf, StoreLocation), CliError> {
    let mut flags = Flags::default().with("log", "embedded");
    if let Some(store) = &at.store {
        flags = flags.with("store", store);
    }
    if let Some(data_dir) = &at.data_dir {
        flags = flags.with("data_dir", data_dir);
    }
    let config = ServerConfig::resolve(flags, Path::new("."))?;
    match config.store {
        Some(place) => Ok((config.data_dir, store_location(place))),
        None => Err(CliError::usage("CONFIG_INVALID", "there is no store", "give --store the place of the snapshots")),
    }
}

impl OpenStore {
    fn at(at: &StoreArgs) -> Result<Self, CliError> {
        let (data_dir, place) = configured(at)?;
        let missing = || {
            CliError::new(
                "NO_SNAPSHOTS",
                format!("there are no snapshots at {}", place.url()),
                "give --data-dir or --store as the server has them",
            )
        };
        // Looking must not make a directory.
        if !place.url().contains(':') && !Path::new(place.url()).is_dir() {
            return Err(missing());
        }
        let runtime = runtime()?;
        let identity = SnapshotStore::identify(&place, runtime.handle()).map_err(failed)?.ok_or_else(missing)?;
        let store = SnapshotStore::open(&place, identity, runtime.handle()).map_err(failed)?;
        Ok(OpenStore { _runtime: runtime, store, data_dir })
    }

    fn choose(&self, sequence: Option<u64>) -> Result<u64, CliError> {
        match sequence {
            Some(sequence) => Ok(sequence),
            None => match self.store.latest().map_err(failed)? {
                Some(manifest) => Ok(manifest.sequence),
                None => Err(CliError::new(
                    "NO_SNAPSHOTS",
                    format!("no snapshot has been taken at {}", self.store.location().url()),
                    "have a running server take one: styx snapshots create",
                )),
            },
        }
    }

    /// What went wrong with one of its snapshots, with what lists the others: by the store, since the server may be stopped.
    fn failed(&self, error: SnapshotError) -> CliError {
        match error {
            SnapshotError::NoSuchSnapshot { sequence, location } => CliError::new(
                "NO_SNAPSHOTS",
                format!("there is no snapshot {sequence} in {location}"),
                self.lists("those that are there"),
            ),
            other => failed(other),
        }
    }

    fn lists(&self, which: &str) -> String {
        format!("`styx snapshots list --store {}` names {which}", quoted(self.store.location().url()))
    }
}

fn verify(opened: &OpenStore, sequence: Option<u64>, output: &Output) -> Result<(), CliError> {
    let sequence = opened.choose(sequence)?;
    let bar = output.bytes("reading");
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let verified = opened.store.verify(sequence, threads, &|progress| watch(&bar, progress));
    let verified = verified.map_err(|error| opened.failed(error))?;
    bar.finish_and_clear();
    if let Some(first) = verified.damage.first() {
        let all: Vec<String> = verified.damage.iter().map(ToString::to_string).collect();
        let message = format!("snapshot {sequence} is damaged in {} places; the first: {first}", all.len());
        let hint = "a restart takes the snapshot before it and more of the log";
        return Err(CliError { detail: all.join("\n"), ..CliError::new("SNAPSHOT_DAMAGED", message, hint) });
    }
    output.did(
        &format!("snapshot {sequence} is whole: {} entries", verified.entries),
        &json!({ "sequence": sequence, "entries": verified.entries, "bytes": verified.progress.bytes }),
    );
    Ok(())
}

fn restore(opened: &OpenStore, sequence: Option<u64>, output: &Output) -> Result<(), CliError> {
    let sequence = opened.choose(sequence)?;
    verify(opened, Some(sequence), &Output::new(output.is_json()).silent())?;
    let manifest = opened.store.manifest(sequence).map_err(|error| opened.failed(error))?;
    let found = Found::read(&opened.store, manifest)
        .map_err(|error| CliError { hint: opened.lists("older ones"), ..damaged(&error) })?;
    // Above all that were there: who still writes, unseen from here, is fenced.
    let generation = opened.store.latest().map_err(failed)?.map_or(0, |newest| newest.generation) + 1;
    let (set_aside, position) = new_log(&opened.data_dir, &found.metadata.genesis)?;
    let again = opened.store.reinstate(sequence, generation, position, now().0).map_err(failed)?;
    output.did(
        &format!("the next start begins with epoch {}, as snapshot {}", again.epoch, again.sequence),
        &json!({ "sequence": again.sequence, "epoch": again.epoch, "log_set_aside": set_aside }),
    );
    if let Some(directory) = &set_aside {
        output.note(&format!("the log before is in {}; delete it when nobody misses it", directory.display()));
    }
    Ok(())
}

fn import(at: &StoreArgs, from: String, output: &Output) -> Result<(), CliError> {
    let (data_dir, place) = configured(at)?;
    let from = store_location(from);
    let runtime = runtime()?;
    let theirs = SnapshotStore::identify(&from, runtime.handle()).map_err(failed)?;
    let found = match theirs {
        Some(theirs) => {
            let source = SnapshotStore::open(&from, theirs, runtime.handle()).map_err(failed)?;
            let manifest = source.latest().map_err(failed)?;
            manifest.map(|manifest| Found::read(&source, manifest).map_err(|error| damaged(&error))).transpose()?
        }
        None => None,
    };
    let Some(found) = found else {
        let hint = "name the place of an export: styx snapshots export makes one";
        return Err(CliError::new("NO_SNAPSHOTS", format!("there are no snapshots at {}", from.url()), hint));
    };
    let log = data_dir.join("log");
    if log.is_dir() && EmbeddedLog::open(&log, EmbeddedOptions::default()).map_err(log_failed)?.next() > 0 {
        return Err(CliError::new(
            "NOT_EMPTY",
            format!("{} holds a log: importing would lose what is in it", data_dir.display()),
            "give --data-dir a new directory",
        ));
    }
    // Keys stay where they are: the layout is theirs. The cluster is another one.
    let genesis = Genesis { created: now(), ..found.metadata.genesis };
    let store = SnapshotStore::open(&place, identity(&genesis), runtime.handle()).map_err(failed)?;
    let bar = output.bytes("copying");
    let imported = Imported { generation: FIRST, log_position: 1, created_us: now().0 };
    let copied = store.import(&from, imported, &|progress| watch(&bar, progress)).map_err(failed)?;
    bar.finish_and_clear();
    new_log(&data_dir, &genesis)?;
    output.did(
        &format!("a server with --data-dir {} begins with epoch {}", data_dir.display(), copied.manifest.epoch),
        &json!({ "epoch": copied.manifest.epoch, "bytes": copied.progress.bytes }),
    );
    Ok(())
}

/// The generation that begins a store.
const FIRST: u64 = 1;

/// Begins a new log; one that is there is set aside. Where it is now, and where replay starts.
fn new_log(data_dir: &Path, genesis: &Genesis) -> Result<(Option<PathBuf>, u64), CliError> {
    let directory = data_dir.join("log");
    let io = |error: std::io::Error| CliError::new("DATA_DIR", format!("{}: {error}", data_dir.display()), "");
    let mut set_aside = None;
    if directory.is_dir() {
        // Opened, so that no server has it; and closed again. It may be damaged: that is why one restores.
        match EmbeddedLog::open(&directory, EmbeddedOptions::default()) {
            Ok(_) | Err(LogError::Corrupt { .. }) => {}
            Err(error) => return Err(log_failed(error)),
        }
        let aside = data_dir.join(format!("log-before-{}", now().0));
        std::fs::rename(&directory, &aside).map_err(io)?;
        set_aside = Some(aside);
    }
    std::fs::create_dir_all(data_dir).map_err(io)?;
    let mut log = EmbeddedLog::open(&directory, EmbeddedOptions::default()).map_err(log_failed)?;
    begin(&mut log, *genesis).map_err(log_failed)?;
    Ok((set_aside, log.next()))
}

fn show(body: Value, output: &Output) {
    let number = |value: &Value| value.as_u64().map_or_else(|| "?".to_owned(), |number| number.to_string());
    let row = |snapshot: &Value| {
        let size =
            snapshot["bytes"].as_u64().map_or_else(|| "?".to_owned(), |bytes| bytesize::ByteSize(bytes).to_string());
        vec![
            number(&snapshot["sequence"]),
            number(&snapshot["epoch"]),
            snapshot["created"].as_str().unwrap_or("?").to_owned(),
            size,
            number(&snapshot["parts"]),
            snapshot["problem"].as_str().unwrap_or("").to_owned(),
        ]
    };
    let rows = body["snapshots"].as_array().into_iter().flatten().map(row).collect();
    output.table(&["snapshot", "epoch", "taken", "size", "parts", ""], rows, &body);
}

fn watch(bar: &ProgressBar, progress: Progress) {
    bar.set_length(progress.bytes_total);
    bar.set_position(progress.bytes);
}

fn failed(error: SnapshotError) -> CliError {
    CliError::new(if error.is_damage() { "SNAPSHOT_DAMAGED" } else { "SNAPSHOT_STORE" }, error.to_string(), "")
}

fn damaged(error: &anyhow::Error) -> CliError {
    CliError::new("SNAPSHOT_DAMAGED", format!("{error:#}"), "choose an older one: styx snapshots list")
}

fn log_failed(error: LogError) -> CliError {
    styx_server::server::log_error(&error).into()
}
