//! Rust guests: cargo makes a core module, which then becomes a component.
//!
//! All guests of a toolchain share one target directory in the cache, so that `std`
//! and the SDK are compiled once. The crate needs no `crate-type`, and gets the SDK
//! that this binary carries unless it says by itself where its SDK is.

mod manifests;
mod toolchain;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::cache::{self, Cache, Inputs};
use super::command;
use super::component;
use super::error::{BuildError, Code};
use super::progress::Progress;
use super::sdk::Sdk;
pub use manifests::Manifests;
use toolchain::Toolchain;

const TARGET: &str = "wasm32-unknown-unknown";

/// Used when a crate's workspace has no release profile of its own. Names stay in,
/// for the backtraces of traps.
const PROFILE: [&str; 4] = [
    "profile.release.opt-level=3",
    "profile.release.lto=true",
    "profile.release.codegen-units=1",
    "profile.release.strip=\"debuginfo\"",
];

/// What runs the crate's tests, on this machine's processor, with the SDK that this binary carries.
pub fn tests(directory: &Path, cache: &Cache) -> Result<Command, BuildError> {
    let manifests = Manifests::read(directory)?;
    let mut cargo = Command::new("cargo");
    cargo.arg("test");
    if !manifests.has_own_sdk {
        cargo.args(["--config", &patch(&Sdk::Rust.unpacked(cache)?)]);
    }
    Ok(cargo)
}

/// Has cargo find the SDK in a directory.
fn patch(sdk: &Path) -> String {
    format!("patch.crates-io.styx-sdk.path={}", toml::Value::from(&*sdk.to_string_lossy()))
}

/// The SDK by a link in the workspace, where only what is built lies: cargo digests paths in a workspace as they are from its
/// top, and any other whole, so that another user's component would be another one.
fn within(root: &Path, sdk: PathBuf) -> PathBuf {
    let at = root.join("target").join("styx-sdk");
    let linked = fs::create_dir_all(root.join("target")).and_then(|()| cache::link(&at, &sdk));
    // Where nothing may be written, a component is built all the same.
    if linked.is_ok() { at } else { sdk }
}

/// A Rust guest about to be built.
pub struct RustGuest<'a> {
    directory: &'a Path,
    manifests: Manifests,
    toolchain: Toolchain,
}

impl<'a> RustGuest<'a> {
    /// Reads the crate's manifests and finds a toolchain for it.
    pub fn open(
        directory: &'a Path,
        entry: Option<&str>,
        cache: &Cache,
        progress: &dyn Progress,
    ) -> Result<Self, BuildError> {
        let manifests = Manifests::read(directory)?;
        if let Some(entry) = entry
            && entry != manifests.package
        {
            return Err(BuildError::new(
                Code::BadProject,
                format_args!("the entry {entry:?} is not the crate in {}", directory.display()),
            )
            .hint(format_args!("the crate is called {:?}; the entry may be left out", manifests.package)));
        }
        let toolchain = Toolchain::find(directory, cache, progress)?;
        Ok(Self { directory, manifests, toolchain })
    }

    /// Adds all that the component depends on.
    pub fn add_inputs(&self, inputs: &mut Inputs) -> Result<(), BuildError> {
        inputs.add("toolchain", &self.toolchain.version);
        if !self.manifests.has_own_sdk {
            inputs.add("sdk", Sdk::Rust.digest());
        }
        for path in &self.manifests.inputs {
            inputs.add_path(path)?;
        }
        Ok(())
    }

