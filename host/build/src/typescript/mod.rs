//! TypeScript and JavaScript guests: the SDK's `tools/build.mjs` checks types, takes schemas from
//! them, and bundles the project with esbuild; the bundle is loaded into QuickJS ([`engine`]).
//!
//! The tools are npm packages of versions that the SDK's lock file names; they live in the cache,
//! and nothing is installed anywhere else. Packages that a project uses are its own `node_modules`.

mod engine;
mod thrown;
mod worker;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::cache::{COMPILED_CODE, Cache, Inputs};
use super::command;
use super::component;
use super::error::{BuildError, Code};
use super::installer;
use super::manifest::FILE_NAME;
use super::progress::Progress;
use super::sdk::Sdk;
use engine::Engine;
use thrown::Lines;
use worker::{Answer, Request};

/// Oldest Node.js that the tools run on.
const NODE_MINIMUM: u32 = 20;
const NEEDED: &str = "install Node.js 20 or newer, with npm (Debian: nodejs and npm)";

/// A TypeScript guest about to be built.
#[derive(Debug)]
pub struct TypeScriptGuest<'a> {
    directory: &'a Path,
    /// Within the directory.
    entry: String,
    /// Version of Node.js.
    node: String,
}

impl<'a> TypeScriptGuest<'a> {
    /// Finds the entry module and Node.js.
    pub fn open(directory: &'a Path, entry: Option<&str>) -> Result<Self, BuildError> {
        let entry = match entry {
            Some(entry) => named_entry(directory, entry)?,
            None => guess_entry(directory)?,
        };
        Ok(Self { directory, entry, node: find_node()? })
    }

    /// Adds all that the component depends on. What is installed of a project's packages is what its lock file says.
    pub fn add_inputs(&self, inputs: &mut Inputs) -> Result<(), BuildError> {
        inputs
            .add("node", &self.node)
            .add("sdk", Sdk::TypeScript.digest())
            .add("wit", Sdk::Wit.digest())
            .add("entry", &self.entry)
            .add_path(self.directory)?
            .add_path(&self.directory.join("node_modules/.package-lock.json"))?;
        Ok(())
    }

    /// Builds the component.
    pub fn build(&self, cache: &Cache, progress: &dyn Progress) -> Result<Vec<u8>, BuildError> {
        let sdk = self.tools(cache, progress)?;
        let output = tempfile::tempdir().map_err(BuildError::io("create a directory in", &std::env::temp_dir()))?;
        let bundle = output.path().join("bundle.json");
        let request = Request { directory: self.directory, entry: &self.entry, sdk: &sdk, output: &bundle };
        progress.step(&format!("esbuild bundles {}", self.entry));
        let mut others = Vec::new();
        let said = |line: &str| {
            progress.detail(line);
            others.push(line.to_owned());
        };
        match worker::build(&request, said) {
            Some(Answer { error: None }) => {}
            Some(Answer { error: Some(line) }) => {
                return Err(BuildError::new(Code::BuildFailed, line).output(others.join("\n")));
            }
            None => self.bundle(&request, progress)?,
        }
        self.load(&bundle, &engine(&sdk, cache, progress)?, progress)
    }

    /// Makes the component of what has been bundled.
    fn load(&self, bundle: &Path, engine: &Engine, progress: &dyn Progress) -> Result<Vec<u8>, BuildError> {
        progress.step(&format!("QuickJS loads {}", self.entry));
        let bytes = fs::read(bundle).map_err(BuildError::io("read", bundle))?;
        let failed = |error: &dyn std::fmt::Display| {
            BuildError::new(Code::BuildFailed, format_args!("{} cannot be loaded: {error}", self.entry))
                .hint("do less while the modules are loaded")
        };
        let bundle: Bundle = serde_json::from_slice(&bytes).map_err(|error| failed(&error))?;
        match engine.load(&bundle.code).map_err(|error| failed(&format_args!("{error:#}")))? {
            Ok(module) => component::encode_with(&module, &Sdk::Wit.file("guest.wit")),
            Err(thrown) => Err(BuildError::new(Code::BuildFailed, thrown::explain(&thrown, &bundle.lines))),
        }
    }

