//! Guests for benchmarks inside one process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use sha2::Digest as _;
use styx_build::{self, Bundle, BundleLimits, Silent};
use styx_engine::{Compiler, Determinism, Engine, EngineOptions};
use styx_protocol::catalog::Digest;

/// An engine with one component loaded.
pub struct Guest {
    /// The engine.
    pub engine: Arc<Engine>,
    /// The component.
    pub digest: Digest,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Builds the guest in `source`, and puts its component into a file in `directory`.
pub fn build(source: &Path, directory: &Path) -> anyhow::Result<PathBuf> {
    let bundle = directory.join("bundle.zip");
    styx_build::build(source, &bundle, &Silent).map_err(|error| anyhow::anyhow!("{error}"))?;
    let bundle =
        Bundle::read(&std::fs::read(bundle)?, &BundleLimits::default()).map_err(|error| anyhow::anyhow!("{error}"))?;
    let bytes = bundle.components.values().next().context("the bundle has a component")?;
    let file = directory.join("component.wasm");
    std::fs::write(&file, bytes)?;
    Ok(file)
}

/// A component's name in the catalog.
pub fn digest(component: &[u8]) -> Digest {
    Digest(sha2::Sha256::digest(component).into())
}

/// Builds the guest in `source` and loads it into an engine of its own.
pub fn load(source: &Path, directory: &Path, executors: usize) -> anyhow::Result<Guest> {
    let file = build(source, directory)?;
    let bytes = std::fs::read(&file)?;
    let digest = digest(&bytes);
    let options = EngineOptions {
        cache_dir: directory.join("cache"),
        determinism: Determinism::Off,
        executors,
        compiler: Compiler::InProcess,
        cluster: None,
    };
    let engine = Engine::new(options)?;
    engine.load(digest, &file)?;
    Ok(Guest { engine, digest, bytes })
}
