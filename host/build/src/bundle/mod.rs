//! Bundles: what is uploaded. A zip of `styx.toml` and the components that it names.
//!
//! Reading is of bytes that anyone may have sent. The directory of the archive is
//! checked before an entry is touched, and nothing is inflated past its cap,
//! whatever the archive claims. Writing is reproducible: the same components give
//! the same bytes. Nothing here touches the file system.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use super::error::{BuildError, Code};
use super::manifest::{Component, FILE_NAME, Manifest, check_name};

/// Bounds on reading a bundle.
#[derive(Clone, Copy, Debug)]
pub struct BundleLimits {
    /// Entries of the archive.
    pub entries: usize,
    pub archive_bytes: usize,
    /// Bytes of one file, inflated.
    pub file_bytes: u64,
    /// Bytes of all files, inflated.
    pub total_bytes: u64,
    pub manifest_bytes: u64,
}

impl Default for BundleLimits {
    fn default() -> Self {
        Self {
            entries: 256,
            archive_bytes: 128 << 20,
            file_bytes: 128 << 20,
            total_bytes: 512 << 20,
            manifest_bytes: 1 << 20,
        }
    }
}

/// An app ready for upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Each component of it has a `file`.
    pub manifest: Manifest,
    /// The components' bytes by their names.
    pub components: BTreeMap<String, Vec<u8>>,
}

impl Bundle {
    /// A bundle of components; in the manifest each is named by its file.
    pub fn new(mut manifest: Manifest, components: BTreeMap<String, Vec<u8>>) -> Self {
        // Language and entry were for the build. In a bundle only files count.
        manifest.app.language = None;
        manifest.app.entry = None;
        let described =
            |name: &String| (name.clone(), Component { file: Some(format!("{name}.wasm")), ..Component::default() });
        manifest.components = components.keys().map(described).collect();
        Self { manifest, components }
    }

    /// The archive's bytes; the same bundle always gives the same.
    pub fn write(&self) -> Result<Vec<u8>, BuildError> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default())
            .unix_permissions(0o644);
        let failed =
            |error: std::io::Error| BuildError::new(Code::Io, format_args!("cannot write the bundle: {error}"));
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        let manifest = self.manifest.to_text();
        let files = self.components.iter().map(|(name, bytes)| (format!("{name}.wasm"), bytes.as_slice()));
        for (name, bytes) in std::iter::once((FILE_NAME.to_owned(), manifest.as_bytes())).chain(files) {
            archive.start_file(name, options).map_err(|error| failed(error.into()))?;
            archive.write_all(bytes).map_err(failed)?;
        }
        Ok(archive.finish().map_err(|error| failed(error.into()))?.into_inner())
    }

    /// Reads an archive that anyone may have made.
    pub fn read(bytes: &[u8], limits: &BundleLimits) -> Result<Self, BuildError> {
        let mut files = read_files(bytes, limits)?;
        let Some(text) = files.remove(FILE_NAME) else {
            return Err(refused(format_args!("there is no {FILE_NAME} in it")).hint("make bundles with `styx build`"));
        };
        let text = String::from_utf8(text).map_err(|_| refused(format_args!("its {FILE_NAME} is not UTF-8")))?;
        let mut manifest = Manifest::parse(&text)?;
        if manifest.components.is_empty() {
            for file in files.keys().filter_map(|file| file.strip_suffix(".wasm")) {
                check_name("a component", file)?;
                let component = Component { file: Some(format!("{file}.wasm")), ..Component::default() };
                manifest.components.insert(file.to_owned(), component);
            }
        }
        let mut components = BTreeMap::new();
        for (name, component) in &manifest.components {
            let Some(file) = &component.file else {
                return Err(refused(format_args!("component {name} has no `file`"))
                    .hint("this is a source project: upload what `styx build` makes of it"));
            };
            let Some(bytes) = files.remove(file) else {
                return Err(refused(format_args!(
                    "component {name} is in {file:?}, which is not there (or belongs to another)"
                )));
            };
            if !bytes.starts_with(b"\0asm") {
                return Err(refused(format_args!("{file:?} is not WebAssembly")));
            }
            components.insert(name.clone(), bytes);
        }
        if let Some(file) = files.keys().next() {
            return Err(refused(format_args!("no component names the file {file:?}"))
                .hint("remove it, or add [component.<name>] with `file`"));
        }
        if components.is_empty() {
            return Err(refused("there is no component in it"));
        }
        Ok(Self { manifest, components })
    }
}

