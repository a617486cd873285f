//! Equivalent mutants: changes after which the program does the same. Each is listed with the reason.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::catalog::Catalog;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    equivalent: Vec<Equivalent>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Equivalent {
    key: String,
    why: String,
}

/// Numbers of the mutants that `file` explains, if it is there.
///
/// # Errors
/// It cannot be read; or explains a mutant that does not exist any more, one twice, or one without a reason.
pub fn read(file: &Path, catalog: &Catalog) -> Result<BTreeSet<u32>> {
    if !file.exists() {
        return Ok(BTreeSet::new());
    }
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let list: List = toml::from_str(&text).with_context(|| format!("cannot read {}", file.display()))?;
    let mut numbers = BTreeSet::new();
    for Equivalent { key, why } in list.equivalent {
        let Some(mutant) = catalog.with_key(&key) else {
            bail!("{} explains a mutant that does not exist (any more): {key}", file.display())
        };
        if why.trim().is_empty() || !numbers.insert(mutant.number) {
            bail!("{} must explain each mutant, once: {key}", file.display());
        }
    }
    Ok(numbers)
}
