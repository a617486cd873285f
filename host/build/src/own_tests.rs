//! A project's own tests, run by its language's own runner with the SDK where it finds it: what `styx test` does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::Cache;
use super::error::{BuildError, Code};
use super::manifest::Language;
use super::progress::Progress;
use super::project::{Origin, Project};
use super::sdk::Sdk;
use super::{c, go, python, rust, typescript};

/// Runs the tests of all components of the app in `source`, with what they say on this process's output; `arguments` go to
/// the runner. Returns true if all passed.
pub fn test(source: &Path, arguments: &[String], progress: &dyn Progress) -> Result<bool, BuildError> {
    let cache = Cache::of_user()?;
    let project = Project::open(source)?;
    let mut passed = true;
    for component in &project.components {
        let Origin::Directory { path, language, entry } = &component.origin else { continue };
        let temporary = tempfile::tempdir().map_err(BuildError::io("create a directory in", &std::env::temp_dir()))?;
        let commands = match language {
            Language::Python => vec![python::PythonGuest::open(path, entry.as_deref())?.tests(&cache, progress)?],
            Language::Rust => vec![rust::tests(path, &cache)?],
            Language::TypeScript => {
                vec![typescript::TypeScriptGuest::open(path, entry.as_deref())?.tests(&cache, progress)?]
            }
            Language::Go => {
                let guest = go::GoGuest::open(path, entry.as_deref(), &cache, progress)?;
                vec![guest.tests(&cache, temporary.path())?]
            }
            Language::C => c_tests(path, entry.as_deref(), &cache, temporary.path(), progress)?,
        };
        for mut command in commands {
            progress.step(&format!("tests of {}", component.name));
            let name = command.get_program().to_string_lossy().into_owned();
            let status = command.args(arguments).current_dir(path).status().map_err(|error| {
                BuildError::new(Code::ToolchainMissing, format_args!("cannot run {name}: {error}"))
                    .hint("`styx doctor` says what each language needs")
            })?;
            passed &= status.success();
        }
    }
    Ok(passed)
}

/// Compiles each test with the guest and the host in memory, for this machine; what is returned runs them.
fn c_tests(
    directory: &Path,
    entry: Option<&str>,
    cache: &Cache,
    into: &Path,
    progress: &dyn Progress,
) -> Result<Vec<Command>, BuildError> {
    let sdk = Sdk::C.unpacked(cache)?;
    let sources = c::CGuest::open(directory, entry)?.sources().to_vec();
    let mut programs = Vec::new();
    for test in c_files(&directory.join("tests"))? {
        let stem = test.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        progress.step(&format!("cc compiles {stem}"));
        let program = into.join(&stem);
        let mut compiler = c::native_compiler(cache, progress)?;
        compiler.args(["-std=gnu17", "-g", "-O1", "-Wall", "-Wno-unused-parameter"]);
        for include in ["include", "testing"] {
            compiler.arg("-I").arg(sdk.join(include));
        }
        compiler.arg("-I").arg(directory).arg(&test).args(sources.iter().map(|source| directory.join(source)));
        for part in ["src", "testing"] {
            compiler.args(c_files(&sdk.join(part))?);
        }
        compiler.args(["-lm", "-o"]).arg(&program);
        let compiled = compiler.status().map_err(BuildError::io("run", Path::new("cc")))?;
        if !compiled.success() {
            return Err(BuildError::new(Code::BuildFailed, format_args!("{stem} does not compile"))
                .hint("see the compiler's output"));
        }
        programs.push(Command::new(program));
    }
    if programs.is_empty() {
        return Err(BuildError::new(Code::BadProject, format_args!("{} has no tests", directory.display()))
            .hint("write them as tests/*.c, each with a main"));
    }
    Ok(programs)
}

fn c_files(directory: &Path) -> Result<Vec<PathBuf>, BuildError> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(directory).map_err(BuildError::io("list", directory))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(BuildError::io("list", directory))?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}
