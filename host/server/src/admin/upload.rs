//! From uploaded bytes to a deployment that may be sequenced: bytes that anyone may have sent.
//! Everything here blocks.

use std::collections::BTreeMap;
use std::time::SystemTime;

use axum::http::{HeaderMap, StatusCode, header};
use styx_durability::components::Components;
use styx_engine::{Engine, UploadError};
use styx_protocol::abort::{Abort, Code as AbortCode};
use styx_protocol::deployment::{Component, Consistency, Deployment, Digest, Isolation, Limits, OperatorSpec};
use styx_protocol::ids::Timestamp;
use styx_protocol::interface::Interface;

use super::agreements;
use crate::components::ComponentStore;
use crate::gateway::check_schemas;
use crate::http::{ApiError, HttpOptions, nearest::suggestion, shorten};
use styx_build::error::Code;
use styx_build::manifest::{self, Manifest, check_name};
use styx_build::{BuildError, Bundle};

/// Kind of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Component,
    /// A zip of `styx.toml` and components.
    Bundle,
    /// A `styx.toml` by itself, to be checked before what it is of is built.
    Manifest,
}

impl Kind {
    /// Reads the kind from the headers.
    ///
    /// # Errors
    /// 415 if it is neither.
    pub fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let given = headers.get(header::CONTENT_TYPE).map_or("", |value| value.to_str().unwrap_or("?"));
        match given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "application/wasm" => Ok(Kind::Component),
            "application/zip" => Ok(Kind::Bundle),
            "application/toml" => Ok(Kind::Manifest),
            _ => Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UNSUPPORTED_MEDIA_TYPE",
                format!("Content-Type is \"{}\"", shorten(given)),
            )
            .hint("send a component as application/wasm, a bundle as application/zip, or a manifest to be checked as application/toml")),
        }
    }
}

/// An upload that was checked.
#[derive(Debug)]
pub struct Upload {
    /// The version of the app that it makes.
    pub deployment: Deployment,
    /// SHA-256 of the uploaded bytes.
    pub digest: Digest,
    /// The bytes of its components, in the deployment's order.
    components: Vec<Vec<u8>>,
}

/// Checks a manifest of an app whose components are not there yet, so far as that goes. Gives what it imports.
pub fn check_manifest(options: &HttpOptions, app: &str, bytes: &[u8]) -> Result<Interface, ApiError> {
    check_name("an app", app).map_err(refused_bundle)?;
    let text = std::str::from_utf8(bytes).map_err(|_| refused("styx.toml is no text".into(), "save it as UTF-8"))?;
    let manifest = Manifest::parse(text).map_err(refused_bundle)?;
    limits(&manifest.limits, &options.limits_max)?;
    Ok(Interface { exports: Vec::new(), imports: agreements::imports(&manifest) })
}

impl Upload {
    /// Checks everything about an upload that does not depend on what is deployed.
    pub fn check(
        engine: &Engine,
        options: &HttpOptions,
        app: &str,
        kind: Kind,
        bytes: &[u8],
    ) -> Result<Self, ApiError> {
        check_name("an app", app).map_err(refused_bundle)?;
        let bundle = match kind {
            Kind::Bundle => Bundle::read(bytes, &options.bundle).map_err(refused_bundle)?,
            Kind::Component | Kind::Manifest => {
                Bundle { manifest: Manifest::default(), components: [(app.to_owned(), bytes.to_vec())].into() }
            }
        };
        let limits = limits(&bundle.manifest.limits, &options.limits_max)?;
        let mut components = Vec::new();
        let mut operators: BTreeMap<String, OperatorSpec> = BTreeMap::new();
        for (index, (name, bytes)) in bundle.components.iter().enumerate() {
            let checked = engine.check_upload(bytes).map_err(|error| refused_component(name, kind, &error))?;
            if checked.memory > limits.memory {
                return Err(refused(
                    format!(
                        "limits.memory is {} bytes, and component \"{name}\" takes {} before its first call",
                        limits.memory, checked.memory
                    ),
                    "raise it in styx.toml; what the functions need comes on top",
                ));
            }
            components.push(Component {
                name: name.clone(),
                digest: checked.digest,
                size: checked.size,
                sdk: checked.sdk,
            });
            for mut operator in checked.operators {
                check_schemas(&operator).map_err(|why| {
                    ApiError::new(StatusCode::BAD_REQUEST, "BAD_SCHEMA", why)
                        .hint("patterns may not look around or refer back, and references may not leave the schema")
                })?;
                operator.component = index as u32;
                operator.isolation =
                    match bundle.manifest.operators.get(&operator.name).map(|settings| settings.isolation) {
                        Some(manifest::Isolation::Fresh) => Isolation::Fresh,
                        Some(manifest::Isolation::Warm) | None => Isolation::Warm,
                    };
                let snapshot = bundle.manifest.operators.get(&operator.name).map(|settings| &settings.snapshot[..]);
                for name in snapshot.unwrap_or_default() {
                    let Some(function) = operator.functions.iter_mut().find(|function| function.name == *name) else {
                        let known = operator.functions.iter().map(|function| function.name.as_str());
                        return Err(refused(
                            format!(
                                "styx.toml: operator.{}.snapshot names \"{name}\", which is no function of it",
                                operator.name
                            ),
                            suggestion(name, known, "the operator has no functions"),
                        ));
                    };
                    function.consistency = Consistency::Snapshot;
                }
                if let Some(other) = operators.get(&operator.name) {
                    let other = &components[other.component as usize].name;
                    return Err(refused(
                        format!("operator \"{}\" is in component \"{other}\" and in \"{name}\"", operator.name),
                        "an app has one operator of a name: rename one of them",
                    ));
                }
                operators.insert(operator.name.clone(), operator);
            }
        }
        if let Some(name) = bundle.manifest.operators.keys().find(|name| !operators.contains_key(*name)) {
            return Err(refused(
                format!("styx.toml has settings for operator \"{name}\", which no component implements"),
                suggestion(name, operators.keys().map(String::as_str), "there are no operators"),
            ));
        }
        if operators.is_empty() {
            return Err(refused("no component implements an operator".into(), "declare one with the SDK"));
        }
        let created =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        let operators: Vec<OperatorSpec> = operators.into_values().collect();
        let interface = agreements::interface(&bundle.manifest, &operators)?;
        let deployment = Deployment {
            id: format!("dp_{}", crate::gateway::fresh_id()),
            app: app.to_owned(),
            created: Timestamp(created),
            components,
            operators,
            limits,
            interface,
        };
        Ok(Upload {
            deployment,
            digest: ComponentStore::digest(bytes),
            components: bundle.components.into_values().collect(),
        })
    }