    /// Builds the component.
    pub fn build(&self, cache: &Cache, progress: &dyn Progress) -> Result<Vec<u8>, BuildError> {
        let manifest = self.directory.join("Cargo.toml");
        let mut cargo = self.toolchain.cargo(self.directory, cache)?;
        cargo
            .args(["rustc", "--lib", "--crate-type", "cdylib", "--release", "--target", TARGET])
            .args(["--message-format", "json-render-diagnostics", "--manifest-path"])
            .arg(&manifest)
            .args(["--config", &self.toolchain.mapped_paths(cache)?]);
        if !self.manifests.has_own_sdk {
            cargo.args(["--config", &patch(&within(&self.manifests.root, Sdk::Rust.unpacked(cache)?))]);
        }
        if !self.manifests.has_profile {
            cargo.args(PROFILE.iter().flat_map(|setting| ["--config", setting]));
        }
        // A crate of the same name writes to the same file, and cargo takes what is there for this one's if it has built
        // this one before: nobody else builds meanwhile, and what others have made is gone.
        let _lock = cache.lock("rust")?;
        forget_modules(&self.toolchain.target_directory(cache)?.join(TARGET).join("release"))?;
        progress.step(&format!("cargo builds {}", self.manifests.package));
        let (mut finished, first) = command::run_noting(&mut cargo, progress, error_in)?;
        if !finished.succeeded && is_cut_off(&finished.tail) {
            // What has no Cargo.lock asks for newer crates, though those that are there would do.
            progress.step(&format!("cargo builds {} without a network", self.manifests.package));
            let (again, _) = command::run_noting(cargo.arg("--offline"), progress, error_in)?;
            if again.succeeded {
                finished = again;
            }
        }
        if !finished.succeeded {
            return Err(explain(&self.manifests.package, first.as_deref(), finished.tail));
        }
        let Some(module) = module_of(&finished.stdout, &manifest) else {
            return Err(BuildError::new(
                Code::BuildFailed,
                format_args!("cargo made no module of {}", self.manifests.package),
            )
            .output(finished.tail));
        };
        let module = fs::read(&module).map_err(BuildError::io("read", Path::new(&module)))?;
        component::encode(&module)
    }
}

/// Why a package does not compile, as cargo's first error, if it is a line without a place, and the end of its output say.
fn explain(package: &str, first: Option<&str>, tail: String) -> BuildError {
    let error = |message: String| BuildError::new(Code::BuildFailed, message);
    if let Some((place, what)) = first_error(&tail) {
        let error = error(format!("{place}: {what}"));
        let own = error.hint(if Path::new(place).is_absolute() {
            "a crate that it depends on does not compile for a component: take other features of it, or another one"
        } else {
            "mend it there; cargo's output says more"
        });
        return own.output(tail);
    }
    let script = first.and_then(|line| line.split_once("custom build command for `")?.1.split(['`', ' ']).next());
    let error = if tail.contains("no library targets found") {
        error(format!("{package} does not compile")).hint("a guest is a library: put its code into src/lib.rs")
    } else if let Some(script) = script {
        error(format!("the crate {script} does not build: its build script fails"))
            .hint("a component takes crates in pure Rust, without C; cargo's output says more")
    } else if is_cut_off(&tail) {
        error(format!("cargo does not reach where the crates are that {package} depends on"))
            .hint("build once with a network, what was downloaded is kept; see cargo's output")
    } else if let Some(line) = first {
        let cause = if line.starts_with("failed to parse manifest") { root_cause(&tail) } else { None };
        error(format!("Cargo.toml: {}", cause.unwrap_or(line))).hint("mend it there; cargo's output says more")
    } else {
        error(format!("{package} does not compile")).hint("see cargo's output")
    };
    error.output(tail)
}

/// What is wrong, if a line of cargo's says so and has no place.
fn error_in(line: &str) -> Option<&str> {
    line.strip_prefix("error: ")
}

/// Whether cargo says that it does not reach what it would download.
fn is_cut_off(tail: &str) -> bool {
    tail.contains("download of ") || tail.contains("failed to download") || tail.contains("network")
}

/// What cargo says at last of the causes of its error.
fn root_cause(tail: &str) -> Option<&str> {
    let (_, causes) = tail.rsplit_once("Caused by:")?;
    causes.lines().map(str::trim).find(|line| !line.is_empty())
}

/// The first error that the compiler has a place for: `src/lib.rs:3:5`, and what is wrong there.
fn first_error(tail: &str) -> Option<(&str, &str)> {
    let mut what = None;
    for line in tail.lines().map(str::trim_start) {
        if line.starts_with("error") {
            what = line.split_once(": ").map(|(_, what)| what.trim());
        } else if let (Some(what), Some(place)) = (what, line.strip_prefix("--> ")) {
            return Some((place.trim(), what));
        } else if line.starts_with("warning") {
            what = None;
        }
    }
    None
}

/// A line of cargo's machine-readable output, as far as it matters here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    target: Option<Target>,
    #[serde(default)]
    filenames: Vec<String>,
    #[serde(default)]
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Target {
    crate_types: Vec<String>,
}

