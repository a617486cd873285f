//! Blocking interface to an object store, for plain threads: every call waits for the store's answer.
//!
//! The waiting happens on the calling thread, the input and output where the [`Runtime`] says. So what
//! encodes and decodes never runs on a runtime's threads, and code above needs no `async`.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    UpdateVersion,
};

use super::error::SnapshotError;
use super::location::{Opened, RetryPolicy, StoreLocation};
use super::runtime::Runtime;

/// Small requests under way at a time.
pub const CONCURRENCY: usize = 16;

/// Objects at a location, with names relative to it.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    directory: Option<PathBuf>,
    runtime: Runtime,
}

/// An object in a listing.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// Microseconds since 1970, by the store's clock.
    pub(crate) modified_us: u64,
}

/// A whole object and which version of it this is.
pub(crate) struct Fetched {
    pub(crate) bytes: Bytes,
    pub(crate) version: UpdateVersion,
}

/// Result of a request that was begun.
#[derive(Debug)]
pub(crate) enum Pending<T> {
    /// It comes from the runtime.
    UnderWay(mpsc::Receiver<T>),
    Done(T),
}

impl<T> Pending<Result<T, SnapshotError>> {
    pub(crate) fn wait(self) -> Result<T, SnapshotError> {
        match self {
            Self::Done(result) => result,
            Self::UnderWay(receiver) => receiver.recv().unwrap_or_else(|_| {
                Err(SnapshotError::Store {
                    action: "reach",
                    object: "the store".into(),
                    reason: "the runtime that it runs on has ended".into(),
                })
            }),
        }
    }
}

impl Objects {
    pub(crate) fn open(
        location: &StoreLocation,
        retries: RetryPolicy,
        runtime: Runtime,
    ) -> Result<Self, SnapshotError> {
        let Opened { store, prefix, directory } = location.open(retries)?;
        Ok(Self { store, prefix, directory, runtime })
    }

