//! Where editors, and the languages' own tools, find the SDK that this binary carries: `cargo test` and rust-analyzer, `go test`
//! and gopls, pyright, TypeScript's server, clangd. Each has a file for what is so on one machine only, which `styx new` keeps
//! out of git. Builds need none of them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::cache::{self, Cache};
use super::error::BuildError;
use super::go::ModuleFile;
use super::manifest::Language;
use super::project::Project;
use super::rust::Manifests;
use super::sdk::Sdk;

/// Names of such files, at the top of a component's sources, none of which a component is made from. (Those of Rust and of
/// TypeScript are in directories that none is made from.)
pub const POINTERS: [&str; 4] = ["go.work", "go.work.sum", "pyrightconfig.json", "compile_flags.txt"];

/// A file that says where the SDK is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// Now, or before.
    Written(PathBuf),
    /// It is the user's, stays as it is, and should say this as well.
    Lacks { file: PathBuf, text: String },
}

/// Has editors find the SDK for the app in `source`, with what is in the user's cache.
///
/// # Errors
/// There is no such app, or a file cannot be written.
pub fn point_editors(source: &Path) -> Result<Vec<Pointer>, BuildError> {
    point_with(&Cache::of_user()?, source)
}

fn point_with(cache: &Cache, source: &Path) -> Result<Vec<Pointer>, BuildError> {
    let mut pointers = Vec::new();
    for (path, language, _) in Project::open(source)?.directories() {
        pointers.extend(point(cache, path, language)?);
    }
    Ok(pointers)
}

/// None if the sources say where they have their SDK.
fn point(cache: &Cache, directory: &Path, language: Language) -> Result<Option<Pointer>, BuildError> {
    let quoted = |path: &Path| format!("{:?}", path.to_string_lossy());
    let sdk = |sdk: Sdk| sdk.linked(cache);
    let (name, text) = match language {
        Language::Rust if Manifests::read(directory)?.has_own_sdk => return Ok(None),
        Language::Rust => {
            let text = format!("[patch.crates-io]\nstyx-sdk = {{ path = {} }}\n", quoted(&sdk(Sdk::Rust)?));
            (".cargo/config.toml", text)
        }
        Language::Go => {
            let module = ModuleFile::read(directory)?;
            if module.has_own_sdk() {
                return Ok(None);
            }
            let text = format!("go {}\n\nuse (\n\t.\n\t{}\n)\n", module.version(), quoted(&sdk(Sdk::Go)?));
            ("go.work", text)
        }
        Language::Python => {
            let sources = quoted(&sdk(Sdk::Python)?.join("src"));
            // A file of pyright's own would take the place of what is said there.
            let project = directory.join("pyproject.toml");
            if fs::read_to_string(project).is_ok_and(|text| text.contains("[tool.pyright]")) {
                ("pyproject.toml", format!("[tool.pyright]\nextraPaths = [{sources}]\n"))
            } else {
                ("pyrightconfig.json", format!("{{\n  \"extraPaths\": [{sources}]\n}}\n"))
            }
        }
        Language::C => {
            let sdk = sdk(Sdk::C)?;
            let text = ["include", "testing"].map(|part| format!("-I{}\n", sdk.join(part).display())).concat();
            ("compile_flags.txt", text)
        }
        Language::TypeScript => {
            let sdk = sdk(Sdk::TypeScript)?;
            // The types of Node.js, for tests, are there as soon as an app was built.
            link(&directory.join("node_modules/@types/node"), &sdk.join("tools/node_modules/@types/node"))?;
            return link(&directory.join("node_modules/styx-sdk"), &sdk).map(Some);
        }
    };
    let file = directory.join(name);
    match fs::read_to_string(&file) {
        Ok(there) if there.contains(&*cache.sdks().to_string_lossy()) => {}
        Ok(_) => return Ok(Some(Pointer::Lacks { file, text })),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make_parent(&file)?;
            fs::write(&file, text).map_err(BuildError::io("write", &file))?;
        }
        Err(error) => return Err(BuildError::io("read", &file)(error)),
    }
    Ok(Some(Pointer::Written(file)))
}

fn make_parent(path: &Path) -> Result<(), BuildError> {
    let parent = path.parent().expect("it is in the directory");
    fs::create_dir_all(parent).map_err(BuildError::io("create", parent))
}

