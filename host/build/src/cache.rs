//! The user's cache: what was built from what, toolchains' own directories, the SDKs.
//!
//! A component is kept under the digest of all that went into it, so that building
//! the same sources again takes no tool at all.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::editor::POINTERS;
use super::error::{BuildError, Code};

/// Built components that are kept.
const COMPONENTS_KEPT: usize = 64;

/// Compiled code of servers of `styx dev`.
pub const COMPILED_CODE: &str = "code";

/// Directories that no component is made from, wherever they are.
const NO_SOURCES: &[&str] = &["node_modules", "__pycache__", "venv"];
/// The same, at the top only: what was built, as cargo and `styx build` place it.
const PRODUCTS: &str = "target";
/// At the top, too: what it says of a component is told by whoever builds it.
const MANIFEST: &str = super::manifest::FILE_NAME;

/// A directory for whatever can be made again.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// A cache in a directory of its own.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The user's: `$XDG_CACHE_HOME/styx`, or `.cache/styx` in the home directory.
    pub fn of_user() -> Result<Self, BuildError> {
        let base = std::env::var_os("XDG_CACHE_HOME").filter(|path| Path::new(path).is_absolute()).map(PathBuf::from);
        let home = || std::env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".cache"));
        let base = base.or_else(home).ok_or_else(|| {
            BuildError::new(Code::Io, "there is no home directory to keep build tools in")
                .hint("set XDG_CACHE_HOME to a directory")
        })?;
        Ok(Self::at(base.join("styx")))
    }

    /// A directory of the cache, created if it is not there.
    pub fn directory(&self, name: impl AsRef<Path>) -> Result<PathBuf, BuildError> {
        let path = self.root.join(name);
        fs::create_dir_all(&path).map_err(|error| {
            BuildError::io("create", &path)(error).hint("set XDG_CACHE_HOME to a directory that can be written")
        })?;
        Ok(path)
    }

    /// Where the SDKs are.
    pub fn sdks(&self) -> PathBuf {
        self.root.join("sdk")
    }

    /// Waits for, and takes, the sole use of something in the cache, until the file is dropped.
    pub fn lock(&self, name: &str) -> Result<File, BuildError> {
        let path = self.directory("locks")?.join(name);
        let file = File::create(&path).map_err(BuildError::io("create", &path))?;
        file.lock().map_err(BuildError::io("lock", &path))?;
        Ok(file)
    }

    /// Fills a directory once: `fill` gets a temporary one, which appears under its
    /// name when it is complete. A directory that is there already is left alone.
    pub fn filled(
        &self,
        name: &str,
        fill: impl FnOnce(&Path) -> Result<(), BuildError>,
    ) -> Result<PathBuf, BuildError> {
        let path = self.root.join(name);
        if path.is_dir() {
            return Ok(path);
        }
        let parent = self.directory(Path::new(name).parent().unwrap_or(Path::new("")))?;
        let temporary = tempfile::tempdir_in(&parent).map_err(BuildError::io("create a directory in", &parent))?;
        fill(temporary.path())?;
        match fs::rename(temporary.path(), &path) {
            Ok(()) => {
                // What was renamed is no longer there to be removed.
                let _ = temporary.keep();
                Ok(path)
            }
            // Somebody else was faster, with the same contents.
            Err(_) if path.is_dir() => Ok(path),
            Err(error) => Err(BuildError::io("create", &path)(error)),
        }
    }

    /// A component built before from the same inputs.
    pub fn component(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.root.join("components").join(key);
        let bytes = fs::read(&path).ok()?;
        // The time of use decides what is dropped; that it cannot be set is no failure.
        let _ = File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        bytes.starts_with(b"\0asm").then_some(bytes)
    }

    /// Keeps a component, and drops those that were not used for the longest time.
    pub fn keep_component(&self, key: &str, bytes: &[u8]) -> Result<(), BuildError> {
        let directory = self.directory("components")?;
        write_whole(&directory.join(key), bytes)?;
        for path in newest_first(&directory)?.iter().skip(COMPONENTS_KEPT) {
            // Another build may have dropped it.
            let _ = fs::remove_file(path);
        }
        Ok(())
    }
}

/// What is in a directory, by when it was used or made.
pub fn newest_first(directory: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let mut found: Vec<(SystemTime, PathBuf)> = fs::read_dir(directory)
        .map_err(BuildError::io("list", directory))?
        .filter_map(|entry| entry.ok().and_then(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))))
        .collect();
    found.sort_unstable_by(|left, right| right.cmp(left));
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The directory of a file, created if it is not there.
fn parent_of(path: &Path) -> Result<&Path, BuildError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(BuildError::io("create", parent))?;
    Ok(parent)
}

/// Refuses a file that could not be written later.
pub fn check_writable(path: &Path) -> Result<(), BuildError> {
    let parent = parent_of(path)?;
    tempfile::tempfile_in(parent).map(|_| ()).map_err(BuildError::io("write to", parent))
}

/// Puts a link where nothing is, or another link: one is there at any time.
pub fn link(at: &Path, to: &Path) -> std::io::Result<()> {
    if fs::read_link(at).is_ok_and(|target| target == to) {
        return Ok(());
    }
    let beside = tempfile::tempdir_in(at.parent().expect("it is in a directory"))?;
    let new = beside.path().join("link");
    symlink(to, &new)?;
    fs::rename(&new, at)
}

