//! What the processes and their directories hold at a moment, as the system tells.

use std::path::Path;

use styx_harness::{Cluster, Role};

use super::trend::Tolerance;

/// A figure that is watched: its name, its unit, and what it may grow by over a run.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) unit: &'static str,
    pub(super) tolerance: Tolerance,
    pub(super) value: f64,
}

const MIB: f64 = (1 << 20) as f64;

fn figure(name: impl Into<String>, unit: &'static str, value: f64, (absolute, share): (f64, f64)) -> Figure {
    Figure { name: name.into(), unit, tolerance: Tolerance { absolute, share }, value }
}

/// Figures of every process of Styx, and of their directories.
pub(super) fn take(cluster: &Cluster) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for role in cluster.own() {
        let process = cluster.process(role);
        let (of, root) = (process.name(), Path::new("/proc").join(process.id()?.to_string()));
        let status = std::fs::read_to_string(root.join("status"))?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0)
        };
        figures.push(figure(format!("memory, {of}"), "MiB", number("VmRSS:") / 1024.0, (16.0, 0.1)));
        let descriptors = std::fs::read_dir(root.join("fd"))?.count() as f64;
        figures.push(figure(format!("descriptors, {of}"), "", descriptors, (8.0, 0.1)));
        figures.push(figure(format!("threads, {of}"), "", number("Threads:"), (4.0, 0.0)));
    }
    let directory = cluster.directory();
    let names: Vec<&str> = cluster.own().into_iter().map(|role| cluster.process(role).name()).collect();
    let held = |within: &str| {
        let each = names.iter().map(|name| tree(&directory.join(name).join(within)));
        each.fold((0, 0), |sum, held| (sum.0 + held.0, sum.1 + held.1))
    };
    let bytes = |bytes: u64| bytes as f64 / MIB;
    // The log grows by a segment and is trimmed by whole ones.
    figures.push(figure("log", "MiB", bytes(held("log").0), (96.0, 0.0)));
    let (snapshots, files) = held("snapshots");
    figures.push(figure("snapshots", "MiB", bytes(snapshots), (8.0, 0.25)));
    figures.push(figure("snapshots, files", "", files as f64, (50.0, 0.25)));
    figures.push(figure("components", "MiB", bytes(held("components").0), (1.0, 0.0)));
    let cache = if cluster.own().contains(&Role::Server) { held("cache").0 } else { tree(&directory.join("cache")).0 };
    figures.push(figure("compiled code", "MiB", bytes(cache), (1.0, 0.0)));
    let messages = names.iter().map(|name| directory.join(format!("{name}.log")).metadata().map_or(0, |it| it.len()));
    figures.push(figure("messages", "KiB", messages.sum::<u64>() as f64 / 1024.0, (256.0, 0.0)));
    Ok(figures)
}

/// Bytes and files below a directory; what disappears meanwhile does not count.
fn tree(directory: &Path) -> (u64, u64) {
    let mut held = (0, 0);
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                waiting.push(entry.path());
            } else {
                held = (held.0 + metadata.len(), held.1 + 1);
            }
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_directory_is_counted() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("within")).unwrap();
        for (name, bytes) in [("one", 10), ("within/other", 5)] {
            std::fs::write(place.path().join(name), vec![0; bytes]).unwrap();
        }
        assert_eq!(tree(place.path()), (15, 2));
        assert_eq!(tree(&place.path().join("absent")), (0, 0));
    }
}
