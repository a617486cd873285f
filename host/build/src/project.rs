//! A source directory: its manifest, and what is guessed where the manifest is silent.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::{BuildError, Code};
use super::manifest::{FILE_NAME, Language, Manifest, check_name};
use super::python;

/// Sources of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// With the app's name filled in.
    pub manifest: Manifest,
    /// In the order of their names.
    pub components: Vec<Source>,
}

/// Sources of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Name of the component.
    pub name: String,
    pub origin: Origin,
}

/// Sources, or a component that is there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// To be built.
    Directory {
        /// Directory of the sources.
        path: PathBuf,
        language: Language,
        /// Module, file or crate, if it was said.
        entry: Option<String>,
    },
    /// To be taken as it is.
    File(PathBuf),
}

impl Project {
    /// Looks at a source directory.
    pub fn open(directory: &Path) -> Result<Self, BuildError> {
        let directory = directory.canonicalize().map_err(BuildError::io("open", directory))?;
        if !directory.is_dir() {
            return Err(BuildError::new(Code::BadProject, format_args!("{} is not a directory", directory.display()))
                .hint("give the directory that has the app's sources"));
        }
        let path = directory.join(FILE_NAME);
        let mut manifest = match fs::read(&path) {
            Ok(bytes) => Manifest::parse(text_of(&bytes)?)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Manifest::default(),
            Err(error) => return Err(BuildError::io("read", &path)(error)),
        };
        if manifest.app.name.is_none() {
            let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
            check_name("an app", &name).map_err(|error| {
                let hint = format!("name it in {FILE_NAME}: [app] name = \"…\" ({})", error.hint);
                BuildError { code: Code::BadProject, ..error }.hint(hint)
            })?;
            manifest.app.name = Some(name);
        }
        let components = sources(&directory, &manifest)?;
        Ok(Self { manifest, components })
    }

    /// Of the components that are built: the directory of the sources, their language, and the entry, if it was said.
    pub fn directories(&self) -> impl Iterator<Item = (&Path, Language, Option<&str>)> {
        self.components.iter().filter_map(|component| match &component.origin {
            Origin::Directory { path, language, entry } => Some((path.as_path(), *language, entry.as_deref())),
            Origin::File(_) => None,
        })
    }

    /// The app's name.
    pub fn name(&self) -> &str {
        self.manifest.app.name.as_deref().expect("filled in when opened")
    }
}

fn sources(directory: &Path, manifest: &Manifest) -> Result<Vec<Source>, BuildError> {
    if manifest.components.is_empty() {
        let app = &manifest.app;
        let language = app.language.map_or_else(|| guess_language(directory, "[app]"), Ok)?;
        let origin = Origin::Directory { path: directory.to_owned(), language, entry: app.entry.clone() };
        return Ok(vec![Source { name: app.name.clone().expect("filled in before"), origin }]);
    }
    let sources = manifest.components.iter().map(|(name, component)| {
        let origin = match &component.file {
            Some(file) => Origin::File(within(directory, file)?),
            None => {
                let path = within(directory, component.path.as_deref().unwrap_or(name))?;
                if !path.is_dir() {
                    return Err(BuildError::new(
                        Code::BadProject,
                        format_args!("component {name} should be in {}, which is not a directory", path.display()),
                    )
                    .hint(format_args!("write its `path` under [component.{name}] in {FILE_NAME}")));
                }
                let language =
                    component.language.map_or_else(|| guess_language(&path, &format!("[component.{name}]")), Ok)?;
                Origin::Directory { path, language, entry: component.entry.clone() }
            }
        };
        Ok(Source { name: name.clone(), origin })
    });
    sources.collect()
}

fn text_of(bytes: &[u8]) -> Result<&str, BuildError> {
    str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        BuildError::new(Code::BadManifest, format_args!("{FILE_NAME}, line {line}: not UTF-8"))
            .hint("write the file as UTF-8")
    })
}

/// A path of the manifest; what lies outside of the project would not be watched or moved with it.
fn within(directory: &Path, path: &str) -> Result<PathBuf, BuildError> {
    let relative = Path::new(path);
    let plain = relative
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir));
    if plain && !path.is_empty() {
        return Ok(directory.join(relative));
    }
    Err(BuildError::new(Code::BadProject, format_args!("{path:?} in {FILE_NAME} is not a path inside the project"))
        .hint("write it relative to the project's directory, without `..`"))
}

