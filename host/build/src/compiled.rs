//! Code that was compiled once, in a directory of the cache: whatever a crash has left half written is not used.

use std::fs;
use std::path::Path;

use wasmtime::{Result, bail};
use xxhash_rust::xxh3::xxh3_128;

/// The fuel of what runs while something is built: of all instructions, for a build is not metered.
pub const FUEL: u64 = u64::MAX;

/// Keeps code under a name. What it is used with, and was there before, must be the same later.
pub fn keep(directory: &Path, name: &str, with: &[&[u8]], code: &[u8]) -> Result<()> {
    fs::write(directory.join(format!("{name}.code")), code)?;
    fs::write(directory.join(format!("{name}.checksum")), checksum(with, code))?;
    Ok(())
}

/// Whether all of it was kept.
pub fn is_kept(directory: &Path, name: &str) -> bool {
    directory.join(format!("{name}.checksum")).is_file()
}

/// The code, as it was kept.
pub fn read(directory: &Path, name: &str, with: &[&[u8]]) -> Result<Vec<u8>> {
    let code = fs::read(directory.join(format!("{name}.code")))?;
    if fs::read_to_string(directory.join(format!("{name}.checksum")))? != checksum(with, &code) {
        bail!("{} is damaged: remove it", directory.display());
    }
    Ok(code)
}

fn checksum(with: &[&[u8]], code: &[u8]) -> String {
    let parts = with.iter().chain([&code]).map(|part| format!("{:032x}", xxh3_128(part)));
    parts.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_read_as_it_was_kept_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert!(!is_kept(path, "engine") && read(path, "engine", &[]).is_err());
        keep(path, "engine", &[b"source"], b"code").unwrap();
        assert!(is_kept(path, "engine") && !is_kept(path, "interpreter"));
        assert_eq!(read(path, "engine", &[b"source"]).unwrap(), b"code");
        let damaged = |with: &[&[u8]]| read(path, "engine", with).unwrap_err().to_string();
        assert!(damaged(&[b"another"]).ends_with(" is damaged: remove it"));
        fs::write(path.join("engine.code"), "cod").unwrap();
        assert!(damaged(&[b"source"]).ends_with(" is damaged: remove it"));
    }
}