/// Writes a file that is seen whole or not at all.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    let parent = parent_of(path)?;
    // As any new file: what the user's mask leaves, not the privacy of temporary ones.
    let mode = fs::Permissions::from_mode(0o666);
    let temporary = tempfile::Builder::new().permissions(mode).tempfile_in(parent);
    let temporary = temporary.map_err(BuildError::io("write to", parent))?;
    fs::write(temporary.path(), bytes).map_err(BuildError::io("write", path))?;
    temporary.persist(path).map_err(|error| BuildError::io("write", path)(error.error))?;
    Ok(())
}

/// A digest over named parts, none of which can be taken for another.
#[derive(Clone, Default)]
pub struct Inputs(Sha256);

impl Inputs {
    /// Adds a part.
    pub fn add(&mut self, name: &str, value: impl AsRef<[u8]>) -> &mut Self {
        for part in [name.as_bytes(), value.as_ref()] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
        self
    }

    /// Adds a file, or all files of a directory that may be sources, by their paths within it.
    pub fn add_path(&mut self, path: &Path) -> Result<&mut Self, BuildError> {
        each_source(path, &mut |name, bytes| {
            self.add(name, bytes);
        })?;
        Ok(self)
    }

    /// The digest, in hexadecimal digits.
    pub fn digest(&self) -> String {
        hex(&self.0.clone().finalize())
    }
}

/// Hands over a file, or all files of a directory that may be sources, in the order of their paths within it; nothing if
/// nothing is there.
pub fn each_source(path: &Path, visit: &mut dyn FnMut(&str, Vec<u8>)) -> Result<(), BuildError> {
    if path.is_dir() {
        each_source_of(path, "", visit)?;
    } else if path.exists() {
        let bytes = fs::read(path).map_err(BuildError::io("read", path))?;
        visit(&path.file_name().unwrap_or_default().to_string_lossy(), bytes);
    }
    Ok(())
}

fn each_source_of(directory: &Path, within: &str, visit: &mut dyn FnMut(&str, Vec<u8>)) -> Result<(), BuildError> {
    let entries = fs::read_dir(directory).map_err(BuildError::io("list", directory))?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(BuildError::io("list", directory))?;
    entries.sort_unstable_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (name, path) = (entry.file_name(), entry.path());
        let within = format!("{within}/{}", name.to_string_lossy());
        if path.is_dir() {
            if !is_no_source(&name) && within != format!("/{PRODUCTS}") {
                each_source_of(&path, &within, visit)?;
            }
        } else if !is_no_source(&name) && within != format!("/{MANIFEST}") && path.is_file() {
            let bytes = fs::read(&path).map_err(BuildError::io("read", &path))?;
            visit(&within, bytes);
        }
    }
    Ok(())
}

/// SHA-256 in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_no_source(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let name = name.as_ref();
    name.starts_with('.') || NO_SOURCES.contains(&name) || POINTERS.contains(&name) || name.ends_with(".pyc")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(directory: &Path) -> String {
        Inputs::default().add_path(directory).unwrap().digest()
    }

    #[test]
    fn sources_count_and_products_do_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::create_dir_all(path.join("src/target")).unwrap();
        fs::create_dir_all(path.join("target")).unwrap();
        fs::write(path.join("src/lib.rs"), "a").unwrap();
        let first = digest(path);
        fs::write(path.join("target/lib.rs"), "a").unwrap();
        fs::write(path.join(".hidden"), "a").unwrap();
        fs::write(path.join("styx.toml"), "[limits]\nfuel = 1").unwrap();
        assert_eq!(digest(path), first);
        fs::write(path.join("src/lib.rs"), "b").unwrap();
        let changed = digest(path);
        assert_ne!(changed, first);
        fs::write(path.join("src/target/mod.rs"), "a").unwrap();
        assert_ne!(digest(path), changed);
        let changed = digest(path);
        fs::rename(path.join("src/lib.rs"), path.join("src/main.rs")).unwrap();
        assert_ne!(digest(path), changed);
    }

    #[test]
    fn parts_cannot_be_taken_for_one_another() {
        let digest = |name: &str, value: &str| Inputs::default().add(name, value).digest();
        assert_ne!(digest("a", "bc"), digest("ab", "c"));
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn the_longest_unused_components_are_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path());
        let past = |seconds| SystemTime::now() - std::time::Duration::from_secs(seconds);
        for index in 0..COMPONENTS_KEPT {
            cache.keep_component(&format!("c{index}"), b"\0asm").unwrap();
            let file =
                File::options().append(true).open(directory.path().join(format!("components/c{index}"))).unwrap();
            file.set_modified(past(1000 - index as u64)).unwrap();
        }
        assert!(cache.component("c0").is_some(), "and that was a use of it");
        cache.keep_component("new", b"\0asm").unwrap();
        assert!(cache.component("c1").is_none());
        assert!(cache.component("c0").is_some() && cache.component("new").is_some());
    }

    #[test]
    fn a_directory_is_filled_once() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path());
        let fill = |text: &'static str| {
            cache.filled("sdk/x", move |path| fs::write(path.join("f"), text).map_err(BuildError::io("write", path)))
        };
        let failed = cache.filled("sdk/x", |_| Err(BuildError::new(Code::Io, "no")));
        assert!(failed.is_err());
        let path = fill("one").unwrap();
        assert_eq!(fill("two").unwrap(), path);
        assert_eq!(fs::read_to_string(path.join("f")).unwrap(), "one");
        assert_eq!(fs::read_dir(directory.path().join("sdk")).unwrap().count(), 1);
    }
}