/// The files of an archive by name.
fn read_files(bytes: &[u8], limits: &BundleLimits) -> Result<BTreeMap<String, Vec<u8>>, BuildError> {
    check_directory(bytes, limits)?;
    let unreadable = |error: &dyn std::fmt::Display| refused(format_args!("it cannot be read: {error}"));
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| unreadable(&error))?;
    if archive.len() > limits.entries {
        return Err(refused(format_args!("it has more than {} entries", limits.entries)));
    }
    if archive.has_duplicate_names() {
        return Err(refused("two of its entries have the same name"));
    }
    if archive.has_overlapping_entries().map_err(|error| unreadable(&error))? {
        return Err(refused("its entries overlap"));
    }
    let mut files = BTreeMap::new();
    let mut remaining = limits.total_bytes;
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(|error| unreadable(&error))?;
        let name =
            std::str::from_utf8(entry.name_raw()).map_err(|_| refused("the name of an entry is not UTF-8"))?.to_owned();
        if !is_safe(name.trim_end_matches('/')) {
            return Err(refused(format_args!("{name:?} is not a plain relative path")));
        }
        if entry.is_symlink() {
            return Err(refused(format_args!("{name:?} is a symbolic link")));
        }
        if entry.is_dir() {
            continue;
        }
        if entry.unix_mode().is_some_and(|mode| mode & 0o170_000 != 0 && mode & 0o170_000 != 0o100_000) {
            return Err(refused(format_args!("{name:?} is no regular file")));
        }
        let own = if name == FILE_NAME { limits.manifest_bytes } else { limits.file_bytes };
        let cap = own.min(remaining);
        // The declared size may be a lie: it only serves to refuse early.
        let too_large = || {
            refused(format_args!(
                "{name:?} makes it too large: at most {own} bytes a file and {} in all",
                limits.total_bytes
            ))
        };
        if entry.size() > cap {
            return Err(too_large());
        }
        let mut contents = Vec::new();
        entry
            .take(cap + 1)
            .read_to_end(&mut contents)
            .map_err(|error| refused(format_args!("{name:?} cannot be read: {error}")))?;
        if contents.len() as u64 > cap {
            return Err(too_large());
        }
        remaining -= contents.len() as u64;
        if files.insert(name.clone(), contents).is_some() {
            return Err(refused(format_args!("{name:?} is there twice")));
        }
    }
    Ok(files)
}

/// Walks the directory of the archive before a parser allocates anything for it:
/// it must end the file, and be as long as it says, and not too long.
fn check_directory(bytes: &[u8], limits: &BundleLimits) -> Result<(), BuildError> {
    const END_BYTES: usize = 22;
    const ENTRY_BYTES: usize = 46;
    if bytes.len() > limits.archive_bytes {
        return Err(refused(format_args!("it has more than {} bytes", limits.archive_bytes)));
    }
    let not_zip =
        || refused("it is not a zip archive, or has something behind its end").hint("make bundles with `styx build`");
    let u16_at = |at: usize| bytes.get(at..at + 2).map(|pair| usize::from(u16::from_le_bytes([pair[0], pair[1]])));
    let u32_at =
        |at: usize| bytes.get(at..at + 4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]) as usize);
    let end = bytes.len().checked_sub(END_BYTES).ok_or_else(not_zip)?;
    if &bytes[end..end + 4] != b"PK\x05\x06" {
        return Err(not_zip());
    }
    let (Some(entries), Some(directory)) = (u16_at(end + 10), u32_at(end + 16)) else { return Err(not_zip()) };
    if entries > limits.entries {
        return Err(refused(format_args!("it has more than {} entries", limits.entries)));
    }
    let mut at = directory;
    for _ in 0..entries {
        let lengths = (bytes.get(at..at + 4) == Some(&b"PK\x01\x02"[..]))
            .then(|| Some([u16_at(at + 28)?, u16_at(at + 30)?, u16_at(at + 32)?]))
            .flatten();
        at += ENTRY_BYTES + lengths.ok_or_else(not_zip)?.iter().sum::<usize>();
    }
    if at == end { Ok(()) } else { Err(not_zip()) }
}

/// A relative path without tricks, whatever system it is unpacked on.
fn is_safe(name: &str) -> bool {
    name.len() <= 255
        && !name.contains(['\\', ':', '\0'])
        && name.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
        && !name.chars().any(char::is_control)
}

fn refused(why: impl std::fmt::Display) -> BuildError {
    BuildError::new(Code::BadBundle, format_args!("the bundle is refused: {why}"))
}
