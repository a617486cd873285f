//! What the Cargo manifests of a guest say that matters to a build: its name, where
//! its SDK comes from, whether it has a profile, and what else it is made of.
//!
//! Cargo itself could be asked, but only after it has resolved the dependencies,
//! and a build that finds everything in the cache should not start it at all.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::error::{BuildError, Code};

/// The name of the SDK's crate.
const SDK: &str = "styx-sdk";

/// Excerpt of the manifests.
#[derive(Debug)]
pub struct Manifests {
    /// Name of the crate.
    pub package: String,
    /// The crate or its workspace says where the SDK is: by a path, a repository or a patch.
    pub has_own_sdk: bool,
    /// The workspace sets a release profile.
    pub has_profile: bool,
    /// Directory of the workspace, the crate's own if it is in none.
    pub root: PathBuf,
    /// Files and directories that go into the build, apart from registries' crates.
    pub inputs: Vec<PathBuf>,
}

impl Manifests {
    /// Reads the manifest of a crate, of its workspace and of all that it refers to by path.
    pub fn read(directory: &Path) -> Result<Self, BuildError> {
        let own = read(directory)?;
        let Some(package) = own.get("package").and_then(|package| package.get("name")).and_then(Value::as_str) else {
            return Err(BuildError::new(
                Code::BadProject,
                format_args!("{} is no package", directory.join("Cargo.toml").display()),
            )
            .hint("give the directory of one crate, not that of its workspace"));
        };
        let (root, workspace) = workspace_of(directory, &own)?;
        let shared = |name: &str| {
            workspace.get("workspace").and_then(|table| table.get("dependencies")).and_then(|table| table.get(name))
        };
        let patched = workspace.get("patch").and_then(Value::as_table);
        let patches: Vec<_> =
            patched.into_iter().flat_map(Table::values).filter_map(Value::as_table).flatten().collect();

        let names_source = |dependency: &Value| ["path", "git"].iter().any(|key| dependency.get(key).is_some());
        let mut has_own_sdk = patches.iter().any(|(name, _)| *name == SDK);
        let mut inputs = BTreeSet::from([directory.to_owned(), root.join("Cargo.toml"), root.join("Cargo.lock")]);
        for (name, dependency) in dependencies(&own) {
            let inherited = dependency.get("workspace").is_some();
            let (dependency, base) =
                if inherited { (shared(name).unwrap_or(dependency), root.as_path()) } else { (dependency, directory) };
            has_own_sdk |= name == SDK && names_source(dependency);
            add_path(&mut inputs, base, dependency, &workspace, &root)?;
        }
        for (_, patch) in patches {
            add_path(&mut inputs, &root, patch, &workspace, &root)?;
        }
        let has_profile = workspace.get("profile").and_then(|profile| profile.get("release")).is_some();
        let (package, inputs) = (package.to_owned(), inputs.into_iter().collect());
        Ok(Self { package, has_own_sdk, has_profile, root, inputs })
    }
}

/// Adds what a dependency's `path` leads to, and what that depends on by path.
fn add_path(
    inputs: &mut BTreeSet<PathBuf>,
    base: &Path,
    dependency: &Value,
    workspace: &Table,
    root: &Path,
) -> Result<(), BuildError> {
    let Some(path) = dependency.get("path").and_then(Value::as_str) else { return Ok(()) };
    let directory = base.join(path);
    let directory = directory.canonicalize().map_err(BuildError::io("open", &directory))?;
    if !inputs.insert(directory.clone()) {
        return Ok(());
    }
    let manifest = read(&directory)?;
    for (name, dependency) in dependencies(&manifest) {
        let shared =
            workspace.get("workspace").and_then(|table| table.get("dependencies")).and_then(|table| table.get(name));
        match (dependency.get("workspace"), shared) {
            (Some(_), Some(shared)) => add_path(inputs, root, shared, workspace, root)?,
            (Some(_), None) => {}
            (None, _) => add_path(inputs, &directory, dependency, workspace, root)?,
        }
    }
    Ok(())
}

