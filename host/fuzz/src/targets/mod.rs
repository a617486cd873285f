//! The targets, by who writes what they read.

mod apps;
#[cfg(feature = "server")]
mod calls;
mod logs;
mod machines;
mod snapshots;
mod wire;

use std::fs;
use std::path::Path;

use crate::Target;

pub const TARGETS: &[Target] = &[
    Target { name: "bundle", read: apps::bundle, seeds: apps::bundles },
    Target { name: "manifest", read: apps::manifest, seeds: apps::manifests },
    #[cfg(feature = "server")]
    Target { name: "schema", read: calls::schema, seeds: calls::schemas },
    #[cfg(feature = "server")]
    Target { name: "arguments", read: calls::arguments, seeds: calls::bodies },
    Target { name: "frames", read: wire::frames, seeds: wire::all_frames },
    Target { name: "messages", read: wire::message, seeds: machines::messages },
    Target { name: "control-messages", read: wire::control_message, seeds: wire::control_messages },
    Target { name: "records", read: logs::record, seeds: logs::records },
    Target { name: "segments", read: logs::segment, seeds: logs::segments },
    Target { name: "topic", read: logs::topic, seeds: logs::topics },
    Target { name: "manifests", read: snapshots::manifest, seeds: snapshots::manifests },
    Target { name: "parts", read: snapshots::part, seeds: snapshots::parts },
    Target { name: "heads", read: snapshots::head, seeds: snapshots::heads },
    Target { name: "machines", read: machines::machines, seeds: machines::stories },
    Target { name: "long-machines", read: machines::long, seeds: machines::stories },
];

/// Every file below a directory of `host/`, such as the fixtures of a format.
fn files(directory: &str) -> Vec<Vec<u8>> {
    fn walk(directory: &Path, found: &mut Vec<Vec<u8>>) {
        let mut entries: Vec<_> = fs::read_dir(directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
            .map(|entry| entry.expect("a directory can be read to its end").path())
            .collect();
        entries.sort();
        for path in entries {
            if path.is_dir() { walk(&path, found) } else { found.push(fs::read(&path).expect("it is a file")) }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(directory), &mut found);
    found
}
