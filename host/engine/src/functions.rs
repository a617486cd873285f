//! Compiled functions, kept from one component to the next.
//!
//! An interpreter's functions are the same in every build of an app, and most of a program's are the same as in the one
//! before: what Cranelift has made of a function is found again by a digest of its intermediate code, of Cranelift's
//! version and of its settings, which Cranelift takes. Code does not depend on it: a function that is found is what it
//! would be compiled to. Some are not found although they are there, one in ten of CPython's: Cranelift 0.135 leaves the
//! exception tables of a trampoline in a context that it uses again (`DataFlowGraph::clear`), and digests them with the next
//! function, so that its digest depends on which thread took which context. Such a function is compiled and kept once more.
//!
//! Each compilation adds at most one file, a *pack*, of what it did not find, which appears whole by rename; packs are never changed.
//! What was not used for the longest time goes when there are too many bytes. Every entry has a checksum: what is
//! damaged is not there. What is deleted is compiled again. Who can write here can have code run, as with the compiled components beside
//! it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use wasmtime::CacheStore;
use xxhash_rust::xxh3::xxh3_128;

/// First bytes of a pack; others are of another version, and age until they go.
const MAGIC: [u8; 8] = *b"styxfn01";
/// Bytes of all packs: those of CPython with an app are 32 MB.
const BYTES_MAX: u64 = 512 << 20;
/// A build of little makes a little pack.
const PACKS_MAX: usize = 128;
const SUFFIX: &str = ".functions";
/// Magic, number of entries, checksum of the index.
const HEADER: usize = 8 + 4 + 16;
/// Key, length, checksum.
const INDEXED: usize = KEY + 4 + 16;
/// Bytes of a key, as Cranelift makes them.
const KEY: usize = 32;

type Key = [u8; KEY];

/// Functions that were compiled before, and those that one compilation adds to them.
#[derive(Debug)]
pub(crate) struct Functions {
    directory: PathBuf,
    bytes_max: u64,
    packs: Vec<Pack>,
    found: HashMap<Key, Place>,
    added: Mutex<BTreeMap<Key, Vec<u8>>>,
}

#[derive(Debug)]
struct Pack {
    file: File,
    used: AtomicBool,
}

/// Where an entry's bytes are.
#[derive(Clone, Copy, Debug)]
struct Place {
    pack: usize,
    offset: u64,
    length: u32,
    checksum: u128,
}

impl Functions {
    /// Those in a directory. That it is not there, or cannot be read, makes compiling slower and nothing else.
    pub fn open(directory: &Path) -> Self {
        Functions::bounded(directory, BYTES_MAX)
    }

    fn bounded(directory: &Path, bytes_max: u64) -> Self {
        let (mut packs, mut found) = (Vec::new(), HashMap::new());
        for (path, ..) in listed(directory).unwrap_or_default() {
            // Another process may have dropped it meanwhile.
            let Ok(file) = File::open(path) else { continue };
            let Some(places) = index(&file, packs.len()) else { continue };
            found.extend(places);
            packs.push(Pack { file, used: AtomicBool::new(false) });
        }
        Functions { directory: directory.to_owned(), bytes_max, packs, found, added: Mutex::default() }
    }