/// Puts a link in place of another one; a package that was installed stays.
fn link(at: &Path, to: &Path) -> Result<Pointer, BuildError> {
    make_parent(at)?;
    if fs::symlink_metadata(at).map_or(true, |there| there.is_symlink()) {
        cache::link(at, to).map_err(BuildError::io("link", at))?;
    }
    Ok(Pointer::Written(at.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::create;

    const ALL: [Language; 5] = [Language::Rust, Language::Python, Language::TypeScript, Language::Go, Language::C];

    fn made(language: Language) -> (tempfile::TempDir, PathBuf, Cache) {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().canonicalize().unwrap().join("bank");
        create(&directory, language).unwrap();
        let cache = Cache::at(parent.path().join("cache"));
        (parent, directory, cache)
    }

    #[test]
    fn every_template_gets_one_and_git_does_not_see_it() {
        for language in ALL {
            let (_parent, directory, cache) = made(language);
            let pointers = point_with(&cache, &directory).unwrap();
            let [Pointer::Written(file)] = &pointers[..] else { panic!("{language}: {pointers:?}") };
            let sdk = if language == Language::TypeScript {
                fs::read_link(file).unwrap().display().to_string()
            } else {
                fs::read_to_string(file).unwrap()
            };
            assert!(sdk.contains(&*cache.sdks().to_string_lossy()), "{language}: {sdk}");
            let part = match language {
                Language::Rust => "rust/macros/src/lib.rs",
                Language::Python => "python/src/styx/__init__.py",
                Language::TypeScript => "typescript/src/index.ts",
                Language::Go => "go/styxtest/app.go",
                Language::C => "c/testing/styx_test.h",
            };
            assert!(cache.sdks().join(part).is_file(), "{part}");
            let within = file.strip_prefix(&directory).unwrap().display().to_string();
            let ignored = fs::read_to_string(directory.join(".gitignore")).unwrap();
            assert!(ignored.lines().any(|line| within.starts_with(line)), "{language}: {within}");
            assert_eq!(point_with(&cache, &directory).unwrap(), pointers, "once more");
        }
    }

    #[test]
    fn what_a_component_is_made_of_does_not_change_by_it() {
        for language in ALL {
            let (_parent, directory, cache) = made(language);
            let digest = || crate::cache::Inputs::default().add_path(&directory).unwrap().digest();
            let before = digest();
            point_with(&cache, &directory).unwrap();
            assert_eq!(digest(), before, "{language}");
        }
    }

    #[test]
    fn what_is_the_users_stays() {
        for (language, file) in [
            (Language::Rust, ".cargo/config.toml"),
            (Language::Go, "go.work"),
            (Language::Python, "pyrightconfig.json"),
            (Language::C, "compile_flags.txt"),
        ] {
            let (_parent, directory, cache) = made(language);
            let file = directory.join(file);
            make_parent(&file).unwrap();
            fs::write(&file, "mine").unwrap();
            let pointers = point_with(&cache, &directory).unwrap();
            let [Pointer::Lacks { file: found, text }] = &pointers[..] else { panic!("{language}: {pointers:?}") };
            assert!(*found == file && text.contains(&*cache.sdks().to_string_lossy()), "{language}: {text}");
            assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
            // As the user has been told.
            let both = format!("mine\n{text}");
            fs::write(&file, &both).unwrap();
            assert_eq!(point_with(&cache, &directory).unwrap(), [Pointer::Written(file.clone())]);
            assert_eq!(fs::read_to_string(&file).unwrap(), both);
        }
        let (_parent, directory, cache) = made(Language::Python);
        fs::write(directory.join("pyproject.toml"), "[tool.pyright]\nstrict = [\"src\"]\n").unwrap();
        let pointers = point_with(&cache, &directory).unwrap();
        let [Pointer::Lacks { text, .. }] = &pointers[..] else { panic!("{pointers:?}") };
        assert!(text.starts_with("[tool.pyright]\nextraPaths = [\""), "{text}");
        let (_parent, directory, cache) = made(Language::TypeScript);
        let installed = directory.join("node_modules/styx-sdk/package.json");
        make_parent(&installed).unwrap();
        fs::write(&installed, "{}").unwrap();
        point_with(&cache, &directory).unwrap();
        assert_eq!(fs::read_to_string(&installed).unwrap(), "{}");
    }

    #[test]
    fn sources_that_have_an_sdk_of_their_own_need_none() {
        let (_parent, directory, cache) = made(Language::Go);
        let module = directory.join("go.mod");
        let text = fs::read_to_string(&module).unwrap().replace("go 1.24", "go 1.25");
        fs::write(&module, format!("{text}\nreplace styx => ../sdk\n")).unwrap();
        assert_eq!(point_with(&cache, &directory).unwrap(), []);
        fs::write(&module, text).unwrap();
        point_with(&cache, &directory).unwrap();
        assert!(fs::read_to_string(directory.join("go.work")).unwrap().starts_with("go 1.25\n"));
        let (_parent, directory, cache) = made(Language::Rust);
        let manifest = directory.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap().replace("\"0.1\"", "{ path = \"../sdk\" }");
        let sdk = directory.parent().unwrap().join("sdk");
        fs::create_dir(&sdk).unwrap();
        fs::write(sdk.join("Cargo.toml"), "[package]\nname = \"styx-sdk\"\n").unwrap();
        fs::write(&manifest, text).unwrap();
        assert_eq!(point_with(&cache, &directory).unwrap(), []);
    }

    #[test]
    fn another_version_of_the_sdk_is_found_at_the_same_place() {
        let parent = tempfile::tempdir().unwrap();
        let cache = Cache::at(parent.path());
        let place = Sdk::C.linked(&cache).unwrap();
        assert!(place.join("include/styx.h").is_file());
        fs::remove_file(&place).unwrap();
        symlink("c-another", &place).unwrap();
        assert_eq!(Sdk::C.linked(&cache).unwrap(), place);
        assert!(place.join("include/styx.h").is_file());
        fs::remove_file(&place).unwrap();
        Sdk::C.unpacked(&cache).unwrap();
        assert!(place.join("include/styx.h").is_file(), "a build has the last word");
    }
}
