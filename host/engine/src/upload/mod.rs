//! Checking an upload, cheapest first: size, what it is, bounds, validity, imports and exports;
//! only then is it compiled, linked, and asked what it implements.

mod bounds;
mod contract;
mod describe;
mod error;

use std::panic::AssertUnwindSafe;

use styx_protocol::deployment::{Digest, OperatorSpec};

pub use bounds::COMPONENT_BYTES_MAX;
pub use error::{UploadCode, UploadError};

use crate::artifact;
use crate::compiler::{self, CompileError};
use crate::component::LinkedComponent;
use crate::config;
use crate::engine::Engine;
use crate::imports;

/// A component that may be deployed.
#[derive(Clone, Debug)]
pub struct CheckedComponent {
    /// Its content address.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// Linear memory in bytes that an instance takes before its first call: limits below it are of no use.
    pub memory: u64,
    /// The SDK that made it, as it says itself.
    pub sdk: String,
    /// The operators that it implements; `component` is 0 in each, for the caller to set in a bundle.
    pub operators: Vec<OperatorSpec>,
}

impl Engine {
    /// Checks a component and compiles it into the cache. Blocks for up to seconds: call it on a
    /// thread for blocking work. Does not load it: see [`Engine::load`].
    pub fn check_upload(&self, bytes: &[u8]) -> Result<CheckedComponent, UploadError> {
        if bytes.len() > COMPONENT_BYTES_MAX {
            return Err(UploadError::new(
                UploadCode::TooLarge,
                format!(
                    "the component has {} MiB, and at most {} are allowed",
                    bytes.len() >> 20,
                    COMPONENT_BYTES_MAX >> 20
                ),
                "leave out debug information and packages that are not needed",
            ));
        }
        contract::check_encoding(bytes)?;
        bounds::check(bytes)?;
        validate(bytes)?;
        contract::check_names(bytes)?;
        let digest = artifact::digest(bytes);
        let component = self.compile(digest, bytes).map_err(refused)?;
        // `describe` calls no imports that may wait for other workers.
        let linker = |wasi| imports::linker(self.wasmtime(), wasi, false);
        let linked = LinkedComponent::link(&component, digest, linker).map_err(|error| {
            let message = compiler::one_line(&error);
            if error.is::<crate::component::TooManyParts>() {
                UploadError::new(
                    UploadCode::TooComplex,
                    message,
                    "leave parts out, or split it into several components",
                )
            } else {
                UploadError::new(
                    UploadCode::ForeignImport,
                    format!("the component's imports are not those of the contract: {message}"),
                    "build it with the SDK of this version, for the world styx:guest/function@0.2.0",
                )
            }
        })?;
        let described = {
            let _one_at_a_time = self.describing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            describe::describe(&linked)?
        };
        let describe::Described { sdk, operators, memory } = described;
        Ok(CheckedComponent { digest, size: bytes.len() as u64, memory, sdk, operators })
    }
}

/// Full validation, with the proposals in use.
fn validate(bytes: &[u8]) -> Result<(), UploadError> {
    let invalid = |message: String| {
        UploadError::new(
            UploadCode::CompileFailed,
            format!("the component is not valid: {message}"),
            "build it again with the current SDK",
        )
    };
    let mut validator = wasmparser::Validator::new_with_features(config::FEATURES);
    // A validator that panics on hostile input must not take the server along.
    match std::panic::catch_unwind(AssertUnwindSafe(|| validator.validate_all(bytes))) {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(invalid(error.to_string())),
        Err(_) => Err(invalid("the validator failed on it".into())),
    }
}

fn refused(error: CompileError) -> UploadError {
    match error {
        CompileError::Refused(message) => {
            UploadError::new(UploadCode::CompileFailed, message, "build it again with the current SDK")
        }
        CompileError::TooCostly(message) => UploadError::new(
            UploadCode::TooComplex,
            message,
            "split it into smaller components, or leave generated code out",
        ),
        CompileError::Host(message) => {
            UploadError::new(UploadCode::HostFailure, message, "see the server's log, and try again")
        }
    }
}
