//! Python guests: componentize-py packs CPython, the SDK, the packages of
//! `requirements.txt` and the project into one component.
//!
//! The tool lives in a virtual environment in the cache; nothing is installed
//! anywhere else. The SDK's own `python -m styx.build` drives it and explains its errors.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::{COMPILED_CODE, Cache, Inputs, newest_first};
use super::command;
use super::error::{BuildError, Code};
use super::installer;
use super::interpreter::{AppFiles, Interpreter};
use super::manifest::FILE_NAME;
use super::progress::Progress;
use super::sdk::Sdk;

/// Pinned: another version makes other components.
const COMPONENTIZE_PY: &str = "componentize-py==0.25.1";
/// Oldest Python that the SDK runs on.
const PYTHON_MINIMUM: (u32, u32) = (3, 11);
const REQUIREMENTS: &str = "requirements.txt";
/// What names of directories of interpreters begin with.
const INTERPRETER: &str = "interpreter-";
const INTERPRETERS_KEPT: usize = 2;

/// A Python guest about to be built.
pub struct PythonGuest<'a> {
    directory: &'a Path,
    module: String,
    python: Python,
}

/// An interpreter to run the tools with.
pub struct Python {
    pub program: &'static str,
    pub version: String,
}

impl<'a> PythonGuest<'a> {
    /// Finds the entry module and an interpreter.
    pub fn open(directory: &'a Path, entry: Option<&str>) -> Result<Self, BuildError> {
        let module = match entry {
            Some(entry) => named_module(directory, entry)?,
            None => guess_module(directory)?,
        };
        Ok(Self { directory, module, python: Python::find()? })
    }

    /// Adds all that the component depends on.
    pub fn add_inputs(&self, inputs: &mut Inputs) -> Result<(), BuildError> {
        inputs
            .add("python", &self.python.version)
            .add("tool", COMPONENTIZE_PY)
            .add("sdk", Sdk::Python.digest())
            .add("wit", Sdk::FirstWit.digest())
            .add("module", &self.module)
            .add_path(self.directory)?;
        Ok(())
    }

    /// Builds the component.
    pub fn build(&self, cache: &Cache, progress: &dyn Progress) -> Result<Vec<u8>, BuildError> {
        let python = self.environment(cache, progress)?;
        let packages = self.packages(&python, cache, progress)?;
        if let Some(component) = self.loaded(packages.as_deref(), cache, progress)? {
            return Ok(component);
        }
        let output = tempfile::tempdir().map_err(BuildError::io("create a directory in", &std::env::temp_dir()))?;
        let component = output.path().join("component.wasm");
        let mut tool = styx_build(&python, &self.module, &component, cache)?;
        tool.arg("--path").arg(self.directory).current_dir(self.directory);
        if let Some(packages) = &packages {
            tool.arg("--deps").arg(packages);
        }
        progress.step(&format!("componentize-py packs {}", self.module));
        let finished = command::run(&mut tool, None, |line| progress.detail(line))?;
        if !finished.succeeded {
            let mut lines = finished.tail.lines().filter_map(|line| line.strip_prefix("error: "));
            return Err(match lines.next() {
                Some(line) => {
                    let others: Vec<_> = lines.collect();
                    let more = if others.is_empty() { String::new() } else { format!(" ({} more)", others.len()) };
                    BuildError::new(Code::BuildFailed, format_args!("{line}{more}")).output(others.join("\n"))
                }
                None => BuildError::new(Code::BuildFailed, format_args!("{} cannot be packed", self.module))
                    .hint("see the tool's output")
                    .output(finished.tail),
            });
        }
        fs::read(&component).map_err(BuildError::io("read", &component))
    }

