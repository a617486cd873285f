//! A workspace beside the real one: the crates that are needed, some of them rewritten. Nothing is written in place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use toml::{Table, Value};

/// The crate with the switches, which every rewritten crate uses.
const SWITCH: &str = "styx-switch";
const SWITCH_SOURCE: &str = include_str!("../switch/lib.rs");
const SWITCH_MANIFEST: &str = r#"[package]
name = "styx-switch"
version = "0.0.0"
edition = "2024"
"#;

/// The workspace whose crates are copied.
#[derive(Debug)]
pub struct Original {
    /// Where it is.
    pub root: PathBuf,
    manifest: Table,
    /// Directory and manifest of each package.
    packages: BTreeMap<String, (PathBuf, Table)>,
}

impl Original {
    /// Reads the manifests of a workspace.
    pub fn read(root: &Path) -> Result<Self> {
        let manifest = table(&root.join("Cargo.toml"))?;
        let members = manifest.get("workspace").and_then(|workspace| workspace.get("members"));
        let mut packages = BTreeMap::new();
        for member in members.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            let manifest = table(&root.join(member).join("Cargo.toml"))?;
            let name = manifest.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
            let name = name.with_context(|| format!("{member} has no name"))?.to_owned();
            packages.insert(name, (PathBuf::from(member), manifest));
        }
        Ok(Original { root: root.to_owned(), manifest, packages })
    }

    /// Where a package is, below the root.
    pub fn directory(&self, package: &str) -> Option<&Path> {
        self.packages.get(package).map(|(directory, _)| directory.as_path())
    }

    /// These packages and all of the workspace that they need.
    pub fn needed(&self, packages: impl IntoIterator<Item = String>) -> Result<BTreeSet<String>> {
        let mut needed = BTreeSet::new();
        let mut open: Vec<String> = packages.into_iter().collect();
        while let Some(package) = open.pop() {
            let Some((_, manifest)) = self.packages.get(&package) else { bail!("there is no crate {package}") };
            let sections = ["dependencies", "dev-dependencies", "build-dependencies"];
            let named = sections.iter().filter_map(|section| manifest.get(*section)?.as_table()).flat_map(Table::keys);
            open.extend(named.filter(|name| self.packages.contains_key(*name) && !needed.contains(*name)).cloned());
            needed.insert(package);
        }
        Ok(needed)
    }

    /// Writes a workspace of `packages` to `copy`; the files in `rewritten` with another text, their crates with switches.
    /// What has not changed is not touched, so that it is not compiled again.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn write(&self, copy: &Path, packages: &BTreeSet<String>, rewritten: &BTreeMap<PathBuf, String>) -> Result<()> {
        let mut kept = BTreeSet::new();
        let mut put = |path: PathBuf, bytes: &[u8]| -> Result<()> {
            let file = copy.join(&path);
            kept.insert(file.clone());
            if fs::read(&file).is_ok_and(|there| there == bytes) {
                return Ok(());
            }
            fs::create_dir_all(file.parent().expect("a file is in a directory"))?;
            fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))
        };
        put("switch/Cargo.toml".into(), self.manifest_of_switch().as_bytes())?;
        put("switch/src/lib.rs".into(), SWITCH_SOURCE.as_bytes())?;
        put("Cargo.toml".into(), self.manifest_of_copy(packages).as_bytes())?;
        if let Ok(lock) = fs::read(self.root.join("Cargo.lock")) {
            put("Cargo.lock".into(), &lock)?;
        }
        for package in packages {
            let (directory, manifest) = &self.packages[package];
            let switched = rewritten.keys().any(|file| file.starts_with(directory));
            for path in files(&self.root, directory)? {
                match rewritten.get(&path) {
                    Some(text) => put(path, text.as_bytes())?,
                    None if path == directory.join("Cargo.toml") => {
                        put(path, manifest_of_crate(manifest.clone(), switched.then_some(copy)).as_bytes())?;
                    }
                    None => {
                        let bytes = fs::read(self.root.join(&path))?;
                        put(path, &bytes)?;
                    }
                }
            }
        }
        for path in files(copy, Path::new(""))? {
            let path = copy.join(path);
            if !kept.contains(&path) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// The crate with the switches asks for whatever the whole workspace asks for from elsewhere, and calls none of it: so
    /// features of dependencies are those with which the workspace has compiled them, and none is compiled once more.
    fn manifest_of_switch(&self) -> String {
        let mut asked = Table::new();
        for (_, manifest) in self.packages.values() {
            let chosen = by_default(manifest);
            for section in ["dependencies", "dev-dependencies"] {
                for (name, how) in manifest.get(section).and_then(Value::as_table).into_iter().flatten() {
                    let optional = how.get("optional").and_then(Value::as_bool) == Some(true);
                    let wanted = chosen.contains(&format!("dep:{name}")) || chosen.contains(name);
                    if !self.packages.contains_key(name) && (!optional || wanted) {
                        let features = chosen.iter().filter_map(|feature| feature.split_once('/'));
                        let features = features.filter(|(of, _)| of.trim_end_matches('?') == name);
                        ask(&mut asked, name, how, features.map(|(_, feature)| feature));
                    }
                }
            }
        }
        let mut manifest: Table = SWITCH_MANIFEST.parse().expect("it is a manifest");
        manifest.insert("dependencies".into(), asked.into());
        manifest.to_string()
    }

    fn manifest_of_copy(&self, packages: &BTreeSet<String>) -> String {
        let mut manifest = self.manifest.clone();
        if let Some(workspace) = manifest.get_mut("workspace").and_then(Value::as_table_mut) {
            let members = packages.iter().map(|package| self.packages[package].0.display().to_string());
            let members = members.chain(["switch".to_owned()]).map(Value::String).collect();
            workspace.insert("members".into(), Value::Array(members));
            workspace.remove("exclude");
            workspace.remove("lints");
        }
        manifest.to_string()
    }
}