/// The language that the files of a directory speak of.
fn guess_language(directory: &Path, section: &str) -> Result<Language, BuildError> {
    let mut found: BTreeSet<(Language, &str)> = BTreeSet::new();
    for entry in fs::read_dir(directory).map_err(BuildError::io("list", directory))? {
        let name = entry.map_err(BuildError::io("list", directory))?.file_name();
        let name = name.to_string_lossy();
        match name.as_ref() {
            "Cargo.toml" => found.insert((Language::Rust, "Cargo.toml")),
            "package.json" => found.insert((Language::TypeScript, "package.json")),
            "go.mod" => found.insert((Language::Go, "go.mod")),
            _ if name.ends_with(".py") => found.insert((Language::Python, "*.py")),
            _ if name.ends_with(".c") => found.insert((Language::C, "*.c")),
            _ => false,
        };
    }
    // A package may lie anywhere, as of scripts beside the sources: it counts where nothing else does.
    if found.is_empty() && !python::modules_of(directory)?.is_empty() {
        return Ok(Language::Python);
    }
    let found: Vec<_> = found.into_iter().collect();
    let write = format!("write `language = \"…\"` under {section} in {FILE_NAME}");
    match found.as_slice() {
        [(language, _)] => Ok(*language),
        [] => Err(BuildError::new(
            Code::BadProject,
            format_args!("{} has no sources in a known language", directory.display()),
        )
        .hint(format_args!(
            "known are Cargo.toml, *.py and packages with an __init__.py, package.json, go.mod and *.c; or {write}"
        ))),
        several => {
            let files: Vec<_> = several.iter().map(|(_, file)| *file).collect();
            Err(BuildError::new(
                Code::BadProject,
                format_args!("{} has {}: which language is it?", directory.display(), files.join(" and ")),
            )
            .hint(write))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens a project of the given files, in a directory named `shop`.
    fn open(files: &[(&str, &str)]) -> Result<Vec<(String, Language, Option<String>)>, String> {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("shop");
        for (name, text) in files {
            let path = directory.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let canonical = directory.canonicalize().unwrap();
        let project = Project::open(&directory)
            .map_err(|error| error.to_string().replace(&canonical.display().to_string(), "shop"))?;
        assert_eq!(project.name(), "shop");
        Ok(project
            .components
            .into_iter()
            .map(|source| match source.origin {
                Origin::Directory { path, language, entry } => {
                    let within = path.strip_prefix(&canonical).unwrap().display().to_string();
                    (format!("{}@{within}", source.name), language, entry)
                }
                Origin::File(path) => panic!("{}", path.display()),
            })
            .collect())
    }

    #[test]
    fn what_is_omitted_is_guessed() {
        let one = |language| Ok(vec![("shop@".to_owned(), language, None)]);
        assert_eq!(open(&[("Cargo.toml", ""), ("src/lib.rs", "")]), one(Language::Rust));
        assert_eq!(open(&[("ledger.py", ""), ("README.md", "")]), one(Language::Python));
        assert_eq!(open(&[("market/__init__.py", ""), ("tests/__init__.py", "")]), one(Language::Python));
        assert_eq!(open(&[("a.c", ""), ("scripts/__init__.py", "")]), one(Language::C));
        assert_eq!(open(&[("package.json", "")]), one(Language::TypeScript));
        assert_eq!(open(&[("go.mod", "")]), one(Language::Go));
        assert_eq!(open(&[("a.c", ""), ("a.h", "")]), one(Language::C));
        assert_eq!(
            open(&[("a.py", ""), ("Cargo.toml", ""), ("styx.toml", "[app]\nlanguage = \"rust\"")]),
            one(Language::Rust)
        );
        assert_eq!(
            open(&[
                ("styx.toml", "[component.stock]\n[component.order]\npath = \"o\"\nentry = \"x\""),
                ("stock/Cargo.toml", ""),
                ("o/x.py", "")
            ]),
            Ok(vec![
                ("order@o".into(), Language::Python, Some("x".into())),
                ("stock@stock".into(), Language::Rust, None)
            ])
        );
    }

    #[test]
    fn what_cannot_be_guessed_is_asked_for() {
        for (files, message) in [
            (
                &[("a.txt", "")][..],
                "shop has no sources in a known language; known are Cargo.toml, *.py and packages with an __init__.py, package.json, go.mod and *.c; or write `language = \"…\"` under [app] in styx.toml",
            ),
            (
                &[("tests/__init__.py", "")],
                "shop has no sources in a known language; known are Cargo.toml, *.py and packages with an __init__.py, package.json, go.mod and *.c; or write `language = \"…\"` under [app] in styx.toml",
            ),
            (
                &[("a.py", ""), ("Cargo.toml", "")],
                "shop has Cargo.toml and *.py: which language is it?; write `language = \"…\"` under [app] in styx.toml",
            ),
            (
                &[("styx.toml", "[component.a]")],
                "component a should be in shop/a, which is not a directory; write its `path` under [component.a] in styx.toml",
            ),
            (
                &[("styx.toml", "[component.a]\npath = \"../a\"")],
                "\"../a\" in styx.toml is not a path inside the project; write it relative to the project's directory, without `..`",
            ),
        ] {
            assert_eq!(open(files), Err(format!("BAD_PROJECT: {message}")));
        }
    }

    #[test]
    fn a_manifest_that_is_no_text_is_told_with_its_line() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(FILE_NAME), b"[app]\nname = \"a\xff\"\n").unwrap();
        let error = Project::open(directory.path()).unwrap_err().to_string();
        assert_eq!(error, "BAD_MANIFEST: styx.toml, line 2: not UTF-8; write the file as UTF-8");
    }

    #[test]
    fn a_directory_that_cannot_be_a_name_needs_one() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("my shop");
        fs::create_dir(&directory).unwrap();
        let error = Project::open(&directory).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (Code::BadProject, "\"my shop\" cannot name an app"));
    }
}