    /// The component, made by an interpreter that is ready; `None` if there is none, or it is not for this app: componentize-py
    /// then makes it, or says what is wrong.
    fn loaded(
        &self,
        packages: Option<&Path>,
        cache: &Cache,
        progress: &dyn Progress,
    ) -> Result<Option<Vec<u8>>, BuildError> {
        let Some(interpreter) = Interpreter::open(cache.directory("python")?.join(self.interpreter())) else {
            return Ok(None);
        };
        let sdk = Sdk::Python.unpacked(cache)?.join("src");
        let app = AppFiles { module: &self.module, sdk: &sdk, project: self.directory, packages };
        if app.have_native_code() {
            return Ok(None);
        }
        progress.step(&format!("the interpreter loads {}", self.module));
        match interpreter.load(&app) {
            Ok(component) => Ok(Some(component)),
            Err(error) => {
                progress.detail(&format!("not loaded: {error:#}"));
                Ok(None)
            }
        }
    }

    /// Makes the interpreter ready that apps are loaded into, if it is not: that takes as long as a build without it.
    pub fn prepare(&self, cache: &Cache, progress: &dyn Progress) -> Result<(), BuildError> {
        let python = self.environment(cache, progress)?;
        let parent = cache.directory("python")?;
        cache.filled(&format!("python/{}", self.interpreter()), |target| {
            let mut tool = styx_build(&python, "--interpreter", target, cache)?;
            tool.current_dir(target);
            progress.step("componentize-py packs an interpreter for all apps, once");
            let failed = |output| BuildError::new(Code::BuildFailed, "the interpreter cannot be packed").output(output);
            run(&mut tool, progress, failed)?;
            Interpreter::complete(target, &cache.directory(COMPILED_CODE)?)
                .map_err(|error| failed(format!("{error:#}")))
        })?;
        drop_interpreters(&parent)
    }

    /// Its directory's name: of all that it is made from.
    fn interpreter(&self) -> String {
        let key = Inputs::default()
            .add("tool", COMPONENTIZE_PY)
            .add("sdk", Sdk::Python.digest())
            .add("wit", Sdk::FirstWit.digest())
            .add("wasmtime", styx_engine::WASMTIME_VERSION)
            .add("for", std::env::consts::ARCH)
            .digest();
        format!("{INTERPRETER}{}", &key[..16])
    }

    /// What runs the project's tests: pytest if the machine has it, else the standard library's unittest.
    pub fn tests(&self, cache: &Cache, progress: &dyn Progress) -> Result<Command, BuildError> {
        let mut path = vec![Sdk::Python.unpacked(cache)?.join("src"), self.directory.to_owned()];
        if self.has_requirements() {
            let python = self.environment(cache, progress)?;
            path.extend(self.packages(&python, cache, progress)?);
        }
        let path = std::env::join_paths(path).map_err(|error| BuildError::new(Code::Io, error))?;
        let has_pytest = command::ask(Command::new(self.python.program).args(["-c", "import pytest"])).is_some();
        let mut tests = Command::new(self.python.program);
        tests.env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1").arg("-m");
        if has_pytest {
            tests.arg("pytest")
        } else {
            tests.args(["unittest", "discover"])
        };
        Ok(tests)
    }

    fn has_requirements(&self) -> bool {
        self.directory.join(REQUIREMENTS).is_file()
    }

    /// The interpreter of a virtual environment that has componentize-py.
    fn environment(&self, cache: &Cache, progress: &dyn Progress) -> Result<PathBuf, BuildError> {
        self.python.with_tool(COMPONENTIZE_PY, COMPONENTIZE_PY, "python", cache, progress)
    }

    /// The packages of `requirements.txt`, installed into a directory; `None` if there are none.
    fn packages(&self, python: &Path, cache: &Cache, progress: &dyn Progress) -> Result<Option<PathBuf>, BuildError> {
        let requirements = self.directory.join(REQUIREMENTS);
        let Ok(text) = fs::read_to_string(&requirements) else { return Ok(None) };
        let named = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        if !text.lines().any(named) {
            return Ok(None);
        }
        let key = Inputs::default().add("python", &self.python.version).add(REQUIREMENTS, &text).digest();
        let installed = cache.filled(&format!("python/packages-{}", &key[..16]), |target| {
            progress.step(&format!("pip installs {REQUIREMENTS}"));
            let mut install = self.python.pip(python, progress)?;
            // What was compiled for this machine cannot run in a component.
            install
                .args(["install", "--no-compile", "--target"])
                .arg(target)
                .arg("-r")
                .arg(&requirements)
                .current_dir(self.directory);
            run(&mut install, progress, |tail| installer::failed_for("pip", REQUIREMENTS, &text, tail))
        })?;
        Ok(Some(installed))
    }
}