    /// Has a process of its own bundle it.
    fn bundle(&self, request: &Request, progress: &dyn Progress) -> Result<(), BuildError> {
        let mut tool = worker::tool(request.sdk);
        tool.arg(request.directory)
            .arg(request.entry)
            .arg("--sdk")
            .arg(request.sdk)
            .arg("-o")
            .arg(request.output)
            .current_dir(self.directory);
        let finished = command::run(&mut tool, None, |line| progress.detail(line))?;
        if finished.succeeded {
            return Ok(());
        }
        let lines: Vec<&str> = finished.tail.lines().collect();
        let at = lines.iter().rposition(|line| line.starts_with("error: "));
        Err(match at.and_then(|at| Some((lines[at].strip_prefix("error: ")?, &lines[..at]))) {
            Some((line, others)) => BuildError::new(Code::BuildFailed, line).output(others.join("\n")),
            None => BuildError::new(Code::BuildFailed, format_args!("{} cannot be bundled", self.entry))
                .hint("see the tool's output")
                .output(finished.tail),
        })
    }

    /// Has this process keep the tools, with what a build of this project loads.
    pub fn prepare(&self, cache: &Cache, progress: &dyn Progress) -> Result<(), BuildError> {
        let sdk = self.tools(cache, progress)?;
        worker::keep(&sdk)
            .map_err(|error| BuildError::new(Code::ToolchainMissing, format_args!("cannot run node: {error}")))?;
        self.build(cache, progress).map(drop)
    }

    /// What runs the project's `*.test.ts`, by Node's own runner.
    pub fn tests(&self, cache: &Cache, progress: &dyn Progress) -> Result<Command, BuildError> {
        let sdk = self.tools(cache, progress)?;
        let mut node = Command::new("node");
        node.arg(sdk.join("tools/test.mjs")).arg(self.directory).env_remove("NODE_OPTIONS").env_remove("NODE_PATH");
        Ok(node)
    }

    /// A directory with the SDK and, in `tools/node_modules`, the packages of its lock file.
    fn tools(&self, cache: &Cache, progress: &dyn Progress) -> Result<PathBuf, BuildError> {
        let sdk = Sdk::TypeScript.unpacked(cache)?;
        let lock = fs::read(sdk.join("tools/package-lock.json")).map_err(BuildError::io("read", &sdk))?;
        let key = Inputs::default().add("node", &self.node).add("lock", lock).digest();
        let _lock = cache.lock("typescript")?;
        let packages = cache.filled(&format!("typescript/tools-{}", &key[..16]), |target| {
            progress.step("npm installs esbuild and typescript");
            for file in ["package.json", "package-lock.json"] {
                let from = sdk.join("tools").join(file);
                fs::copy(&from, target.join(file)).map_err(BuildError::io("copy", &from))?;
            }
            let mut npm = Command::new("npm");
            // Not `ci`: it refuses a lock file without the packages for other machines, of which not all are to be had.
            npm.args([
                "install",
                "--no-save",
                "--no-audit",
                "--no-fund",
                "--no-update-notifier",
                "--ignore-scripts",
                // Without a network npm would try for minutes, and say nothing.
                "--fetch-retry-mintimeout=1000",
                "--fetch-retry-maxtimeout=5000",
                "--loglevel",
                "error",
            ])
            .env_remove("NODE_OPTIONS")
            .env_remove("NODE_ENV")
            .current_dir(target);
            let finished = command::run(&mut npm, None, |line| progress.detail(line))?;
            if finished.succeeded {
                return Ok(());
            }
            Err(installer::failed("npm", "the tools that make components of JavaScript", finished.tail))
        })?;
        // Packages are found from where the tools are; several versions of the SDK share them.
        let link = sdk.join("tools/node_modules");
        let modules = packages.join("node_modules");
        if fs::read_link(&link).ok().as_deref() != Some(&modules) {
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(&modules, &link).map_err(BuildError::io("link", &link))?;
        }
        Ok(sdk)
    }
}

/// What the tools make.
#[derive(Deserialize)]
struct Bundle {
    code: String,
    lines: Lines,
}

