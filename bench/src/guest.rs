//! Guests for benchmarks inside one process.

use std::path::{Path, PathBuf};

use anyhow::Context;
use sha2::Digest as _;
use styx_build::{self, Bundle, BundleLimits, Silent};
use styx_protocol::deployment::Digest;

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