/// Deletes interpreters of other versions but the newest: each has 100 MB.
fn drop_interpreters(directory: &Path) -> Result<(), BuildError> {
    let is_one = |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(INTERPRETER));
    for path in newest_first(directory)?.iter().filter(is_one).skip(INTERPRETERS_KEPT) {
        // Another build may have dropped it; one that reads it falls back.
        let _ = fs::remove_dir_all(path);
    }
    Ok(())
}

/// `styx.build` of the SDK, to make what is asked for.
fn styx_build(python: &Path, asked: &str, output: &Path, cache: &Cache) -> Result<Command, BuildError> {
    let mut tool = Command::new(python);
    tool.args(["-m", "styx.build", asked, "--wit"])
        .arg(Sdk::FirstWit.unpacked(cache)?)
        .arg("-o")
        .arg(output)
        .env("PYTHONPATH", Sdk::Python.unpacked(cache)?.join("src"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("PYTHONHOME");
    Ok(tool)
}

/// Oldest pip that installs into other environments than its own.
const PIP_FOR_OTHERS: (u32, u32) = (22, 3);

/// Whether what `pip --version` says is of one that installs into other environments.
fn installs_for_others(version: &str) -> bool {
    let mut numbers = version.trim_start_matches("pip ").split(['.', ' ']).map(|part| part.parse::<u32>().ok());
    let number = (numbers.next().flatten(), numbers.next().flatten());
    matches!(number, (Some(major), Some(minor)) if (major, minor) >= PIP_FOR_OTHERS)
}

fn python_alone(program: impl AsRef<OsStr>) -> Command {
    let mut python = Command::new(program);
    python.env_remove("PYTHONPATH").env_remove("PYTHONHOME");
    python
}

fn run(
    command: &mut Command,
    progress: &dyn Progress,
    failed: impl FnOnce(String) -> BuildError,
) -> Result<(), BuildError> {
    let finished = command::run(command, None, |line| progress.detail(line))?;
    if finished.succeeded { Ok(()) } else { Err(failed(finished.tail)) }
}

impl Python {
    /// The interpreter of a virtual environment that has a tool, installed once, in a language's part of the cache. `what` it
    /// is called when that fails.
    pub fn with_tool(
        &self,
        tool: &str,
        what: &str,
        language: &str,
        cache: &Cache,
        progress: &dyn Progress,
    ) -> Result<PathBuf, BuildError> {
        let key = Inputs::default().add("python", &self.version).add("tool", tool).digest();
        // A virtual environment does not bear to be moved: it is made in its place,
        // and a file says that it is complete.
        let _lock = cache.lock(language)?;
        let environment = cache.directory(Path::new(language).join(format!("venv-{}", &key[..16])))?;
        let (python, complete) = (environment.join("bin/python"), environment.join("complete"));
        if complete.is_file() {
            return Ok(python);
        }
        progress.step(&format!("pip installs {tool}"));
        // A pip of its own would take longer than all that is installed with it.
        let mut create = python_alone(self.program);
        create.args(["-m", "venv", "--clear", "--without-pip"]).arg(&environment);
        run(&mut create, progress, |tail| {
            BuildError::new(Code::BuildFailed, "cannot create a virtual environment")
                .hint("install the venv module (Debian: python3-venv)")
                .output(tail)
        })?;
        let mut install = self.pip(&python, progress)?;
        install.arg("install").arg(tool);
        run(&mut install, progress, |tail| installer::failed("pip", what, tail))?;
        fs::write(&complete, "").map_err(BuildError::io("write", &complete))?;
        Ok(python)
    }

    /// pip for a virtual environment, whose interpreter is `python`: the machine's; or one of its own, if that has none.
    fn pip(&self, python: &Path, progress: &dyn Progress) -> Result<Command, BuildError> {
        let version = command::ask(python_alone(self.program).args(["-m", "pip", "--version"]));
        let mut pip = if version.is_some_and(|version| installs_for_others(&version)) {
            let mut pip = python_alone(self.program);
            pip.args(["-m", "pip", "--python"]).arg(python);
            pip
        } else {
            run(python_alone(python).args(["-m", "ensurepip"]), progress, |tail| {
                BuildError::new(Code::BuildFailed, "there is no pip to install with")
                    .hint("install pip 22.3 or newer (Debian: python3-pip)")
                    .output(tail)
            })?;
            let mut pip = python_alone(python);
            pip.args(["-m", "pip"]);
            pip
        };
        pip.args(["--disable-pip-version-check", "--no-input", "--quiet"]);
        Ok(pip)
    }

    /// The machine's, new enough.
    pub fn find() -> Result<Self, BuildError> {
        let mut too_old = None;
        for program in ["python3", "python"] {
            let Some(version) = command::ask(
                Command::new(program)
                    .args(["-c", "import sys; print(sys.version_info[0], sys.version_info[1], sys.executable)"]),
            ) else {
                continue;
            };
            let mut words = version.split(' ').map(str::parse::<u32>);
            let number =
                (words.next().and_then(Result::ok).unwrap_or(0), words.next().and_then(Result::ok).unwrap_or(0));
            if number >= PYTHON_MINIMUM {
                return Ok(Self { program, version });
            }
            too_old = Some(number);
        }
        let needed = format!("install Python {}.{} or newer", PYTHON_MINIMUM.0, PYTHON_MINIMUM.1);
        Err(match too_old {
            Some((major, minor)) => {
                BuildError::new(Code::ToolchainMissing, format_args!("Python {major}.{minor} is too old to build with"))
                    .hint(needed)
            }
            None => BuildError::new(Code::ToolchainMissing, "there is no Python to build with").hint(needed),
        })
    }
}

/// The module that is called the entry. One of a package that is to be installed is not there yet.
fn named_module(directory: &Path, entry: &str) -> Result<String, BuildError> {
    let module = entry.strip_suffix(".py").unwrap_or(entry).trim_end_matches('/').replace('/', ".");
    let path = directory.join(module.replace('.', "/"));
    if path.with_extension("py").is_file() || path.is_dir() || directory.join(REQUIREMENTS).is_file() {
        return Ok(module);
    }
    let message = format!("the entry {entry:?} is no module in {}", directory.display());
    Err(BuildError::new(Code::BadProject, message)
        .hint(format_args!("write the module that registers the functions as `entry` in {FILE_NAME}, or leave it out")))
}

/// The only module of a directory, or that of its name, or `app` or `main`.
fn guess_module(directory: &Path) -> Result<String, BuildError> {
    let modules = modules_of(directory)?;
    if let [only] = modules.as_slice() {
        return Ok(only.clone());
    }
    let own = directory.file_name().unwrap_or_default().to_string_lossy().replace('-', "_");
    let usual = [own.as_str(), "app", "main"].into_iter().find(|name| modules.iter().any(|module| module == name));
    usual.map(str::to_owned).ok_or_else(|| {
        let error = |found: &str| {
            let directory = directory.display();
            BuildError::new(Code::BadProject, format_args!("{directory} has {found}: which registers the functions?"))
        };
        match modules.first() {
            None => {
                error("no module").hint("write them into a module, as app.py, or into a package with an __init__.py")
            }
            Some(first) => error(&format!("the modules {}", modules.join(", ")))
                .hint(format_args!("write the one that does as `entry` in {FILE_NAME}: entry = {first:?}")),
        }
    })
}

/// Modules and packages of a directory that may be an app's, in order: no tests, and no settings of tools.
pub fn modules_of(directory: &Path) -> Result<Vec<String>, BuildError> {
    let mut modules = Vec::new();
    for entry in fs::read_dir(directory).map_err(BuildError::io("list", directory))? {
        let path = entry.map_err(BuildError::io("list", directory))?.path();
        let is_module =
            path.extension().is_some_and(|extension| extension == "py") || path.join("__init__.py").is_file();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_other = name == "conftest"
            || name == "setup"
            || name == "tests"
            || name.starts_with("test_")
            || name.ends_with("_test");
        if is_module && !is_other {
            modules.push(name);
        }
    }
    modules.sort_unstable();
    Ok(modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(files: &[&str]) -> Result<String, String> {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("my-shop");
        for file in files {
            let path = directory.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        guess_module(&directory).map_err(|error| {
            let said = format!("{}; {}", error.message, error.hint);
            said.replace(&directory.display().to_string(), "my-shop")
        })
    }

    #[test]
    fn an_entry_is_a_module_or_comes_with_a_package() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::create_dir_all(path.join("shop/inner")).unwrap();
        fs::write(path.join("shop/orders.py"), "").unwrap();
        let named = |entry: &str| named_module(path, entry).map_err(|error| error.code);
        for entry in ["shop/orders.py", "shop.orders", "shop/orders"] {
            assert_eq!(named(entry).as_deref(), Ok("shop.orders"));
        }
        assert_eq!(named("shop/inner/").as_deref(), Ok("shop.inner"));
        assert_eq!(named("order"), Err(Code::BadProject));
        fs::write(path.join(REQUIREMENTS), "").unwrap();
        assert_eq!(named("order").as_deref(), Ok("order"));
    }

    /// The section that `scripts/python-native.sh` adds to the SDK's part in C. `UPDATE_WORLD=1` writes it.
    #[test]
    fn the_part_in_c_says_its_part_of_the_contract() {
        let native = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/python/native");
        let world = fs::read_to_string(native.join("world.wit")).unwrap();
        let mut resolve = wit_parser::Resolve::default();
        let package = resolve.push_str("guest.wit", &(Sdk::FirstWit.file("guest.wit") + &world)).unwrap();
        let world = resolve.select_world(&[package], Some("native")).unwrap();
        let encoding = wit_component::StringEncoding::UTF8;
        let section = wit_component::metadata::encode(&resolve, world, encoding, None).unwrap();
        if std::env::var_os("UPDATE_WORLD").is_some() {
            fs::write(native.join("world.bin"), &section).unwrap();
        }
        assert_eq!(section, fs::read(native.join("world.bin")).unwrap(), "UPDATE_WORLD=1, then `just python-native`");
        let library = native.join("../src/styx/_native.cpython-314-wasm32-wasi.so");
        assert!(fs::read(library).unwrap().ends_with(&section), "`just python-native`");
    }

    #[test]
    fn pips_that_install_for_others_are_known_by_their_version() {
        for (said, expect) in [
            ("pip 22.3 from /usr/lib/python3/dist-packages/pip (python 3.11)", true),
            ("pip 26.0.1 from /x (python 3.11)", true),
            ("pip 23.0b1 from /x (python 3.11)", false),
            ("pip 22.2.9 from /x (python 3.11)", false),
            ("No module named pip", false),
        ] {
            assert_eq!(installs_for_others(said), expect, "{said}");
        }
    }

    #[test]
    fn modules_are_guessed_if_unambiguous() {
        assert_eq!(guess(&["ledger.py", "test_ledger.py", "conftest.py"]), Ok("ledger".into()));
        assert_eq!(guess(&["shop/__init__.py", "README.md"]), Ok("shop".into()));
        assert_eq!(guess(&["my_shop.py", "helper.py"]), Ok("my_shop".into()));
        assert_eq!(guess(&["main.py", "helper.py"]), Ok("main".into()));
        assert_eq!(
            guess(&["a.py", "b.py"]),
            Err("my-shop has the modules a, b: which registers the functions?; write the one that does as `entry` in styx.toml: entry = \"a\"".into())
        );
        assert_eq!(
            guess(&["market/__init__.py", "stock/__init__.py", "tests/__init__.py"]),
            Err("my-shop has the modules market, stock: which registers the functions?; write the one that does as `entry` in styx.toml: entry = \"market\"".into())
        );
        assert_eq!(
            guess(&["tests/__init__.py"]),
            Err("my-shop has no module: which registers the functions?; write them into a module, as app.py, or into a package with an __init__.py".into())
        );
    }
}