    /// Directory of the objects, if they are files.
    pub(crate) fn directory(&self) -> Option<&PathBuf> {
        self.directory.as_ref()
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    fn path(&self, name: &str) -> Path {
        if self.prefix.is_empty() { Path::from(name) } else { Path::from(format!("{}/{name}", self.prefix)) }
    }

    fn start<T, F>(&self, future: F) -> Pending<Result<T, SnapshotError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, SnapshotError>> + Send + 'static,
    {
        match &self.runtime {
            Runtime::Inline(_) => Pending::Done(pollster::block_on(future)),
            Runtime::Tokio(handle) => {
                let (sender, receiver) = mpsc::sync_channel(1);
                handle.spawn(async move {
                    // The caller may have given up.
                    let _ = sender.send(future.await);
                });
                Pending::UnderWay(receiver)
            }
        }
    }

    fn run<T, F>(&self, future: F) -> Result<T, SnapshotError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, SnapshotError>> + Send + 'static,
    {
        self.start(future).wait()
    }

    /// Checks that the location answers at all.
    pub(crate) fn probe(&self, location: &StoreLocation) -> Result<(), SnapshotError> {
        let (store, prefix) = (self.store.clone(), self.path("manifests"));
        let location = location.clone();
        self.run(async move {
            match store.list(Some(&prefix)).try_next().await {
                Ok(_) => Ok(()),
                Err(error) => Err(location.explain(&error)),
            }
        })
    }

    /// Puts `bytes` under a free name; false if the name is taken.
    pub(crate) fn put_new(&self, name: &str, bytes: Vec<u8>) -> Result<bool, SnapshotError> {
        Ok(self.put_mode(name, bytes, PutMode::Create)?.is_some())
    }

    /// Starts to put `bytes` under `name`, whatever was there.
    pub(crate) fn start_put(&self, name: &str, bytes: Vec<u8>) -> Pending<Result<(), SnapshotError>> {
        let (store, path, name) = (self.store.clone(), self.path(name), name.to_owned());
        self.start(async move {
            match store.put(&path, PutPayload::from(bytes)).await {
                Ok(_) => Ok(()),
                Err(error) => Err(SnapshotError::store("write", &name, &error)),
            }
        })
    }

    /// Puts `bytes` where `version` is, or where nothing is; the new version, or `None` if something else is there.
    pub(crate) fn put_over(
        &self,
        name: &str,
        bytes: Vec<u8>,
        version: Option<UpdateVersion>,
    ) -> Result<Option<UpdateVersion>, SnapshotError> {
        self.put_mode(name, bytes, version.map_or(PutMode::Create, PutMode::Update))
    }

    fn put_mode(&self, name: &str, bytes: Vec<u8>, mode: PutMode) -> Result<Option<UpdateVersion>, SnapshotError> {
        let (store, path, name) = (self.store.clone(), self.path(name), name.to_owned());
        self.run(async move {
            match store.put_opts(&path, PutPayload::from(bytes), PutOptions::from(mode)).await {
                Ok(result) => Ok(Some(result.into())),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(None),
                Err(error) => Err(SnapshotError::store("write", &name, &error)),
            }
        })
    }

    /// A small object, whole; `None` if it is not there.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Fetched>, SnapshotError> {
        let (store, path, name) = (self.store.clone(), self.path(name), name.to_owned());
        self.run(async move {
            let got = match store.get(&path).await {
                Ok(got) => got,
                Err(Error::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(SnapshotError::store("read", &name, &error)),
            };
            let version = UpdateVersion { e_tag: got.meta.e_tag.clone(), version: got.meta.version.clone() };
            match got.bytes().await {
                Ok(bytes) => Ok(Some(Fetched { bytes, version })),
                Err(error) => Err(SnapshotError::store("read", &name, &error)),
            }
        })
    }

    /// Starts to read a piece of an object; the piece comes with the size of the whole object.
    pub(crate) fn get_range(&self, name: &str, range: Range<u64>) -> Pending<Result<(Bytes, u64), SnapshotError>> {
        let (store, path, name) = (self.store.clone(), self.path(name), name.to_owned());
        self.start(async move {
            let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
            let refused = match store.get_opts(&path, options).await {
                Ok(got) => {
                    let whole = got.meta.size;
                    let bytes = got.bytes().await.map_err(|error| SnapshotError::store("read", &name, &error))?;
                    return Ok((bytes, whole));
                }
                Err(Error::NotFound { .. }) => return Err(SnapshotError::Missing { object: name }),
                Err(error) => error,
            };
            // A range beyond the end is refused in as many ways as there are stores: look at the size instead.
            match store.head(&path).await {
                Ok(meta) if meta.size < range.end => {
                    let what = format!("it ends there, and should have at least {} bytes", range.end);
                    Err(SnapshotError::damaged(&name, meta.size, what))
                }
                Err(Error::NotFound { .. }) => Err(SnapshotError::Missing { object: name }),
                _ => Err(SnapshotError::store("read", &name, &refused)),
            }
        })
    }

    /// The sizes of objects, `None` for those that are not there, in the order asked.
    pub(crate) fn sizes(&self, names: Vec<String>) -> Result<Vec<Option<u64>>, SnapshotError> {
        let this = self.clone();
        self.run(async move {
            let one = |name: String| {
                let (store, path) = (this.store.clone(), this.path(&name));
                async move {
                    match store.head(&path).await {
                        Ok(meta) => Ok(Some(meta.size)),
                        Err(Error::NotFound { .. }) => Ok(None),
                        Err(error) => Err(SnapshotError::store("look for", &name, &error)),
                    }
                }
            };
            stream::iter(names.into_iter().map(one)).buffered(CONCURRENCY).try_collect().await
        })
    }

    /// All objects in a folder whose names sort behind `after`, in order of their names.
    pub(crate) fn list(&self, folder: &str, after: Option<&str>) -> Result<Vec<Listed>, SnapshotError> {
        let (store, path, prefix) = (self.store.clone(), self.path(folder), self.prefix.clone());
        let (after, folder) = (after.map(|name| self.path(name)), folder.to_owned());
        self.run(async move {
            let listing = match &after {
                Some(after) => store.list_with_offset(Some(&path), after),
                None => store.list(Some(&path)),
            };
            let found: Vec<_> =
                listing.try_collect().await.map_err(|error| SnapshotError::store("list", &folder, &error))?;
            let mut found: Vec<_> = found
                .into_iter()
                .map(|meta: object_store::ObjectMeta| {
                    let name = meta.location.as_ref();
                    let name = name.strip_prefix(&prefix).unwrap_or(name).trim_start_matches('/').to_owned();
                    let modified_us = u64::try_from(meta.last_modified.timestamp_micros()).unwrap_or(0);
                    Listed { name, bytes: meta.size, modified_us }
                })
                .collect();
            found.sort_by(|left, right| left.name.cmp(&right.name));
            Ok(found)
        })
    }

    /// Deletes objects; those that are gone already are no error.
    pub(crate) fn delete(&self, names: &[String]) -> Result<(), SnapshotError> {
        if names.is_empty() {
            return Ok(());
        }
        let store = self.store.clone();
        let paths: Vec<_> = names.iter().map(|name| Ok(self.path(name))).collect();
        self.run(async move {
            let mut deleted = store.delete_stream(stream::iter(paths).boxed());
            while let Some(result) = deleted.next().await {
                match result {
                    Ok(_) | Err(Error::NotFound { .. }) => {}
                    Err(error) => return Err(SnapshotError::store("delete", "old objects", &error)),
                }
            }
            Ok(())
        })
    }

    /// Deletes what crashed writers left half-written beside its place in a directory, if it was last touched
    /// before `before_us`. Stores of other kinds keep such things to themselves.
    pub(crate) fn delete_staged(&self, folder: &str, before_us: u64) -> Result<(), SnapshotError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let before = SystemTime::UNIX_EPOCH + Duration::from_micros(before_us);
        let failed = |error: std::io::Error| SnapshotError::store("tidy up", folder, &error);
        let entries = match std::fs::read_dir(directory.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            // A staged file is named like its place, with a number behind `#`, which no name contains.
            if !entry.file_name().to_string_lossy().contains('#') {
                continue;
            }
            let old = entry.metadata().and_then(|metadata| metadata.modified()).is_ok_and(|modified| modified < before);
            if old {
                // Somebody else who tidies up may be first, and what cannot be deleted harms nobody.
                let _ = std::fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    /// Starts an upload in pieces.
    pub(crate) fn start_multipart(&self, name: &str) -> Result<Box<dyn MultipartUpload>, SnapshotError> {
        let (store, path, name) = (self.store.clone(), self.path(name), name.to_owned());
        self.run(async move {
            store.put_multipart(&path).await.map_err(|error| SnapshotError::store("write", &name, &error))
        })
    }

    /// Runs a step of an upload, which borrows nothing.
    pub(crate) fn start_step<T: Send + 'static>(
        &self,
        name: &str,
        step: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Pending<Result<T, SnapshotError>> {
        let name = name.to_owned();
        self.start(async move { step.await.map_err(|error| SnapshotError::store("write", &name, &error)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_before_1970_is_as_old_as_can_be() {
        let directory = tempfile::tempdir().unwrap();
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let location = StoreLocation::new(directory.path().to_str().unwrap());
        let objects = Objects::open(&location, RetryPolicy::Opening, tokio.handle().into()).unwrap();
        let times = [
            (SystemTime::UNIX_EPOCH - Duration::from_secs(9), 0),
            (SystemTime::UNIX_EPOCH + Duration::from_micros(7), 7),
        ];
        for (at, modified_us) in times {
            assert!(objects.put_new("parts/a", b"bytes".to_vec()).is_ok());
            std::fs::File::open(directory.path().join("parts/a")).unwrap().set_modified(at).unwrap();
            let listed = objects.list("parts", None).unwrap();
            assert_eq!((listed[0].name.as_str(), listed[0].bytes, listed[0].modified_us), ("parts/a", 5, modified_us));
        }
    }
}