    /// Keeps the components.
    ///
    /// # Errors
    /// 500 if the file system refuses.
    pub fn store(&self, store: &ComponentStore) -> Result<(), ApiError> {
        for bytes in &self.components {
            store.put(bytes).map_err(|error| {
                tracing::error!(%error, "a component could not be kept");
                ApiError::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "HOST_FAILURE",
                    format!("the component could not be kept: {error}"),
                )
                .hint("see to the server's data directory, and to its store")
            })?;
        }
        Ok(())
    }
}

/// Why what is deployed already stands in the way of a version.
pub fn refused_change(abort: Abort) -> ApiError {
    match abort.code {
        AbortCode::BadArguments | AbortCode::LimitExceeded => {
            refused(abort.message, "GET /v1/apps/{app} on the admin port shows what is deployed")
        }
        _ => abort.into(),
    }
}

/// The limits of the deployment: what the manifest says, or the defaults, within what this server allows.
fn limits(given: &manifest::Limits, most: &Limits) -> Result<Limits, ApiError> {
    let default = Limits::default();
    let within = |name: &str, given: Option<u64>, default: u64, most: u64| match given {
        Some(value) if value > most => Err(refused(
            format!("limits.{name} is {value}, and this server allows at most {most}"),
            format!("lower it in styx.toml, or raise max_{name} of the server"),
        )),
        given => Ok(given.unwrap_or(default.min(most))),
    };
    let small = |given: Option<u32>| given.map(u64::from);
    let fuel = within("fuel", given.fuel, default.fuel, most.fuel)?;
    // Raising the limit of one invocation must not run into that of all together.
    let all = default.transaction_fuel.max(fuel);
    Ok(Limits {
        fuel,
        transaction_fuel: within("transaction_fuel", given.transaction_fuel, all, most.transaction_fuel)?,
        memory: within("memory", given.memory.map(|size| size.0), default.memory, most.memory)?,
        call_depth: within("call_depth", small(given.call_depth), default.call_depth.into(), most.call_depth.into())?
            as u32,
        calls: within("calls", small(given.calls), default.calls.into(), most.calls.into())? as u32,
        rw_set: within("rw_set", small(given.rw_set), default.rw_set.into(), most.rw_set.into())? as u32,
        payload: within("payload", given.payload.map(|size| size.0), default.payload.into(), most.payload.into())?
            as u32,
    })
}

pub(super) fn refused(message: String, hint: impl Into<std::borrow::Cow<'static, str>>) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, Code::BadBundle.as_str(), message).hint(hint)
}

fn refused_bundle(error: BuildError) -> ApiError {
    let status = if error.code == Code::Io { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::BAD_REQUEST };
    let hint = match (error.hint.is_empty(), error.code) {
        (false, _) => error.hint,
        (true, Code::BadManifest) => "correct it in styx.toml, then build the bundle again".into(),
        (true, _) => "make bundles with `styx build`".into(),
    };
    ApiError::new(status, error.code.as_str(), error.message).hint(hint)
}

fn refused_component(name: &str, kind: Kind, error: &UploadError) -> ApiError {
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::BAD_REQUEST);
    let message = match kind {
        Kind::Bundle => format!("component \"{name}\": {}", error.message),
        Kind::Component | Kind::Manifest => error.message.clone(),
    };
    ApiError::new(status, error.code.as_str(), message).hint(error.hint.clone())
}
