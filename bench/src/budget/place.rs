//! Where instructions were counted, as far as their number depends on it.

use std::ffi::CStr;
use std::process::Command;

use anyhow::{Context, ensure};

/// Compiler, processor, C library and instrument of here, in one line.
pub fn here(valgrind: &str) -> anyhow::Result<String> {
    let said = Command::new("rustc").arg("--version").output().context("asking rustc for its version")?;
    ensure!(said.status.success(), "NO_COMPILER: `rustc --version` failed");
    let rustc = String::from_utf8(said.stdout).context("rustc's version")?;
    Ok(format!("{}, {}, {}, {valgrind}", rustc.trim(), processor(), library()))
}

fn processor() -> String {
    let architecture = std::env::consts::ARCH;
    // The instrument knows nothing newer than AVX2, and passes on what the processor has of the rest.
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return format!("{architecture} with AVX2");
    }
    architecture.to_owned()
}

fn library() -> String {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: it returns a static string.
        let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
        return format!("glibc {}", version.to_string_lossy());
    }
    #[cfg(not(target_env = "gnu"))]
    "another C library".to_owned()
}