    /// Keeps what was added, marks what was used, and drops what was not for the longest time.
    pub fn keep(&self) -> std::io::Result<()> {
        let used = self.packs.iter().filter(|pack| pack.used.load(Ordering::Relaxed));
        for pack in used {
            // The time of use decides what is dropped, and nothing else; that it cannot be set is no failure.
            #[expect(clippy::disallowed_methods, reason = "no outcome depends on when code was compiled")]
            let _ = pack.file.set_modified(SystemTime::now());
        }
        let added = std::mem::take(&mut *self.added.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        if added.is_empty() {
            return Ok(());
        }
        let pack = encoded(&added);
        if pack.len() as u64 > self.bytes_max {
            return Ok(());
        }
        std::fs::create_dir_all(&self.directory)?;
        let mut file = tempfile::Builder::new().prefix("pack-").suffix(".new").tempfile_in(&self.directory)?;
        file.write_all(&pack)?;
        let name = file.path().with_extension(&SUFFIX[1..]);
        file.persist_noclobber(name).map_err(|error| error.error)?;
        self.drop_oldest()
    }

    fn drop_oldest(&self) -> std::io::Result<()> {
        let mut packs = listed(&self.directory)?;
        packs.sort_unstable_by_key(|&(_, used, _)| std::cmp::Reverse(used));
        let mut sum = 0;
        for (number, (path, _, bytes)) in packs.into_iter().enumerate() {
            sum += bytes;
            if sum > self.bytes_max || number >= PACKS_MAX {
                // Another process may have dropped it.
                let _ = std::fs::remove_file(path);
            }
        }
        Ok(())
    }

    fn read(&self, place: Place) -> Option<Vec<u8>> {
        let pack = &self.packs[place.pack];
        let mut bytes = vec![0; place.length as usize];
        pack.file.read_exact_at(&mut bytes, place.offset).ok()?;
        if xxh3_128(&bytes) != place.checksum {
            return None;
        }
        pack.used.store(true, Ordering::Relaxed);
        Some(bytes)
    }
}

impl CacheStore for Functions {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let place = *self.found.get(key)?;
        self.read(place).map(Cow::Owned)
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        let (Ok(key), true) = (key.try_into(), u32::try_from(value.len()).is_ok()) else { return false };
        self.added.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(key, value);
        true
    }
}

/// Packs of a directory: path, when it was used, bytes. What was begun and never finished is among them, and ages.
fn listed(directory: &Path) -> std::io::Result<Vec<(PathBuf, SystemTime, u64)>> {
    let mut packs = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        // Another process may have dropped it.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_file() {
            packs.push((entry.path(), metadata.modified()?, metadata.len()));
        }
    }
    Ok(packs)
}

/// A pack: magic, number of entries, checksum of the index, the index, the entries.
fn encoded(entries: &BTreeMap<Key, Vec<u8>>) -> Vec<u8> {
    let mut index = Vec::with_capacity(entries.len() * INDEXED);
    for (key, value) in entries {
        index.extend_from_slice(key);
        index.extend_from_slice(&(value.len() as u32).to_le_bytes());
        index.extend_from_slice(&xxh3_128(value).to_le_bytes());
    }
    let mut pack = Vec::with_capacity(HEADER + index.len() + entries.values().map(Vec::len).sum::<usize>());
    pack.extend_from_slice(&MAGIC);
    pack.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    pack.extend_from_slice(&xxh3_128(&index).to_le_bytes());
    pack.extend_from_slice(&index);
    entries.values().for_each(|value| pack.extend_from_slice(value));
    pack
}

