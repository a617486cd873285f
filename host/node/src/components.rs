//! Uploaded components under their digest: written once, never changed, believed only when the
//! content matches the name.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use styx_protocol::catalog::Digest;

/// A directory of components. Cheap to clone; every method blocks on the file system.
#[derive(Clone, Debug)]
pub struct ComponentStore {
    directory: Arc<Path>,
}

const SUFFIX: &str = ".wasm";

impl ComponentStore {
    /// Opens the directory, making it if absent. What an interrupted upload left behind is removed.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn open(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory: PathBuf = directory.into();
        fs::create_dir_all(&directory)?;
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "part") {
                fs::remove_file(path)?;
            }
        }
        Ok(ComponentStore { directory: directory.into() })
    }

    /// The content address of `bytes`.
    pub fn digest(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// Where a component is, or would be.
    pub fn path(&self, digest: Digest) -> PathBuf {
        self.directory.join(format!("{digest}{SUFFIX}"))
    }

    /// Whether a component is there.
    pub fn contains(&self, digest: Digest) -> bool {
        self.path(digest).is_file()
    }

    /// Keeps a component; it is durable when this returns. Doing so again costs a look.
    ///
    /// # Errors
    /// The file system refuses; then nothing is kept.
    pub fn put(&self, bytes: &[u8]) -> io::Result<Digest> {
        let digest = Self::digest(bytes);
        // A file whose content is not what its name says is replaced.
        if self.get(digest).is_ok() {
            return Ok(digest);
        }
        let mut part = tempfile::Builder::new().prefix("upload-").suffix(".part").tempfile_in(&self.directory)?;
        part.write_all(bytes)?;
        part.as_file().sync_all()?;
        part.persist(self.path(digest)).map_err(|error| error.error)?;
        // The name is durable only once the directory is.
        File::open(&self.directory)?.sync_all()?;
        Ok(digest)
    }

    /// The bytes of a component.
    ///
    /// # Errors
    /// It is not there, or its content is not what its digest says.
    pub fn get(&self, digest: Digest) -> io::Result<Vec<u8>> {
        let bytes = fs::read(self.path(digest))?;
        if Self::digest(&bytes) != digest {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("component {digest} is damaged: its content does not match its digest; upload it again"),
            ));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_can_be_got_and_what_is_damaged_cannot() {
        let directory = tempfile::tempdir().unwrap();
        let store = ComponentStore::open(directory.path().join("components")).unwrap();
        let digest = store.put(b"one").unwrap();
        assert_eq!(digest.to_string(), "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed");
        assert_eq!((store.get(digest).unwrap(), store.contains(digest)), (b"one".to_vec(), true));
        assert_eq!(store.put(b"one").unwrap(), digest);

        fs::write(store.path(digest), b"two").unwrap();
        assert_eq!(store.get(digest).unwrap_err().kind(), io::ErrorKind::InvalidData);
        store.put(b"one").unwrap();
        assert_eq!(store.get(digest).unwrap(), b"one");

        let absent = ComponentStore::digest(b"absent");
        assert_eq!((store.get(absent).unwrap_err().kind(), store.contains(absent)), (io::ErrorKind::NotFound, false));
    }

    #[test]
    fn an_interrupted_upload_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("upload-x.part"), b"half").unwrap();
        let store = ComponentStore::open(directory.path()).unwrap();
        store.put(b"whole").unwrap();
        let names: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names, [format!("{}.wasm", ComponentStore::digest(b"whole"))]);
    }
}