fn read(directory: &Path) -> Result<Table, BuildError> {
    let path = directory.join("Cargo.toml");
    let text = fs::read_to_string(&path).map_err(BuildError::io("read", &path))?;
    text.parse().map_err(|error: toml::de::Error| {
        let message = error.message().replace('\n', ", ");
        BuildError::new(Code::BadProject, format_args!("{} is no TOML: {message}", path.display()))
    })
}

/// The nearest manifest upwards that is a workspace's and has the crate as a member,
/// or else the crate's own.
fn workspace_of(directory: &Path, own: &Table) -> Result<(PathBuf, Table), BuildError> {
    if !own.contains_key("workspace") {
        let named = own.get("package").and_then(|package| package.get("workspace")).and_then(Value::as_str);
        if let Some(path) = named {
            let root = directory.join(path);
            return Ok((root.clone(), read(&root)?));
        }
        for root in directory.ancestors().skip(1).filter(|root| root.join("Cargo.toml").is_file()) {
            let manifest = read(root)?;
            if let Some(workspace) = manifest.get("workspace") {
                let excluded =
                    workspace.get("exclude").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
                if excluded.map(|path| root.join(path)).any(|path| directory.starts_with(path)) {
                    break;
                }
                return Ok((root.to_owned(), manifest));
            }
        }
    }
    Ok((directory.to_owned(), own.clone()))
}

/// Dependencies of every kind that a build of the library sees.
fn dependencies(manifest: &Table) -> impl Iterator<Item = (&String, &Value)> {
    let targets = manifest
        .get("target")
        .and_then(Value::as_table)
        .into_iter()
        .flat_map(Table::values)
        .filter_map(Value::as_table);
    std::iter::once(manifest)
        .chain(targets)
        .flat_map(|table| ["dependencies", "build-dependencies"].into_iter().filter_map(|kind| table.get(kind)))
        .filter_map(Value::as_table)
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name).join("Cargo.toml");
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        directory
    }

    #[test]
    fn a_crate_on_its_own() {
        let directory = write(&[("", "[package]\nname = \"shop\"\n[dependencies]\nstyx-sdk = \"0.1\"")]);
        let read = Manifests::read(directory.path()).unwrap();
        assert_eq!((read.package.as_str(), read.has_own_sdk, read.has_profile), ("shop", false, false));
    }

    #[test]
    fn a_member_of_a_workspace_with_paths() {
        let directory = write(&[
            (
                "",
                "[workspace]\n[workspace.dependencies]\ncommon = { path = \"common\" }\n[profile.release]\n[patch.crates-io]\nstyx-sdk = { path = \"sdk\" }",
            ),
            ("shop", "[package]\nname = \"shop\"\n[dependencies]\nstyx-sdk = \"0.1\"\ncommon.workspace = true"),
            ("common", "[package]\nname = \"common\"\n[target.x.dependencies]\ndeep = { path = \"../deep\" }"),
            ("deep", "[package]\nname = \"deep\"\n[dependencies]\ncommon = { path = \"../common\" }"),
            ("sdk", "[package]\nname = \"styx-sdk\""),
        ]);
        let root = directory.path().canonicalize().unwrap();
        let read = Manifests::read(&root.join("shop")).unwrap();
        assert_eq!((read.has_own_sdk, read.has_profile), (true, true));
        let inputs: Vec<_> =
            read.inputs.iter().map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap()).collect();
        assert_eq!(inputs, ["Cargo.lock", "Cargo.toml", "common", "deep", "sdk", "shop"]);
    }

    #[test]
    fn excluded_and_broken() {
        let directory = write(&[
            ("", "[workspace]\nexclude = [\"shop\"]\n[profile.release]"),
            ("shop", "[package]\nname = \"shop\""),
        ]);
        assert!(!Manifests::read(&directory.path().join("shop")).unwrap().has_profile);
        let error = Manifests::read(directory.path()).unwrap_err();
        assert!(error.message.ends_with("Cargo.toml is no package"), "{error}");
    }
}
