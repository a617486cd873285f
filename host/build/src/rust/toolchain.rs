//! Finding a Rust toolchain that can build for `wasm32-unknown-unknown`.
//!
//! In order of preference: the one in the path if it has the target; the same after
//! `rustup target add`; the system's; and last either of them with `std` built from
//! its sources, once, which takes a minute or two.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::TARGET;
use crate::cache::{Cache, Inputs};
use crate::command;
use crate::error::{BuildError, Code};
use crate::progress::Progress;

/// How long `rustup` may try to get the target.
const RUSTUP_TIME: Duration = Duration::from_secs(90);
/// After a failure, how long it is not tried again.
const RUSTUP_PAUSE: Duration = Duration::from_secs(3600);
/// Oldest Rust that the SDK compiles with.
const MINIMUM: (u32, u32) = (1, 88);
/// Directory of a distribution's toolchain.
const SYSTEM: &str = "/usr/bin";

/// A toolchain that can build guests.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// What `rustc -vV` says, and how `std` is had: another text, another component.
    pub version: String,
    compiler: Compiler,
    standard_library: StandardLibrary,
}

/// A `rustc` with its `cargo`.
#[derive(Clone, Debug)]
struct Compiler {
    /// `None` for what the path has.
    directory: Option<PathBuf>,
    sysroot: PathBuf,
    version: String,
}

#[derive(Clone, Debug)]
enum StandardLibrary {
    Prebuilt,
    /// Compiled along with the guest.
    FromSource,
}

/// Linker of modules.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Linker {
    /// The toolchain's own.
    Own,
    /// One that the distribution has apart.
    System(PathBuf),
    None,
}

impl Toolchain {
    /// Finds one; `directory` matters because a crate may pin its toolchain.
    pub fn find(directory: &Path, cache: &Cache, progress: &dyn Progress) -> Result<Self, BuildError> {
        let (first, old) = Self::new_enough(Compiler::probe(None, directory));
        if let Some(compiler) = first.clone().filter(Compiler::has_target) {
            return Ok(Self::new(compiler, StandardLibrary::Prebuilt));
        }
        if let Some(compiler) = first.clone()
            && rustup_adds_target(directory, cache, progress)?
            && compiler.has_target()
        {
            return Ok(Self::new(compiler, StandardLibrary::Prebuilt));
        }
        let (system, old_system) = Self::new_enough(Compiler::probe(Some(Path::new(SYSTEM)), directory));
        if let Some(compiler) = system.clone().filter(Compiler::has_target) {
            return Ok(Self::new(compiler, StandardLibrary::Prebuilt));
        }
        for compiler in [system, first.clone()].into_iter().flatten() {
            if compiler.has_standard_library_sources() && compiler.linker() != Linker::None {
                return Ok(Self::new(compiler, StandardLibrary::FromSource));
            }
        }
        let old = old.or(old_system);
        Err(match (first, old) {
            (Some(_), _) => BuildError::new(Code::ToolchainMissing, format_args!("the Rust toolchain cannot build for {TARGET}"))
                .hint(format_args!("run `rustup target add {TARGET}`, or install the distribution's sources of Rust and lld (Debian: rust-src and lld)")),
            (None, Some(release)) => BuildError::new(Code::ToolchainMissing, format_args!("Rust {release} is too old to build with"))
                .hint(format_args!("install Rust {}.{} or newer: `rustup update`", MINIMUM.0, MINIMUM.1)),
            (None, None) => BuildError::new(Code::ToolchainMissing, "there is no Rust toolchain").hint("install one with rustup, or the distribution's cargo, rust-src and lld"),
        })
    }

    /// A compiler that will do; or the release of one that is too old.
    fn new_enough(compiler: Option<Compiler>) -> (Option<Compiler>, Option<String>) {
        let Some(compiler) = compiler else { return (None, None) };
        match compiler.release() {
            Some(release) if number(release) < MINIMUM => (None, Some(release.to_owned())),
            _ => (Some(compiler), None),
        }
    }

    fn new(compiler: Compiler, standard_library: StandardLibrary) -> Self {
        let how = match standard_library {
            StandardLibrary::Prebuilt => "prebuilt",
            StandardLibrary::FromSource => "from source",
        };
        // Cargo does not compile anew what only has other paths in it.
        let version = format!("{}\nstd: {how}\npaths: mapped", compiler.version);
        Self { version, compiler, standard_library }
    }

    /// Where it puts what it makes of all guests, so that they share what they depend on.
    pub fn target_directory(&self, cache: &Cache) -> Result<PathBuf, BuildError> {
        let name = &Inputs::default().add("version", &self.version).digest()[..16];
        cache.directory(Path::new("rust").join(format!("target-{name}")))
    }