/// The engine of an SDK, compiled if it was not before: that takes some seconds.
fn engine(sdk: &Path, cache: &Cache, progress: &dyn Progress) -> Result<Engine, BuildError> {
    let path = sdk.join("engine/engine.wasm");
    let module = fs::read(&path).map_err(BuildError::io("read", &path))?;
    let compiled = cache.directory(COMPILED_CODE)?;
    let key = Inputs::default()
        .add("engine", &module)
        .add("wasmtime", styx_engine::WASMTIME_VERSION)
        .add("for", std::env::consts::ARCH)
        .digest();
    let directory = cache.filled(&format!("typescript/engine-{}", &key[..16]), |target| {
        progress.step("QuickJS is compiled, once");
        Engine::compile(&module, target, &compiled)
            .map_err(|error| BuildError::new(Code::BuildFailed, format_args!("QuickJS cannot be compiled: {error:#}")))
    })?;
    Ok(Engine::open(module, directory))
}

/// The version of Node.js, if it is new enough, and there is npm.
fn find_node() -> Result<String, BuildError> {
    let missing = |message: String| Err(BuildError::new(Code::ToolchainMissing, message).hint(NEEDED));
    let Some(version) = command::ask(Command::new("node").arg("--version").env_remove("NODE_OPTIONS")) else {
        return missing("there is no Node.js to build with".to_owned());
    };
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < NODE_MINIMUM) {
        return missing(format!("Node.js {version} is too old to build with"));
    }
    Ok(version)
}

/// Ends of files that are modules.
const ENDS: [&str; 4] = [".ts", ".mts", ".js", ".mjs"];

fn named_entry(directory: &Path, entry: &str) -> Result<String, BuildError> {
    let candidates = ENDS.iter().map(|end| format!("{entry}{end}"));
    let found = std::iter::once(entry.to_owned()).chain(candidates).find(|file| directory.join(file).is_file());
    found.ok_or_else(|| {
        BuildError::new(Code::BadProject, format_args!("the entry {entry:?} is not a file in {}", directory.display()))
            .hint(format_args!("write the module that declares the operators as `entry` in {FILE_NAME}"))
    })
}

/// The only module of a directory, or that of its name, or `app`, `main` or `index`, there or in `src`.
fn guess_entry(directory: &Path) -> Result<String, BuildError> {
    let own = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut all = Vec::new();
    for (folder, prefix) in [(directory.to_owned(), ""), (directory.join("src"), "src/")] {
        let modules = modules_of(&folder)?;
        if let [only] = modules.as_slice() {
            return Ok(format!("{prefix}{only}"));
        }
        let usual = [own.as_str(), "app", "main", "index"].into_iter().find_map(|name| {
            modules.iter().find(|module| ENDS.iter().any(|end| module.strip_suffix(end) == Some(name)))
        });
        if let Some(usual) = usual {
            return Ok(format!("{prefix}{usual}"));
        }
        all.extend(modules.into_iter().map(|module| format!("{prefix}{module}")));
    }
    let found = if all.is_empty() { "no module".to_owned() } else { format!("the modules {}", all.join(", ")) };
    Err(BuildError::new(
        Code::BadProject,
        format_args!("{} has {found}: which declares the operators?", directory.display()),
    )
    .hint(format_args!("write `entry = \"…\"` in {FILE_NAME}")))
}

