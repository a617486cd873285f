//! Compiling in a child process: untrusted code may cost time and memory there, bounded by the
//! kernel, without hurting the server.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use crate::artifact::FUNCTIONS;
use crate::config::{self, Purpose};
use crate::functions::Functions;

/// The place where components are compiled.
#[derive(Clone, Debug, Default)]
pub enum Compiler {
    /// Here, without bounds on time and memory: for tests and for code of one's own.
    #[default]
    InProcess,
    /// In a child process under limits: this program, called as `program __compile …`; its main
    /// function hands over to [`crate::compile_child_main`].
    Child(PathBuf),
}

/// Why a component does not compile.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompileError {
    /// wasmtime refuses it.
    #[error("{0}")]
    Refused(String),
    /// It takes too much time or memory to compile, or too much room to run.
    #[error("{0}")]
    TooCostly(String),
    /// The host cannot compile.
    #[error("cannot compile here: {0}")]
    Host(String),
}

/// First argument of the child.
pub const COMPILE_ARGUMENT: &str = "__compile";

/// Processor time that compiling one component may take, all threads together.
const CPU_SECONDS_MAX: u64 = 90;

/// Address space of the compiling process.
const ADDRESS_SPACE_MAX: u64 = 4 << 30;

/// Exit status of a child whose component wasmtime refused.
const REFUSED: u8 = 3;

/// Runs the child and waits for it.
pub(crate) fn run_child(program: &Path, component: &Path, code: &Path, functions: &Path) -> Result<(), CompileError> {
    let output = Command::new(program)
        .arg(COMPILE_ARGUMENT)
        .arg(component)
        .arg(code)
        .arg(functions)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| CompileError::Host(format!("{}: {error}", program.display())))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or_default().chars().take(1000).collect::<String>();
    match output.status.code() {
        Some(0) => Ok(()),
        Some(status) if status == i32::from(REFUSED) => Err(CompileError::Refused(said)),
        Some(status) => Err(CompileError::Host(format!("the compiler ended with status {status}: {said}"))),
        // A signal: out of processor time, or out of address space (the allocator aborts).
        None => Err(CompileError::TooCostly(format!(
            "compiling it takes more than {CPU_SECONDS_MAX} s of processor time or {} GiB of memory",
            ADDRESS_SPACE_MAX >> 30
        ))),
    }
}

/// A component, compiled in this process and without bounds, for whoever builds components and runs them while he does; and by the
/// same compiler, so that an upload of what is built finds its functions compiled, where `cache_dir` is that of the server.
///
/// # Errors
/// If the component does not compile.
pub fn compile_for_build(component: &[u8], cache_dir: &Path) -> Result<Vec<u8>, String> {
    compile(component, &cache_dir.join(FUNCTIONS)).map_err(|error| error.to_string())
}

/// The same of a core module.
///
/// # Errors
/// As of a component.
pub fn compile_module_for_build(module: &[u8], cache_dir: &Path) -> Result<Vec<u8>, String> {
    compile_with(&cache_dir.join(FUNCTIONS), |engine| engine.precompile_module(module))
        .map_err(|error| error.to_string())
}

/// What runs that, without a pool.
///
/// # Errors
/// If the host cannot run WebAssembly.
pub fn engine_for_build() -> Result<wasmtime::Engine, String> {
    wasmtime::Engine::new(&config::wasmtime_config(Purpose::Compile)).map_err(|error| one_line(&error))
}

/// Compiles a component, in this process; what is in the directory of compiled functions need not be compiled.
pub(crate) fn compile(component: &[u8], functions: &Path) -> Result<Vec<u8>, CompileError> {
    compile_with(functions, |engine| engine.precompile_component(component))
}

fn compile_with(
    functions: &Path,
    precompile: impl FnOnce(&wasmtime::Engine) -> wasmtime::Result<Vec<u8>>,
) -> Result<Vec<u8>, CompileError> {
    let functions = Arc::new(Functions::open(functions));
    let host = |error: wasmtime::Error| CompileError::Host(one_line(&error));
    let mut config = config::wasmtime_config(Purpose::Compile);
    config.enable_incremental_compilation(functions.clone()).map_err(host)?;
    let engine = wasmtime::Engine::new(&config).map_err(host)?;
    let code = precompile(&engine).map_err(|error| CompileError::Refused(one_line(&error)))?;
    if let Err(error) = functions.keep() {
        // The next compilation takes longer.
        tracing::warn!("compiled functions cannot be kept: {error}");
    }
    Ok(code)
}

/// The main function of the child: `program __compile COMPONENT CODE FUNCTIONS`. Call it when the first
/// argument is [`COMPILE_ARGUMENT`].
pub fn compile_child_main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(2).collect();
    let [component, code, functions] = &arguments[..] else {
        eprintln!("usage: {COMPILE_ARGUMENT} COMPONENT CODE FUNCTIONS (called by the server itself)");
        return ExitCode::from(2);
    };
    for (resource, limit) in
        [(libc::RLIMIT_CPU, CPU_SECONDS_MAX), (libc::RLIMIT_AS, ADDRESS_SPACE_MAX), (libc::RLIMIT_CORE, 0)]
    {
        if let Err(error) = lower_limit(resource, limit) {
            eprintln!("cannot set limits for the compiler: {error}");
            return ExitCode::from(1);
        }
    }
    // Executing transactions goes before compiling. Should that not be granted, no harm is done.
    // SAFETY: a system call on this process with plain numbers.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
    let compiled = std::fs::read(component).map_err(|error| (1, error.to_string())).and_then(|bytes| {
        compile(&bytes, Path::new(functions))
            .map_err(|error| (if matches!(error, CompileError::Refused(_)) { REFUSED } else { 1 }, error.to_string()))
    });
    let written = compiled.and_then(|bytes| write(Path::new(code), &bytes).map_err(|error| (1, error.to_string())));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err((status, message)) => {
            eprintln!("{message}");
            ExitCode::from(status)
        }
    }
}

/// Lowers a limit of this process; one that is lower already stays.
fn lower_limit(resource: libc::__rlimit_resource_t, limit: u64) -> std::io::Result<()> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit writes the struct that it is given, and nothing else.
    if unsafe { libc::getrlimit(resource, &mut now) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    let limit = limit.min(now.rlim_cur).min(now.rlim_max);
    let lowered = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: setrlimit reads the struct that it is given, and nothing else.
    match unsafe { libc::setrlimit(resource, &lowered) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Writes a file to the disk, not only to the cache of the system.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// An error and its causes in one line.
pub(crate) fn one_line(error: &wasmtime::Error) -> String {
    format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ")
}
