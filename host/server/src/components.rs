//! Uploaded components under their digest: written once, never changed, believed only when the
//! content matches the name. Where several processes may coordinate one after the other, a copy is in
//! the store that they share.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use sha2::{Digest as _, Sha256};
use styx_durability::components::Components;
use styx_engine::Engine;
use styx_protocol::deployment::Digest;
use styx_protocol::ids::Timestamp;
use styx_storage::snapshot::ClusterMetadata;

/// A directory of components. Cheap to clone; every method blocks on the file system.
#[derive(Clone, Debug)]
pub struct ComponentStore {
    directory: Arc<Path>,
    /// Copy that other coordinators share.
    shared: Option<ClusterMetadata>,
    compiled: Option<CompiledCode>,
    /// Held while files are deleted: what is wanted at that moment stays.
    changing: Arc<Mutex<()>>,
}

/// Where code of the components is.
#[derive(Clone)]
struct CompiledCode(Arc<Engine>);

impl std::fmt::Debug for CompiledCode {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("CompiledCode")
    }
}

const SUFFIX: &str = ".wasm";

impl ComponentStore {
    /// Opens the directory, making it if absent. What an interrupted upload left behind is removed.
    pub fn open(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory: PathBuf = directory.into();
        fs::create_dir_all(&directory)?;
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "part") {
                fs::remove_file(path)?;
            }
        }
        Ok(ComponentStore { directory: directory.into(), shared: None, compiled: None, changing: Arc::default() })
    }

    /// The same directory; what is put there from now on is also put into `cluster_metadata`.
    #[must_use]
    pub fn shared(self, cluster_metadata: ClusterMetadata) -> Self {
        ComponentStore { shared: Some(cluster_metadata), ..self }
    }

    /// The same directory; with what is deleted from it goes what `engine` has compiled of it.
    #[must_use]
    pub fn compiled_by(self, engine: Arc<Engine>) -> Self {
        ComponentStore { compiled: Some(CompiledCode(engine)), ..self }
    }

    /// The content address of `bytes`.
    pub fn digest(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// Path of a component, which need not be there.
    pub fn path(&self, digest: Digest) -> PathBuf {
        self.directory.join(format!("{digest}{SUFFIX}"))
    }

    /// Puts those that are not in the directory there, if others have shared them.
    ///
    /// # Errors
    /// One is nowhere, or cannot be read.
    pub fn fetch(&self, wanted: &BTreeSet<Digest>) -> anyhow::Result<()> {
        let Some(cluster_metadata) = &self.shared else { return Ok(()) };
        for digest in wanted.iter().filter(|digest| !self.contains(**digest)) {
            let shared = cluster_metadata.component(&digest.to_string())?;
            let bytes = shared.with_context(|| {
                format!(
                    "component {digest} of a deployment is neither in {} nor at {}; start the coordinator that has it first",
                    self.directory.display(),
                    cluster_metadata.url()
                )
            })?;
            anyhow::ensure!(
                Self::digest(&bytes) == *digest,
                "component {digest} at {} is another one",
                cluster_metadata.url()
            );
            self.keep(&bytes)?;
        }
        Ok(())
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether a component is there; if so, it stays for as long as one that was just put.
    pub fn want(&self, digest: Digest) -> bool {
        let _changing = self.changing();
        self.contains(digest) && self.refresh(digest).is_ok()
    }

    fn refresh(&self, digest: Digest) -> io::Result<()> {
        File::options().append(true).open(self.path(digest))?.set_modified(SystemTime::now())
    }

    fn keep(&self, bytes: &[u8]) -> io::Result<Digest> {
        let digest = Self::digest(bytes);
        let _changing = self.changing();
        // A file whose content is not what its name says is replaced.
        if self.get(digest).is_ok() && self.refresh(digest).is_ok() {
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
}

impl Components for ComponentStore {
    fn contains(&self, digest: Digest) -> bool {
        self.path(digest).is_file()
    }

    fn put(&self, bytes: &[u8]) -> io::Result<Digest> {
        let digest = self.keep(bytes)?;
        if let Some(cluster_metadata) = &self.shared {
            cluster_metadata.put_component(&digest.to_string(), bytes).map_err(io::Error::other)?;
        }
        Ok(digest)
    }

    fn get(&self, digest: Digest) -> io::Result<Vec<u8>> {
        let bytes = fs::read(self.path(digest))?;
        if Self::digest(&bytes) != digest {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("component {digest} is damaged: its content does not match its digest; upload it again"),
            ));
        }
        Ok(bytes)
    }

    fn collect(&self, needed: &BTreeSet<Digest>, before: Timestamp) -> io::Result<usize> {
        let before = SystemTime::UNIX_EPOCH + Duration::from_micros(before.0);
        let mut deleted = 0;
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let digest = name.to_str().and_then(|name| Digest::parse(name.strip_suffix(SUFFIX)?));
            let Some(digest) = digest.filter(|digest| !needed.contains(digest)) else { continue };
            let _changing = self.changing();
            if fs::metadata(self.path(digest))?.modified()? < before {
                fs::remove_file(self.path(digest))?;
                deleted += 1;
            }
        }
        if let Some(CompiledCode(engine)) = &self.compiled {
            engine.prune_cache(before, |digest| needed.contains(&digest))?;
        }
        Ok(deleted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_deployment_names_goes_after_a_while() {
        let directory = tempfile::tempdir().unwrap();
        let store = ComponentStore::open(directory.path()).unwrap();
        let [named, old, again, wanted, young] =
            [b"named", b"old--", b"again", b"want-", b"young"].map(|bytes| store.put(bytes).unwrap());
        let hours = |hours: u64| SystemTime::now() - Duration::from_secs(3600 * hours);
        for digest in [named, old, again, wanted] {
            File::options().append(true).open(store.path(digest)).unwrap().set_modified(hours(3)).unwrap();
        }
        fs::write(directory.path().join("else.wasm"), b"no component").unwrap();
        store.put(b"again").unwrap();
        assert!(store.want(wanted) && !store.want(ComponentStore::digest(b"absent")));
        let before = hours(1).duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64;
        assert_eq!(store.collect(&BTreeSet::from([named]), Timestamp(before)).unwrap(), 1);
        let left = [named, old, again, wanted, young].map(|digest| store.contains(digest));
        assert_eq!(left, [true, false, true, true, true]);
        assert!(directory.path().join("else.wasm").exists());
        assert_eq!(store.collect(&BTreeSet::from([named]), Timestamp(before)).unwrap(), 0);
    }

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
    fn what_one_has_put_another_fetches() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let memory = styx_storage::snapshot::Memory::default();
        let place = styx_storage::snapshot::StoreLocation::in_memory(&memory);
        let shared = || {
            let directory = tempfile::tempdir().unwrap();
            let store = ComponentStore::open(directory.path()).unwrap();
            (store.shared(ClusterMetadata::open(&place, runtime.handle()).unwrap()), directory)
        };
        let ((one, _one), (two, _two)) = (shared(), shared());
        let digest = one.put(b"one").unwrap();
        two.fetch(&BTreeSet::from([digest])).unwrap();
        assert_eq!(two.get(digest).unwrap(), b"one");
        let absent = ComponentStore::digest(b"absent");
        let told = two.fetch(&BTreeSet::from([digest, absent])).unwrap_err().to_string();
        assert!(told.contains(&absent.to_string()) && told.contains("memory:"), "{told}");
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
