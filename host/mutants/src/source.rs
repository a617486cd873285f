//! Files of a crate's product: what its `lib.rs` reaches by modules that are not compiled for tests or on demand only.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::{Attribute, Item};

/// A file of a crate.
pub struct Source {
    /// Below the workspace's root.
    pub path: PathBuf,
    /// As it is on disk.
    pub text: String,
    /// Parsed.
    pub syntax: syn::File,
}

impl Source {
    /// Parses a file.
    pub fn parse(path: &Path, text: String) -> Result<Self> {
        let syntax = syn::parse_file(&text).with_context(|| format!("cannot parse {}", path.display()))?;
        Ok(Source { path: path.to_owned(), text, syntax })
    }
}

/// Reads the files of the crate in `directory`, which is below `root`.
///
/// # Errors
/// A file cannot be read or parsed.
pub fn read(root: &Path, directory: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    follow(root, &directory.join("src/lib.rs"), &directory.join("src"), &mut sources)?;
    Ok(sources)
}

/// Whether an item is always compiled, and not a test.
pub fn is_product(attributes: &[Attribute]) -> bool {
    !attributes.iter().any(|attribute| attribute.path().is_ident("cfg") || attribute.path().is_ident("test"))
}

/// Reads `path` and the modules that it declares, whose files are in `modules`.
fn follow(root: &Path, path: &Path, modules: &Path, sources: &mut Vec<Source>) -> Result<()> {
    let text = fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {}", path.display()))?;
    let source = Source::parse(path, text)?;
    let declared: Vec<String> = source
        .syntax
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Mod(module) if module.content.is_none() && is_product(&module.attrs) => {
                Some(module.ident.to_string())
            }
            _ => None,
        })
        .collect();
    sources.push(source);
    for name in declared {
        let inside = modules.join(&name);
        let beside = modules.join(format!("{name}.rs"));
        let file = if root.join(&beside).is_file() { beside } else { inside.join("mod.rs") };
        follow(root, &file, &inside, sources)?;
    }
    Ok(())
}
