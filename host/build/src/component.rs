//! From a core module to a component, and the check that it is one of ours.

use wit_component::{ComponentEncoder, DecodedWasm};

use super::error::{BuildError, Code};

/// The exports that the contract with guests asks for.
const EXPORTS: [&str; 2] = ["describe", "invoke"];

/// Makes a component of a core module that carries its world in a custom section.
pub fn encode(module: &[u8]) -> Result<Vec<u8>, BuildError> {
    let encoded = ComponentEncoder::default().validate(true).module(module).and_then(|mut encoder| encoder.encode());
    let component = encoded.map_err(|error| {
        BuildError::new(Code::BuildFailed, format_args!("the module cannot become a component: {error:#}"))
            .hint("see that the SDK's export is called once and that nothing in the crate needs an operating system")
    })?;
    check(&component)?;
    Ok(component)
}

/// Refuses what does not export the functions of the contract.
pub fn check(component: &[u8]) -> Result<(), BuildError> {
    let decoded = wit_component::decode(component).map_err(|error| {
        BuildError::new(Code::BuildFailed, format_args!("this is no WebAssembly component: {error:#}"))
    })?;
    let DecodedWasm::Component(resolve, world) = decoded else {
        return Err(BuildError::new(Code::BuildFailed, "this is a WIT package, not a component"));
    };
    let world = &resolve.worlds[world];
    let exported = |name: &str| world.exports.keys().any(|key| resolve.name_world_key(key) == name);
    match EXPORTS.iter().find(|name| !exported(name)) {
        None => Ok(()),
        Some(name) => Err(BuildError::new(Code::BuildFailed, format_args!("the component does not export `{name}`"))
            .hint("export its operators through the SDK, in Rust with `styx_sdk::export!(…)`")),
    }
}
