//! The object store: what is in it, and the way to it, on which everything takes time, fails, or is not answered.
//!
//! The product's own code for snapshots and leases runs above. Whatever it sends may arrive after its process is gone.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::DateTime;
use futures_util::stream::{self, BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use styx_storage::snapshot::Environment;

use crate::thread::{Answer, Wait, is_running, wait};

/// An object on its way into the store.
#[derive(Debug)]
pub struct Put {
    pub name: Path,
    bytes: Bytes,
    mode: PutMode,
}

/// The answer to a put; none, if nobody knows.
pub type PutAnswer = Option<Result<PutResult>>;

/// Objects to be deleted.
#[derive(Debug)]
pub struct Deletion {
    pub names: Vec<Path>,
}

#[derive(Clone, Debug)]
struct Object {
    bytes: Bytes,
    version: u64,
    modified_us: u64,
}

/// Contents of the store.
#[derive(Debug, Default)]
pub struct Contents {
    objects: BTreeMap<Path, Object>,
    versions: u64,
    /// The store's clock, µs since 1970.
    pub now_us: u64,
}

impl Contents {
    /// Puts an object, if its conditions hold.
    pub fn put(&mut self, put: &Put) -> Result<PutResult> {
        let there = self.objects.get(&put.name);
        match (&put.mode, there) {
            (PutMode::Create, Some(_)) => {
                return Err(Error::AlreadyExists { path: put.name.to_string(), source: "it is there".into() });
            }
            (PutMode::Update(version), there)
                if there.map(|object| tag(object.version)) != version.e_tag || version.e_tag.is_none() =>
            {
                return Err(Error::Precondition { path: put.name.to_string(), source: "another version".into() });
            }
            _ => {}
        }
        self.versions += 1;
        let object = Object { bytes: put.bytes.clone(), version: self.versions, modified_us: self.now_us };
        self.objects.insert(put.name.clone(), object);
        Ok(PutResult { e_tag: Some(tag(self.versions)), version: None, extensions: Default::default() })
    }

    /// Deletes an object.
    pub fn delete(&mut self, name: &Path) {
        self.objects.remove(name);
    }

    /// Whether an object is there.
    pub fn contains(&self, name: &str) -> bool {
        self.objects.contains_key(&Path::from(name))
    }

    /// Names of the objects in a folder.
    pub fn names(&self, folder: &str) -> Vec<Path> {
        self.within(&Path::from(folder)).map(|(name, _)| name.clone()).collect()
    }

    /// Turns a byte of an object over, or cuts the object off; gives what it was.
    pub fn damage(&mut self, name: &Path, at: u64, cut: bool) -> Option<Bytes> {
        let object = self.objects.get_mut(name)?;
        let before = object.bytes.clone();
        let mut bytes = object.bytes.to_vec();
        let at = (at % bytes.len().max(1) as u64) as usize;
        if cut {
            bytes.truncate(at);
        } else if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 0x20;
        }
        object.bytes = bytes.into();
        Some(before)
    }

    /// Undoes that.
    pub fn repair(&mut self, name: &Path, before: Bytes) {
        if let Some(object) = self.objects.get_mut(name) {
            object.bytes = before;
        }
    }

    fn meta(name: &Path, object: &Object) -> ObjectMeta {
        ObjectMeta {
            location: name.clone(),
            last_modified: DateTime::from_timestamp_micros(object.modified_us as i64).unwrap_or_default(),
            size: object.bytes.len() as u64,
            e_tag: Some(tag(object.version)),
            version: None,
        }
    }

    fn get(&self, name: &Path, options: &GetOptions) -> Result<GetResult> {
        let Some(object) = self.objects.get(name) else {
            return Err(Error::NotFound { path: name.to_string(), source: "there is no such object".into() });
        };
        let size = object.bytes.len() as u64;
        let range: Range<u64> = match &options.range {
            None => 0..size,
            Some(GetRange::Bounded(range)) if range.start < size => range.start..range.end.min(size),
            Some(GetRange::Offset(start)) if *start < size => *start..size,
            Some(GetRange::Suffix(bytes)) => size.saturating_sub(*bytes)..size,
            Some(_) => return Err(unavailable("the range begins behind the end")),
        };
        let bytes = object.bytes.slice(range.start as usize..range.end as usize);
        Ok(GetResult {
            payload: GetResultPayload::Stream(stream::once(async move { Ok(bytes) }).boxed()),
            meta: Contents::meta(name, object),
            range,
            attributes: Default::default(),
            extensions: Default::default(),
        })
    }

    fn list(&self, prefix: Option<&Path>) -> Vec<Result<ObjectMeta>> {
        let prefix = prefix.cloned().unwrap_or_default();
        self.within(&prefix).map(|(name, object)| Ok(Contents::meta(name, object))).collect()
    }

    fn within(&self, folder: &Path) -> impl Iterator<Item = (&Path, &Object)> {
        let begins = |(name, _): &(&Path, &Object)| name.as_ref().starts_with(folder.as_ref());
        self.objects.range(folder..).take_while(begins).filter(|(name, _)| name.prefix_matches(folder))
    }
}

fn tag(version: u64) -> String {
    format!("\"{version}\"")
}

fn unavailable(why: &'static str) -> Error {
    Error::Generic { store: "simulated", source: why.into() }
}

/// The store as the product reaches it. From outside of a simulated thread, as checkers do, everything is there at once.
#[derive(Clone, Debug, Default)]
pub struct Client(Arc<Mutex<Contents>>);

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the simulated store")
    }
}

impl Client {
    pub fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the answer to a read.
    fn read(&self) -> Result<()> {
        if !is_running() {
            return Ok(());
        }
        match wait(Wait::Read) {
            Answer::Done => Ok(()),
            _ => Err(unavailable("the store does not answer")),
        }
    }
}

#[async_trait]
impl ObjectStore for Client {
    async fn put_opts(&self, name: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let put = Put { name: name.clone(), bytes: payload.into(), mode: options.mode };
        if !is_running() {
            return self.contents().put(&put);
        }
        match wait(Wait::Put(put)) {
            Answer::Put(Some(result)) => result,
            _ => Err(unavailable("the store does not answer")),
        }
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(unavailable("nothing in a world is so large"))
    }

    async fn get_opts(&self, name: &Path, options: GetOptions) -> Result<GetResult> {
        self.read()?;
        self.contents().get(name, &options)
    }

    fn delete_stream(&self, names: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        let all = async move {
            let names: Vec<Path> = names.filter_map(|name| async { name.ok() }).collect().await;
            if !is_running() {
                names.iter().for_each(|name| this.contents().delete(name));
            } else if !matches!(wait(Wait::Delete(Deletion { names: names.clone() })), Answer::Done) {
                return vec![Err(unavailable("the store does not answer"))];
            }
            names.into_iter().map(Ok).collect()
        };
        stream::once(all).flat_map(stream::iter).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let found = match self.read() {
            Ok(()) => self.contents().list(prefix),
            Err(error) => vec![Err(error)],
        };
        stream::iter(found).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(unavailable("nobody asks for folders"))
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(unavailable("nobody copies"))
    }
}

/// Names for objects, all different; and the pauses of code that uses the store.
#[derive(Debug, Default)]
pub struct Names(AtomicU64);

impl Environment for Names {
    fn nonce(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn pause(&self, duration: Duration) {
        if is_running() {
            wait(Wait::Pause(duration));
        }
    }
}