/// Names of files that may be an app's, in order: not tests, declarations or settings of tools.
fn modules_of(directory: &Path) -> Result<Vec<String>, BuildError> {
    let mut modules = Vec::new();
    if !directory.is_dir() {
        return Ok(modules);
    }
    for entry in fs::read_dir(directory).map_err(BuildError::io("list", directory))? {
        let name = entry.map_err(BuildError::io("list", directory))?.file_name().to_string_lossy().into_owned();
        let Some(stem) = ENDS.iter().find_map(|end| name.strip_suffix(end)) else { continue };
        let is_other = [".d", ".test", ".spec", ".config"].iter().any(|end| stem.ends_with(end));
        if !is_other {
            modules.push(name);
        }
    }
    modules.sort_unstable();
    Ok(modules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    fn guess(files: &[&str]) -> Result<String, String> {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("my-shop");
        for file in files {
            let path = directory.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        guess_entry(&directory).map_err(|error| error.message.replace(&directory.display().to_string(), "my-shop"))
    }

    #[test]
    fn entries_are_guessed_if_unambiguous() {
        assert_eq!(guess(&["package.json", "cart.ts", "cart.test.ts", "vitest.config.ts"]), Ok("cart.ts".into()));
        assert_eq!(guess(&["package.json", "src/index.ts", "src/helper.ts", "src/a.d.ts"]), Ok("src/index.ts".into()));
        assert_eq!(guess(&["my-shop.js", "helper.js"]), Ok("my-shop.js".into()));
        assert_eq!(guess(&["main.mjs", "helper.mjs"]), Ok("main.mjs".into()));
        assert_eq!(
            guess(&["a.ts", "src/b.ts", "src/c.ts"]).as_deref(),
            Ok("a.ts"),
            "the only module beside the manifest"
        );
        assert_eq!(
            guess(&["a.ts", "b.ts"]),
            Err("my-shop has the modules a.ts, b.ts: which declares the operators?".into())
        );
        assert_eq!(guess(&["a.test.ts"]), Err("my-shop has no module: which declares the operators?".into()));
    }

    #[test]
    fn tools_that_stay_make_what_others_make() {
        let (cache, directory) = (Cache::of_user().unwrap(), tempfile::tempdir().unwrap());
        let write = |body: &str| {
            let text = format!(
                "import {{ operator, type int }} from \"styx-sdk\";\nexport const shop = operator(\"shop\", {{\n  sell(ctx, n: int): {body},\n}});\n"
            );
            fs::write(directory.path().join("shop.ts"), text).unwrap();
        };
        write("int { return n; }");
        let guest = TypeScriptGuest::open(directory.path(), None).unwrap();
        let sdk = guest.tools(&cache, &Silent).unwrap();
        let output = directory.path().join("out.json");
        let of = |sdk| Request { directory: directory.path(), entry: &guest.entry, sdk, output: &output };
        let alone = || guest.bundle(&of(&sdk), &Silent).map(|()| fs::read(&output).unwrap());
        // Another test's build may have it just now.
        let stayed = || {
            let answered = (0..1000).find_map(|_| {
                let answer = worker::build(&of(&sdk), |_| ());
                answer.is_none().then(|| std::thread::sleep(std::time::Duration::from_millis(20)));
                answer
            });
            match answered.expect("it is there and idle some time").error {
                None => Ok(fs::read(&output).unwrap()),
                Some(error) => Err(error),
            }
        };
        worker::keep(&sdk).unwrap();
        let mut made = Vec::new();
        // A union's members are told in an order, and what was there before is made again.
        for body in ["int { return n; }", "\"b\" | \"a\" | null { return n > 1 ? \"a\" : null; }", "int { return n; }"]
        {
            write(body);
            let (alone, stayed) = (alone().unwrap(), stayed().unwrap());
            assert!(alone == stayed, "{body}");
            made.push(stayed);
        }
        assert!(made[0] == made[2] && made[0] != made[1]);
        let component = guest.build(&cache, &Silent).unwrap();
        assert!(component == guest.build(&cache, &Silent).unwrap(), "there is no chance and no clock in it");
        write("string { return n; }");
        assert_eq!(stayed().unwrap_err(), alone().unwrap_err().message);
        write("int { return n + 1; }");
        assert!(stayed().unwrap() == alone().unwrap(), "it stays");

        let empty = directory.path().join("empty");
        worker::keep(&empty).unwrap();
        assert!(worker::build(&of(&empty), |_| ()).is_none(), "where it has gone, another builds");
        assert!(worker::build(&of(&empty), |_| ()).is_none());
    }

    #[test]
    fn an_entry_may_leave_out_its_end() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("cart.ts"), "").unwrap();
        assert_eq!(named_entry(directory.path(), "cart").unwrap(), "cart.ts");
        assert_eq!(named_entry(directory.path(), "cart.ts").unwrap(), "cart.ts");
        let error = named_entry(directory.path(), "shop").unwrap_err();
        assert_eq!(error.code, Code::BadProject);
        assert!(error.message.starts_with("the entry \"shop\" is not a file in "), "{error}");
    }
}
