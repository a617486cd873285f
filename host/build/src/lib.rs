//! From a source directory to a bundle: what `styx build` does; and new directories, and their tests.
//!
//! Each component is built by its language's own tools, found or fetched on the
//! user's machine, and kept in the user's cache under the digest of everything that
//! went into it. Nothing in here speaks to a server.

pub mod bundle;
pub mod error;
pub mod manifest;
pub mod progress;

mod c;
mod cache;
mod command;
mod compiled;
mod component;
mod editor;
mod go;
mod installer;
mod interpreter;
mod names;
mod own_tests;
mod project;
mod python;
mod rust;
mod sdk;
mod template;
#[cfg(test)]
mod tests;
mod typescript;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use bundle::{Bundle, BundleLimits};
pub use cache::{COMPILED_CODE, Cache};
pub use editor::{Pointer, point_editors};
pub use error::{BuildError, Code};
pub use manifest::{Language, Manifest};
pub use own_tests::test;
pub use progress::{Progress, Silent};
pub use template::create;

use c::CGuest;
use cache::Inputs;
use go::GoGuest;
use project::{Origin, Project, Source};
use python::PythonGuest;
use rust::RustGuest;
use typescript::TypeScriptGuest;

/// Part of every cache key: count up when builders make something else of the same inputs.
const FORMAT: &str = "1";

#[derive(Clone, Debug)]
pub struct BuildReport {
    pub app: String,
    /// The bundle's file.
    pub output: PathBuf,
    /// Size of the bundle.
    pub bytes: u64,
    /// In the order of their names.
    pub components: Vec<ComponentReport>,
    /// How long all of it took.
    pub elapsed: Duration,
}

/// Report of one component's build.
#[derive(Clone, Debug)]
pub struct ComponentReport {
    pub name: String,
    /// `None` if it was there already.
    pub language: Option<Language>,
    pub bytes: u64,
    /// SHA-256, in hexadecimal digits.
    pub digest: String,
    /// Taken from the cache.
    pub cached: bool,
    /// How long it took.
    pub elapsed: Duration,
}

/// Builds the app in `source` and writes its bundle to `output`, with the user's cache.
pub fn build(source: &Path, output: &Path, progress: &dyn Progress) -> Result<BuildReport, BuildError> {
    build_with(&Cache::of_user()?, source, output, progress)
}

/// What an app's manifest says, its name filled in, before anything is built.
///
/// # Errors
/// There is no app in `source`, or its manifest is wrong.
pub fn manifest_of(source: &Path) -> Result<Manifest, BuildError> {
    Ok(Project::open(source)?.manifest)
}

/// Makes ready, in the user's cache, what all builds of the app in `source` are several times faster by, and what takes about as
/// long as one without it: for who builds it again and again.
///
/// # Errors
/// There is no such app, or a tool fails; builds work without.
pub fn prepare(source: &Path, progress: &dyn Progress) -> Result<(), BuildError> {
    let cache = Cache::of_user()?;
    for (path, language, entry) in Project::open(source)?.directories() {
        if language == Language::Python {
            PythonGuest::open(path, entry)?.prepare(&cache, progress)?;
        }
    }
    Ok(())
}

/// Makes ready in this process what builds of the app in `source` get faster by and none waits for.
///
/// # Errors
/// There is no such app, or a tool fails; builds work without.
pub fn warm_up(source: &Path) -> Result<(), BuildError> {
    let cache = Cache::of_user()?;
    for (path, language, entry) in Project::open(source)?.directories() {
        if language == Language::TypeScript {
            TypeScriptGuest::open(path, entry)?.prepare(&cache, &Silent)?;
        }
    }
    Ok(())
}

