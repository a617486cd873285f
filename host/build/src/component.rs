//! From a core module to a component, and the check that it is one of ours.

use wasmparser::{Parser, Payload};
use wit_component::{ComponentEncoder, DecodedWasm, StringEncoding};
use wit_parser::Resolve;

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

/// Makes a component of a core module that says nothing of its world, which the text does.
pub fn encode_with(module: &[u8], wit: &str) -> Result<Vec<u8>, BuildError> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("guest.wit", wit).expect("the contract is WIT");
    let world = resolve.select_world(&[package], Some("function")).expect("the contract has the world");
    let mut module = without_debug(module)?;
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .map_err(|error| no_module(&format!("{error:#}")))?;
    encode(&module)
}

/// What a core module imports from another one.
pub fn imports_of(module: &[u8], of: &str) -> Result<Vec<String>, BuildError> {
    let mut names = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        if let Payload::ImportSection(imports) = payload.map_err(|error| no_module(&error))? {
            for import in imports.into_imports() {
                let import = import.map_err(|error| no_module(&error))?;
                if import.module == of {
                    names.push(import.name.to_owned());
                }
            }
        }
    }
    Ok(names)
}

/// The module without the sections for debuggers, which are most of it; names stay in, for the backtraces of traps.
fn without_debug(module: &[u8]) -> Result<Vec<u8>, BuildError> {
    let mut kept = Vec::with_capacity(module.len());
    let mut end = 8;
    kept.extend_from_slice(module.get(..end).ok_or_else(|| no_module(&"it is too short"))?);
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload.map_err(|error| no_module(&error))?;
        let range = match &payload {
            // The entries of the code section are within its range.
            Payload::CodeSectionEntry(_) => continue,
            payload => match payload.as_section() {
                Some((_, range)) => range,
                None => continue,
            },
        };
        let is_debug = matches!(&payload, Payload::CustomSection(section) if section.name().starts_with(".debug_"));
        // What lies before the contents, and after the section before, is the section's head.
        if !is_debug {
            kept.extend_from_slice(&module[end..range.end]);
        }
        end = range.end;
    }
    Ok(kept)
}

fn no_module(error: &dyn std::fmt::Display) -> BuildError {
    BuildError::new(Code::BuildFailed, format_args!("the compiler made no WebAssembly module: {error}"))
        .hint("report it, with the sources")
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
