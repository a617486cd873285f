//! The SDKs' sources, carried inside the binary: a guest builds against the SDK of
//! the `styx` that builds it, and no registry needs to have it.

use std::fs;
use std::path::{Path, PathBuf};

use rust_embed::RustEmbed;

use super::cache::{self, Cache, Inputs};
use super::error::BuildError;

#[derive(RustEmbed)]
#[folder = "../../sdk/rust"]
#[include = "Cargo.toml"]
#[include = "src/*"]
#[include = "wit/*"]
#[include = "macros/Cargo.toml"]
#[include = "macros/src/*"]
struct Rust;

#[derive(RustEmbed)]
#[folder = "../../sdk/python"]
#[include = "src/*.py"]
#[include = "src/*.pyi"]
#[include = "src/*.so"]
struct Python;

#[derive(RustEmbed)]
#[folder = "../../sdk/go"]
#[include = "go.mod"]
#[include = "*.go"]
struct Go;

#[derive(RustEmbed)]
#[folder = "../../sdk/c"]
#[include = "include/*"]
#[include = "src/*"]
#[include = "testing/*"]
#[include = "library/*"]
struct C;

#[derive(RustEmbed)]
#[folder = "../../sdk/typescript"]
#[include = "package.json"]
#[include = "src/*.ts"]
#[include = "tools/*.mjs"]
#[include = "tools/package.json"]
#[include = "engine/engine.wasm"]
#[include = "tools/package-lock.json"]
#[exclude = "tools/node_modules/*"]
struct TypeScript;

#[derive(RustEmbed)]
#[folder = "../../wit"]
#[include = "guest.wit"]
struct Wit;

#[derive(RustEmbed)]
#[folder = "../../wit/0.1"]
#[include = "guest.wit"]
struct FirstWit;

/// Something carried along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sdk {
    /// The crates `styx-sdk` and `styx-sdk-macros`.
    Rust,
    /// The package `styx`, under `src/`.
    Python,
    /// The module `styx`.
    Go,
    /// `styx.h` under `include/`, what is compiled with a guest under `src/`, what its tests need under `testing/`, the C library
    /// under `library/`.
    C,
    /// The package `styx-sdk`, and what builds with it, under `tools/`.
    TypeScript,
    /// The contract with guests, `guest.wit`.
    Wit,
    /// The contract as of 0.1.
    FirstWit,
}

impl Sdk {
    fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::Go => "go",
            Self::C => "c",
            Self::TypeScript => "typescript",
            Self::Wit => "wit",
            Self::FirstWit => "wit-0.1",
        }
    }

    /// Its files by path, in order.
    fn files(self) -> Vec<(String, Vec<u8>)> {
        fn all<E: RustEmbed>() -> Vec<(String, Vec<u8>)> {
            let mut files: Vec<_> = E::iter()
                .map(|path| {
                    let file = E::get(&path).expect("a listed file is there");
                    (path.into_owned(), file.data.into_owned())
                })
                .collect();
            files.sort_unstable();
            files
        }
        match self {
            Self::Rust => all::<Rust>(),
            Self::Python => all::<Python>(),
            Self::Go => all::<Go>(),
            Self::C => all::<C>(),
            Self::TypeScript => all::<TypeScript>(),
            Self::Wit => all::<Wit>(),
            Self::FirstWit => all::<FirstWit>(),
        }
    }

    /// The text of one of its files, which it has.
    pub fn file(self, name: &str) -> String {
        let file = self.files().into_iter().find(|(path, _)| path == name);
        String::from_utf8(file.expect("it is carried along").1).expect("sources are text")
    }

    /// A digest over all of it.
    pub fn digest(self) -> String {
        let mut inputs = Inputs::default();
        for (path, bytes) in self.files() {
            inputs.add(&path, bytes);
        }
        inputs.digest()
    }

    /// A directory with its files, whichever version of them this is. [`Sdk::linked`] leads there, too.
    pub fn unpacked(self, cache: &Cache) -> Result<PathBuf, BuildError> {
        let name = format!("{}-{}", self.name(), &self.digest()[..16]);
        let unpacked = cache.filled(&format!("sdk/{name}"), |directory| {
            for (path, bytes) in self.files() {
                let path = directory.join(path);
                let parent = path.parent().expect("inside the directory");
                fs::create_dir_all(parent).map_err(BuildError::io("create", parent))?;
                fs::write(&path, bytes).map_err(BuildError::io("write", &path))?;
            }
            Ok(())
        })?;
        let link = cache.sdks().join(self.name());
        cache::link(&link, Path::new(&name)).map_err(BuildError::io("link", &link))?;
        Ok(unpacked)
    }

    /// The same, by a name that stays when another version takes its place.
    pub fn linked(self, cache: &Cache) -> Result<PathBuf, BuildError> {
        self.unpacked(cache)?;
        Ok(cache.sdks().join(self.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file added to an SDK is embedded when this module is compiled again, and
    /// that is easily forgotten.
    #[test]
    fn embedded_is_what_the_repository_has() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (sdk, directories) in [
            (Sdk::Rust, &["sdk/rust/src", "sdk/rust/macros/src", "sdk/rust/wit"][..]),
            (Sdk::Python, &["sdk/python/src"]),
            (Sdk::Go, &["sdk/go"]),
            (Sdk::C, &["sdk/c/include", "sdk/c/src", "sdk/c/library", "sdk/c/testing"]),
            (Sdk::TypeScript, &["sdk/typescript/src", "sdk/typescript/tools"]),
            (Sdk::Wit, &["wit"]),
            (Sdk::FirstWit, &["wit/0.1"]),
        ] {
            let files = sdk.files();
            let base = match sdk {
                Sdk::Wit => repository.join("wit"),
                Sdk::FirstWit => repository.join("wit/0.1"),
                _ => repository.join("sdk").join(sdk.name()),
            };
            for (path, bytes) in &files {
                assert_eq!(&fs::read(base.join(path)).unwrap(), bytes, "{path}: touch host/server/src/build/sdk.rs");
            }
            let is_source =
                |path: &str| ![".toml", ".json", ".mod", ".wasm", ".so"].iter().any(|end| path.ends_with(end));
            let sources = files.iter().filter(|(path, _)| is_source(path)).count();
            let expected: usize = directories.iter().map(|directory| count(&repository.join(directory))).sum();
            assert_eq!(sources, expected, "{sdk:?}: touch host/server/src/build/sdk.rs");
        }
    }

    fn count(directory: &Path) -> usize {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        entries
            .map(|path| match path.extension().and_then(|extension| extension.to_str()) {
                _ if path.ends_with("node_modules") => 0,
                _ if path.ends_with("0.1") => 0,
                _ if path.is_dir() => count(&path),
                Some("rs" | "py" | "pyi" | "go" | "ts" | "mjs" | "c" | "h" | "a" | "o" | "wit") => 1,
                _ if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("LICENSE-")) => 1,
                _ => 0,
            })
            .sum()
    }
}
