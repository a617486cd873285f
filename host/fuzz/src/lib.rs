//! Fuzz targets: each reads bytes as something that another process, a disk or a client wrote.
//!
//! Whatever the bytes are, they are read or refused: nothing panics, nothing takes memory or time that the bytes do not
//! account for, and what was read is written and read back as the same. `tests/corpus.rs` runs every target over what is
//! kept in `corpus/`, and over small changes of it; `just fuzz` looks for more, guided by what was reached.

mod choices;
pub mod seal;
pub mod targets;

pub use targets::TARGETS;

/// Something that reads bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its directory in `corpus/`.
    pub name: &'static str,
    /// Reads the bytes; true if they were understood.
    pub read: fn(&[u8]) -> bool,
    /// Bytes to begin with, of the present formats.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

impl Target {
    pub fn named(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Directory of what is kept for it.
    pub fn corpus(&self) -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.name)
    }
}
