//! Who a worker is, or one of several coordinators: the id that it keeps for all its lives, and the lock on it.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::Path;

use super::parts::failed;
use crate::error::ServerError;
use styx_transport::NodeId;

/// The id of the process in a data directory; nobody else is it while this lives.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) node: NodeId,
    _lock: File,
}

const FILE: &str = "node";

impl Identity {
    /// Reads the id of a directory, or keeps the one in its certificate, or draws one.
    ///
    /// # Errors
    /// Another process is this one, the file cannot be taken, or the certificate is another node's.
    pub(super) fn open(directory: &Path, certified: Option<NodeId>) -> Result<Self, ServerError> {
        fs::create_dir_all(directory)
            .map_err(|error| failed(format!("cannot make {}: {error}", directory.display())))?;
        let lock = File::create(directory.join("lock")).map_err(failed)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => ServerError::new(
                "DATA_LOCKED",
                format!("another process uses {}", directory.display()),
                "stop it, or choose another --data-dir: each worker and each coordinator has its own",
            ),
            TryLockError::Error(error) => failed(format!("cannot lock {}: {error}", directory.display())),
        })?;
        let path = directory.join(FILE);
        let node = match fs::read_to_string(&path) {
            Ok(text) => u64::from_str_radix(text.trim(), 16).map_err(|_| {
                ServerError::new(
                    "START",
                    format!("{} does not hold a node id", path.display()),
                    "delete it: the process then is a new one",
                )
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // Not the coordinator's.
                let node = certified.map_or_else(|| rand::random::<u64>() | 2, |certified| certified.0);
                keep(directory, &path, node).map_err(failed)?;
                node
            }
            Err(error) => return Err(failed(format!("cannot read {}: {error}", path.display()))),
        };
        if let Some(certified) = certified.filter(|certified| certified.0 != node) {
            return Err(ServerError::new(
                "OTHER_NODE",
                format!(
                    "{} is of node {node:016x}, and the certificate of node {:016x}",
                    directory.display(),
                    certified.0
                ),
                "give it its own certificate: `styx cluster certificate --node ID`; or another --data-dir",
            ));
        }
        Ok(Identity { node: NodeId(node), _lock: lock })
    }

    /// The id as people read it.
    pub(super) fn name(&self) -> String {
        format!("{:016x}", self.node.0)
    }
}

fn keep(directory: &Path, path: &Path, node: u64) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    writeln!(file, "{node:016x}")?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_one_worker_for_ever_and_one_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let first = Identity::open(directory.path(), None).unwrap();
        assert_eq!(Identity::open(directory.path(), None).unwrap_err().code, "DATA_LOCKED");
        let node = first.node;
        drop(first);
        assert_eq!(Identity::open(directory.path(), None).unwrap().node, node);
        assert_eq!(Identity::open(directory.path(), Some(NodeId(node.0 ^ 4))).unwrap_err().code, "OTHER_NODE");
        assert_eq!(Identity::open(directory.path(), Some(node)).unwrap().node, node);
        let new = tempfile::tempdir().unwrap();
        assert_eq!(Identity::open(new.path(), Some(NodeId(6))).unwrap().node, NodeId(6));
        fs::write(directory.path().join(FILE), "nonsense").unwrap();
        assert_eq!(Identity::open(directory.path(), None).unwrap_err().code, "START");
    }
}