/// Deletes the modules that builds have left here; what they were linked from stays.
fn forget_modules(release: &Path) -> Result<(), BuildError> {
    for directory in [release, &release.join("deps")] {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(BuildError::io("read", directory)(error)),
        };
        for entry in entries {
            let path = entry.map_err(BuildError::io("read", directory))?.path();
            if path.extension().is_some_and(|extension| extension == "wasm") {
                fs::remove_file(&path).map_err(BuildError::io("remove", &path))?;
            }
        }
    }
    Ok(())
}

/// The module that cargo reports to have made of the crate with this manifest.
fn module_of(stdout: &str, manifest: &Path) -> Option<String> {
    let messages = stdout.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let made = messages.filter(|message| {
        message.reason == "compiler-artifact"
            && message.target.as_ref().is_some_and(|target| target.crate_types.iter().any(|kind| kind == "cdylib"))
            && message.manifest_path == manifest
    });
    made.flat_map(|message| message.filenames).find(|name| name.ends_with(".wasm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_is_found_among_the_messages() {
        let stdout = r#"
            {"reason":"compiler-artifact","manifest_path":"/x/serde/Cargo.toml","target":{"crate_types":["lib"]},"filenames":["/t/libserde.rlib"]}
            {"reason":"compiler-artifact","manifest_path":"/x/order/Cargo.toml","target":{"crate_types":["cdylib","rlib"]},"filenames":["/t/order.wasm"]}
            {"reason":"compiler-artifact","manifest_path":"/x/stock/Cargo.toml","target":{"crate_types":["cdylib"]},"filenames":["/t/stock.d","/t/stock.wasm"]}
            {"reason":"build-finished","success":true}"#;
        assert_eq!(module_of(stdout, Path::new("/x/stock/Cargo.toml")).as_deref(), Some("/t/stock.wasm"));
        assert_eq!(module_of("warning: not json", Path::new("/x/stock/Cargo.toml")), None);
    }

    #[test]
    fn what_has_no_place_in_the_sources_is_said_in_one_line() {
        let said = |first, tail: &str| explain("bank", first, tail.to_owned()).to_string();
        assert_eq!(
            said(Some("no matching package named `nope` found"), "error: no matching package named `nope` found"),
            "BUILD_FAILED: Cargo.toml: no matching package named `nope` found; mend it there; cargo's output says more"
        );
        assert_eq!(
            said(Some("failed to run custom build command for `libz-sys v1.1.2`"), "  CFLAGS = None"),
            "BUILD_FAILED: the crate libz-sys does not build: its build script fails; a component takes crates in pure Rust, without C; cargo's output says more"
        );
        assert_eq!(
            said(Some("failed to get `serde` as a dependency"), "Caused by:\n  download of config.json failed"),
            "BUILD_FAILED: cargo does not reach where the crates are that bank depends on; build once with a network, what was downloaded is kept; see cargo's output"
        );
        assert_eq!(
            said(Some("no wasm"), "error: no wasm\n  --> /x/getrandom/src/lib.rs:4:1"),
            "BUILD_FAILED: /x/getrandom/src/lib.rs:4:1: no wasm; a crate that it depends on does not compile for a component: take other features of it, or another one"
        );
        assert_eq!(
            said(
                Some("failed to parse manifest at `/x/Cargo.toml`"),
                "error: failed to parse manifest at `/x/Cargo.toml`\n\nCaused by:\n  can't find library `bank`, rename file to `src/lib.rs` or specify lib.path"
            ),
            "BUILD_FAILED: Cargo.toml: can't find library `bank`, rename file to `src/lib.rs` or specify lib.path; mend it there; cargo's output says more"
        );
        assert_eq!(said(None, "killed"), "BUILD_FAILED: bank does not compile; see cargo's output");
    }

    #[test]
    fn the_first_error_has_a_place() {
        let said = "  warning: unused variable: `x`\n   --> src/lib.rs:1:1\n  error[E0308]: mismatched types\n    --> src/lib.rs:15:12\n     |\n  error: could not compile";
        assert_eq!(first_error(said), Some(("src/lib.rs:15:12", "mismatched types")));
        assert_eq!(first_error("error: failed to select a version: for `x`\n    ... required by"), None);
    }
}