/// What a crate's default feature turns on, as manifests write it.
fn by_default(manifest: &Table) -> BTreeSet<String> {
    let features = manifest.get("features").and_then(Value::as_table);
    let (mut on, mut open) = (BTreeSet::new(), vec!["default".to_owned()]);
    while let Some(feature) = open.pop() {
        let more = features.and_then(|features| features.get(&feature)?.as_array()).into_iter().flatten();
        open.extend(more.filter_map(Value::as_str).filter(|more| !on.contains(*more)).map(str::to_owned));
        on.insert(feature);
    }
    on
}

/// Adds a dependency, as a manifest asks for it, and features to those that others ask for.
fn ask<'a>(asked: &mut Table, name: &str, how: &'a Value, features: impl Iterator<Item = &'a str>) {
    let features: Vec<&str> = how
        .get("features")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .chain(features)
        .collect();
    let entry = asked.entry(name.to_owned()).or_insert_with(|| match how {
        Value::Table(how) => how.clone().into(),
        version => Table::from_iter([("version".to_owned(), version.clone())]).into(),
    });
    let entry = entry.as_table_mut().expect("it has just been made one");
    entry.remove("optional");
    let all = entry.entry("features").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(all) = all {
        for feature in features {
            if !all.iter().any(|there| there.as_str() == Some(feature)) {
                all.push(feature.into());
            }
        }
    }
}

/// A crate's manifest in the copy: nothing is warned of; with switches, if it is rewritten.
fn manifest_of_crate(mut manifest: Table, switched: Option<&Path>) -> String {
    manifest.insert("lints".into(), toml::toml! { rust = { warnings = "allow" } }.into());
    if let Some(copy) = switched {
        let switch = Table::from_iter([("path".to_owned(), Value::String(copy.join("switch").display().to_string()))]);
        let dependencies = manifest.entry("dependencies").or_insert_with(|| Table::new().into());
        dependencies.as_table_mut().expect("dependencies are a table").insert(SWITCH.into(), switch.into());
    }
    manifest.to_string()
}

fn table(path: &Path) -> Result<Table> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.parse().with_context(|| format!("cannot parse {}", path.display()))
}

/// All files in a directory below `root`, as paths below `root`.
fn files(root: &Path, directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join(directory))? {
        let entry = entry?;
        let path = directory.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" {
                found.extend(files(root, &path)?);
            }
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use toml::toml;

    use super::*;

    #[test]
    fn the_switches_ask_for_all_that_the_workspace_asks_for() {
        let store = toml! {
            [features]
            default = ["s3"]
            s3 = ["dep:topics", "objects/aws"]
            tls = ["dep:secrets", "objects/tls"]
            [dependencies]
            objects = { version = "1", features = ["fs"] }
            topics = { version = "2", optional = true }
            secrets = { version = "3", optional = true }
        };
        let program = toml! {
            [dependencies]
            store = { path = "store" }
            [dev-dependencies]
            objects = { version = "1", features = ["memory"] }
            plain = "4"
        };
        let packages = [("store", store), ("program", program)];
        let packages = packages.map(|(name, manifest)| (name.to_owned(), (PathBuf::from(name), manifest))).into();
        let original = Original { root: PathBuf::new(), manifest: Table::new(), packages };
        let manifest: Table = original.manifest_of_switch().parse().unwrap();
        let asked = toml! {
            objects = { version = "1", features = ["memory", "fs", "aws"] }
            plain = { version = "4", features = [] }
            topics = { version = "2", features = [] }
        };
        assert_eq!(manifest["dependencies"], Value::Table(asked));
    }
}
