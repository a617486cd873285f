//! All mutants of all crates: each has a number, which its switch compares, and a key, which outlives other changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::find::find;
use crate::schema::{Operator, Schema};
use crate::source;

/// A crate whose mutants are tested.
#[derive(Debug)]
pub struct Subject {
    /// Its package's name.
    pub package: String,
    /// Below the workspace's root.
    pub directory: PathBuf,
    pub files: Vec<(PathBuf, Schema)>,
}

impl Subject {
    /// Numbers of its mutants.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        let sites = self.files.iter().flat_map(|(_, schema)| &schema.sites);
        sites.flat_map(|site| &site.alternatives).map(|alternative| alternative.number)
    }
}

/// A small bug that can be switched on.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// What its switch compares.
    pub number: u32,
    /// The crate that it is in.
    pub package: String,
    /// Below the workspace's root.
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// What kind of change.
    pub operator: Operator,
    /// From what, to what.
    pub change: String,
    /// File, function and change; the same as long as these are.
    pub key: String,
}

/// Crates and their mutants.
#[derive(Debug, Default)]
pub struct Catalog {
    /// In the order in which they were given.
    pub subjects: Vec<Subject>,
    pub mutants: BTreeMap<u32, Mutant>,
}

/// Numbers of a crate, so that they do not depend on what other crates there are.
const NUMBERS: usize = 100_000;

impl Catalog {
    /// Finds the mutants of these packages, given with their directories below `root`.
    ///
    /// # Errors
    /// A file cannot be read or parsed.
    pub fn read(root: &Path, packages: &[(String, PathBuf)]) -> Result<Self> {
        let mut catalog = Catalog::default();
        for (at, (package, directory)) in packages.iter().enumerate() {
            let mut next = u32::try_from(at * NUMBERS + 1)?;
            let mut files = Vec::new();
            for source in source::read(root, directory)? {
                let mut schema = find(&source);
                catalog.number(package, &source.path, &mut schema, &mut next);
                files.push((source.path, schema));
            }
            catalog.subjects.push(Subject { package: package.clone(), directory: directory.clone(), files });
        }
        Ok(catalog)
    }

    fn number(&mut self, package: &str, file: &Path, schema: &mut Schema, next: &mut u32) {
        let mut same: BTreeMap<String, usize> = BTreeMap::new();
        let Schema { text, sites, functions } = schema;
        for site in sites {
            let line = text[..site.range.start].matches('\n').count() + 1;
            for alternative in &mut site.alternatives {
                alternative.number = *next;
                *next += 1;
                let mut key = format!("{} {}: {}", file.display(), functions[site.function], alternative.change);
                let before = same.entry(key.clone()).or_default();
                *before += 1;
                if *before > 1 {
                    key = format!("{key} #{before}");
                }
                let mutant = Mutant {
                    number: alternative.number,
                    package: package.to_owned(),
                    file: file.to_owned(),
                    line,
                    operator: alternative.operator,
                    change: alternative.change.clone(),
                    key,
                };
                self.mutants.insert(mutant.number, mutant);
            }
        }
    }

    pub fn with_key(&self, key: &str) -> Option<&Mutant> {
        self.mutants.values().find(|mutant| mutant.key == key)
    }
}