/// [`build`] with a given cache.
pub fn build_with(
    cache: &Cache,
    source: &Path,
    output: &Path,
    progress: &dyn Progress,
) -> Result<BuildReport, BuildError> {
    let started = Instant::now();
    let project = Project::open(source)?;
    // What takes long comes after what may fail at once.
    cache::check_writable(output)
        .map_err(|error| error.hint("`styx build -o FILE` writes the bundle to another place"))?;
    // What cannot be read is told by whoever builds it.
    for line in names::unsaid(&project).unwrap_or_default() {
        progress.warning(&line);
    }
    let mut components = BTreeMap::new();
    let mut reports = Vec::new();
    let mut failed = Vec::new();
    for source in &project.components {
        let started = Instant::now();
        let (bytes, cached) = match build_component(cache, source, progress) {
            Ok(built) => built,
            Err(error) => {
                failed.push((source.name.as_str(), error));
                continue;
            }
        };
        let language = match &source.origin {
            Origin::Directory { language, .. } => Some(*language),
            Origin::File(_) => None,
        };
        reports.push(ComponentReport {
            name: source.name.clone(),
            language,
            bytes: bytes.len() as u64,
            digest: cache::sha256(&bytes),
            cached,
            elapsed: started.elapsed(),
        });
        components.insert(source.name.clone(), bytes);
    }
    if let Some(error) = all_of(failed) {
        return Err(error);
    }
    let app = project.name().to_owned();
    let bytes = Bundle::new(project.manifest, components).write()?;
    cache::write_whole(output, &bytes)?;
    Ok(BuildReport {
        app,
        output: output.to_owned(),
        bytes: bytes.len() as u64,
        components: reports,
        elapsed: started.elapsed(),
    })
}

/// What is wrong with the first component that failed, with that of the others behind it.
fn all_of(failed: Vec<(&str, BuildError)>) -> Option<BuildError> {
    let mut failed = failed.into_iter();
    let (_, mut error) = failed.next()?;
    let (mut names, mut output) = (Vec::new(), Vec::new());
    for (name, other) in failed {
        names.push(name);
        output.extend([other.to_string(), other.output]);
    }
    if !names.is_empty() {
        let fail = if names.len() == 1 { "fails" } else { "fail" };
        error.message = format!("{} ({} {fail} as well)", error.message, names.join(", "));
        output.insert(0, error.output);
        output.retain(|part| !part.is_empty());
        error.output = output.join("\n");
    }
    Some(error)
}

/// The component's bytes, and whether they come from the cache.
fn build_component(cache: &Cache, source: &Source, progress: &dyn Progress) -> Result<(Vec<u8>, bool), BuildError> {
    let (path, language, entry) = match &source.origin {
        Origin::File(path) => {
            let bytes = fs::read(path).map_err(BuildError::io("read", path))?;
            component::check(&bytes).map_err(|error| BuildError {
                message: format!("{}: {}: {}", source.name, path.display(), error.message),
                ..error
            })?;
            return Ok((bytes, false));
        }
        Origin::Directory { path, language, entry } => (path, *language, entry.as_deref()),
    };
    let mut inputs = Inputs::default();
    inputs.add("format", FORMAT).add("language", language.to_string());
    let in_component =
        |error: BuildError| BuildError { message: format!("{}: {}", source.name, error.message), ..error };
    let mut built = || match language {
        Language::Rust => {
            let guest = RustGuest::open(path, entry, cache, progress)?;
            guest.add_inputs(&mut inputs)?;
            cached(cache, &inputs, source, progress, || guest.build(cache, progress))
        }
        Language::Python => {
            let guest = PythonGuest::open(path, entry)?;
            guest.add_inputs(&mut inputs)?;
            cached(cache, &inputs, source, progress, || guest.build(cache, progress))
        }
        Language::Go => {
            let guest = GoGuest::open(path, entry, cache, progress)?;
            guest.add_inputs(&mut inputs)?;
            cached(cache, &inputs, source, progress, || guest.build(cache, progress))
        }
        Language::C => {
            let guest = CGuest::open(path, entry)?;
            guest.add_inputs(&mut inputs)?;
            cached(cache, &inputs, source, progress, || guest.build(cache, progress))
        }
        Language::TypeScript => {
            let guest = TypeScriptGuest::open(path, entry)?;
            guest.add_inputs(&mut inputs)?;
            cached(cache, &inputs, source, progress, || guest.build(cache, progress))
        }
    };
    built().map_err(in_component)
}

fn cached(
    cache: &Cache,
    inputs: &Inputs,
    source: &Source,
    progress: &dyn Progress,
    build: impl FnOnce() -> Result<Vec<u8>, BuildError>,
) -> Result<(Vec<u8>, bool), BuildError> {
    let key = inputs.digest();
    if let Some(bytes) = cache.component(&key) {
        progress.step(&format!("{} is unchanged", source.name));
        return Ok((bytes, true));
    }
    let bytes = build()?;
    cache.keep_component(&key, &bytes)?;
    Ok((bytes, false))
}