/// Where the entries of a pack are; `None` if it is none, or its index is damaged.
fn index(file: &File, pack: usize) -> Option<Vec<(Key, Place)>> {
    let bytes = file.metadata().ok()?.len();
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0).ok()?;
    let (magic, rest) = header.split_at(MAGIC.len());
    let (count, checksum) = rest.split_at(4);
    let count = u32::from_le_bytes(count.try_into().ok()?) as usize;
    let length = count.checked_mul(INDEXED)?;
    if magic != MAGIC || (HEADER + length) as u64 > bytes {
        return None;
    }
    let mut index = vec![0; length];
    file.read_exact_at(&mut index, HEADER as u64).ok()?;
    if checksum != xxh3_128(&index).to_le_bytes() {
        return None;
    }
    let mut offset = (HEADER + length) as u64;
    let mut places = Vec::with_capacity(count);
    for entry in index.chunks_exact(INDEXED) {
        let (key, rest) = entry.split_at(KEY);
        let (length, checksum) = rest.split_at(4);
        let length = u32::from_le_bytes(length.try_into().ok()?);
        let checksum = u128::from_le_bytes(checksum.try_into().ok()?);
        places.push((key.try_into().ok()?, Place { pack, offset, length, checksum }));
        offset += u64::from(length);
    }
    (offset <= bytes).then_some(places)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::config::{self, Purpose};

    fn component(constant: u32) -> Vec<u8> {
        let text = format!(
            r#"(component (core module
                (func $same (param i32) (result i32) (local $i i32)
                    (loop (local.set $i (i32.add (local.get $i) (local.get 0)))
                        (br_if 0 (i32.lt_u (local.get $i) (i32.const 100))))
                    (local.get $i))
                (func (export "changed") (result i32) (i32.mul (call $same (i32.const 3)) (i32.const {constant})))))"#
        );
        wat::parse_str(text).unwrap()
    }

    /// What a component is compiled to, and how many functions were not found. By one thread: with several it is chance
    /// whether a function is found that is there.
    fn compiled(functions: &Arc<Functions>, component: &[u8]) -> (Vec<u8>, usize) {
        let mut config = config::wasmtime_config(Purpose::Compile);
        config.parallel_compilation(false);
        config.enable_incremental_compilation(functions.clone()).unwrap();
        let code = wasmtime::Engine::new(&config).unwrap().precompile_component(component).unwrap();
        let added = functions.added.lock().unwrap().len();
        functions.keep().unwrap();
        (code, added)
    }

    fn without(component: &[u8]) -> Vec<u8> {
        let config = config::wasmtime_config(Purpose::Compile);
        wasmtime::Engine::new(&config).unwrap().precompile_component(component).unwrap()
    }

    fn pack(directory: &Path) -> PathBuf {
        let [(path, ..)] = &listed(directory).unwrap()[..] else { panic!("one pack") };
        path.clone()
    }

    #[test]
    fn only_what_has_changed_is_compiled() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Arc::new(Functions::open(directory.path()));
        let (first, all) = compiled(&open(), &component(1));
        assert!(all >= 2, "{all}");
        assert_eq!(compiled(&open(), &component(1)), (first, 0), "the same again");
        let (second, changed) = compiled(&open(), &component(2));
        assert_eq!(changed, 1);
        assert_eq!(second, without(&component(2)), "and code is what it is without");
        assert_eq!(compiled(&open(), &component(2)).1, 0, "both packs are read");
    }

    #[test]
    fn what_is_damaged_is_compiled_again() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Arc::new(Functions::open(directory.path()));
        let (expected, all) = compiled(&open(), &component(1));
        let path = pack(directory.path());
        let whole = std::fs::read(&path).unwrap();
        let mut lost = 0;
        for at in (0..whole.len()).step_by(whole.len() / 40).chain([0, 9, HEADER - 1, HEADER, whole.len() - 1]) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&path, bytes).unwrap();
            let functions = open();
            let (code, added) = compiled(&functions, &component(1));
            assert_eq!(code, expected, "byte {at}");
            assert!(added >= 1 && added <= all, "byte {at}: {added} of {all}");
            lost += usize::from(added < all);
            for (other, ..) in listed(directory.path()).unwrap() {
                if other != path {
                    std::fs::remove_file(other).unwrap();
                }
            }
        }
        assert!(lost > 0, "an entry that is damaged takes no others along");
        for length in [0, HEADER - 1, HEADER, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(Functions::open(directory.path()).found.is_empty(), "{length} bytes of it");
        }
    }

    #[test]
    fn what_is_none_of_ours_is_compiled_again() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Arc::new(Functions::open(directory.path()));
        let (expected, all) = compiled(&open(), &component(1));
        let keys: Vec<Key> = open().found.keys().copied().collect();
        std::fs::remove_file(pack(directory.path())).unwrap();
        let foreign = Functions::open(directory.path());
        keys.iter().for_each(|key| assert!(foreign.insert(key, b"of another Cranelift".to_vec())));
        foreign.keep().unwrap();
        assert_eq!(compiled(&open(), &component(1)), (expected, all));
        assert!(!foreign.insert(b"short", Vec::new()));
    }

    #[test]
    fn the_longest_unused_go() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Functions::bounded(directory.path(), 4000);
        let key = |number: u8| [number; KEY];
        for number in 0..8 {
            let functions = open();
            assert_eq!(functions.get(&key(0)).is_some(), number > 0, "in use, the first stays");
            functions.insert(&key(number), vec![number; 1000]);
            functions.keep().unwrap();
            let sum: u64 = listed(directory.path()).unwrap().iter().map(|&(_, _, bytes)| bytes).sum();
            assert!(sum <= 4000, "{sum} bytes after {number}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let functions = open();
        assert_eq!(functions.packs.len(), 3);
        assert_eq!(functions.get(&key(7)).as_deref(), Some(&[7; 1000][..]));
        assert!(functions.get(&key(1)).is_none());
        functions.insert(&key(9), vec![0; 5000]);
        functions.keep().unwrap();
        assert!(open().get(&key(9)).is_none(), "what is larger than all that may be there is not kept");
        assert!(open().get(&key(7)).is_some());
    }
}