    /// A cargo for guests.
    pub fn cargo(&self, directory: &Path, cache: &Cache) -> Result<Command, BuildError> {
        let mut cargo = self.compiler.tool("cargo", directory);
        cargo.env("CARGO_TARGET_DIR", self.target_directory(cache)?).env("CARGO_TERM_COLOR", "never");
        // Settings for the user's own machine, which would reach the guest too.
        for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "CARGO_BUILD_RUSTFLAGS"] {
            cargo.env_remove(name);
        }
        if let StandardLibrary::FromSource = self.standard_library {
            // Building std is an unstable feature of a stable compiler.
            cargo.env("RUSTC_BOOTSTRAP", "1").arg("-Zbuild-std=std,panic_abort");
        }
        if let Linker::System(linker) = self.compiler.linker() {
            cargo.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
        }
        if let Some(home) = self.own_home(cache)? {
            cargo.env("CARGO_HOME", home);
        }
        Ok(cargo)
    }

    /// Two versions of cargo should not share an index of crates.
    fn own_home(&self, cache: &Cache) -> Result<Option<PathBuf>, BuildError> {
        self.compiler.directory.as_ref().map(|_| cache.directory("rust/cargo-home")).transpose()
    }

    /// A setting of cargo's that keeps the machine's paths out of components: panics tell where they were. It stands after the
    /// command, as all of them must if one does.
    pub fn mapped_paths(&self, cache: &Cache) -> Result<String, BuildError> {
        let users =
            || std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(std::env::home_dir()?.join(".cargo")));
        let home = self.own_home(cache)?.or_else(users);
        let crates = home
            .iter()
            .flat_map(|home| [(home.join("registry/src"), "/crates"), (home.join("git/checkouts"), "/repositories")]);
        let std = (self.compiler.sysroot.join("lib/rustlib/src/rust"), "/rust");
        let mapped: Vec<String> = crates.chain([std]).map(|(from, to)| mapping(&from, to)).collect();
        Ok(format!("target.{TARGET}.rustflags=[{}]", mapped.join(", ")))
    }
}

/// An argument for rustc, as TOML has it.
fn mapping(from: &Path, to: &str) -> String {
    toml::Value::from(format!("--remap-path-prefix={}={to}", from.display())).to_string()
}

impl Compiler {
    /// Asks for a compiler's version; `None` if there is none.
    fn probe(tools: Option<&Path>, directory: &Path) -> Option<Self> {
        let mut compiler =
            Self { directory: tools.map(Path::to_owned), sysroot: PathBuf::new(), version: String::new() };
        compiler.sysroot = PathBuf::from(command::ask(compiler.tool("rustc", directory).args(["--print", "sysroot"]))?);
        // Past rustup's proxy, which takes longer than the answer.
        let rustc = compiler.sysroot.join("bin/rustc");
        compiler.version = command::ask(Command::new(rustc).arg("-vV"))?;
        Some(compiler)
    }

    fn tool(&self, name: &str, directory: &Path) -> Command {
        let mut command = match &self.directory {
            None => Command::new(name),
            Some(tools) => {
                let mut command = Command::new(tools.join(name));
                // Cargo finds rustc by the path, which may start with another toolchain.
                let path = [tools.as_os_str().to_owned(), OsString::from("/bin")].join(&OsString::from(":"));
                command.env("PATH", path).env_remove("RUSTUP_TOOLCHAIN");
                command
            }
        };
        for name in ["RUSTC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO"] {
            command.env_remove(name);
        }
        command.current_dir(directory);
        command
    }

    fn has_target(&self) -> bool {
        let libraries = self.sysroot.join("lib/rustlib").join(TARGET).join("lib");
        fs::read_dir(libraries).is_ok_and(|mut entries| entries.next().is_some())
    }

    fn has_standard_library_sources(&self) -> bool {
        self.sysroot.join("lib/rustlib/src/rust/library/std/Cargo.toml").is_file()
    }

    fn release(&self) -> Option<&str> {
        self.version.lines().find_map(|line| line.strip_prefix("release: "))
    }

    fn linker(&self) -> Linker {
        let host = self.version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        if self.sysroot.join("lib/rustlib").join(host).join("bin/rust-lld").is_file() {
            return Linker::Own;
        }
        // Distributions number their linkers: wasm-ld-22.
        let linkers = fs::read_dir(SYSTEM).into_iter().flatten().filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let version = name.strip_prefix("wasm-ld")?.trim_start_matches('-').parse::<u32>();
            (version.is_ok() || name == "wasm-ld").then(|| (version.unwrap_or(u32::MAX), Path::new(SYSTEM).join(&name)))
        });
        linkers.max().map_or(Linker::None, |(_, linker)| Linker::System(linker))
    }
}

/// The first two numbers of a release.
fn number(release: &str) -> (u32, u32) {
    let mut numbers = release.split('.').map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Lets rustup get the target; false if there is no rustup, or it fails, or failed not long ago.
fn rustup_adds_target(directory: &Path, cache: &Cache, progress: &dyn Progress) -> Result<bool, BuildError> {
    let failure = cache.directory("rust")?.join("rustup-failed");
    let failed_at = fs::metadata(&failure).and_then(|metadata| metadata.modified()).ok();
    if failed_at.and_then(|at| SystemTime::now().duration_since(at).ok()).is_some_and(|ago| ago < RUSTUP_PAUSE) {
        return Ok(false);
    }
    if command::ask(Command::new("rustup").arg("--version").current_dir(directory)).is_none() {
        return Ok(false);
    }
    progress.step(&format!("rustup gets the target {TARGET}"));
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", TARGET]).current_dir(directory);
    let finished = command::run(&mut rustup, Some(RUSTUP_TIME), |line| progress.detail(line))?;
    if !finished.succeeded {
        fs::write(&failure, finished.tail).map_err(BuildError::io("write", &failure))?;
    }
    Ok(finished.succeeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_the_sdk_takes_is_too_old() {
        let found = |release: &str| {
            let version = format!("rustc {release}\nhost: x\nrelease: {release}\nLLVM version: 1");
            let compiler = Compiler { directory: None, sysroot: PathBuf::new(), version };
            let (compiler, old) = Toolchain::new_enough(Some(compiler));
            (compiler.is_some(), old)
        };
        assert_eq!(found("1.60.0"), (false, Some("1.60.0".to_owned())));
        assert_eq!(found("1.88.0"), (true, None));
        assert_eq!(found("2.0.0-nightly"), (true, None));
        let (major, minor) = MINIMUM;
        let said = format!("rust-version = \"{major}.{minor}\"");
        assert!(crate::sdk::Sdk::Rust.file("Cargo.toml").contains(&said), "{said}");
    }
}
