//! Contract of a component, by name: what it may import and must export. The types are checked when it is linked.

use wasmparser::{Encoding, Parser, Payload};

use super::error::{UploadCode, UploadError};

/// Interfaces of `wit/guest.wit`.
const GUEST: [&str; 5] = ["types", "state", "calls", "context", "logging"];

/// Interfaces of WASI 0.2 that a guest may import.
const WASI: [&str; 27] = [
    "cli/environment",
    "cli/exit",
    "cli/stdin",
    "cli/stdout",
    "cli/stderr",
    "cli/terminal-input",
    "cli/terminal-output",
    "cli/terminal-stdin",
    "cli/terminal-stdout",
    "cli/terminal-stderr",
    "clocks/monotonic-clock",
    "clocks/wall-clock",
    "filesystem/preopens",
    "filesystem/types",
    "io/error",
    "io/poll",
    "io/streams",
    "random/random",
    "random/insecure",
    "random/insecure-seed",
    "sockets/tcp",
    "sockets/tcp-create-socket",
    "sockets/udp",
    "sockets/udp-create-socket",
    "sockets/network",
    "sockets/instance-network",
    "sockets/ip-name-lookup",
];

/// Tells a component from what people upload instead.
pub(super) fn check_encoding(bytes: &[u8]) -> Result<(), UploadError> {
    match Parser::new(0).parse_all(bytes).next() {
        Some(Ok(Payload::Version { encoding: Encoding::Component, .. })) => Ok(()),
        Some(Ok(Payload::Version { encoding: Encoding::Module, .. })) => Err(UploadError::new(
            UploadCode::CoreModule,
            "this is a core WebAssembly module, not a component",
            "build the project with `styx build`, which makes a component, or run `wasm-tools component new` on it",
        )),
        _ => {
            let looks_like = match bytes {
                [0x50, 0x4b, ..] => " (it looks like a zip archive: send it as application/zip)",
                [b'(', ..] => " (it looks like WebAssembly text: encode it first)",
                [0x7f, b'E', b'L', b'F', ..] => " (it looks like a native program)",
                _ => "",
            };
            Err(UploadError::new(
                UploadCode::NotAComponent,
                format!("this is not a WebAssembly component{looks_like}"),
                "upload what `styx build` made, or deploy the source directory with `styx deploy`",
            ))
        }
    }
}

/// Checks names of imports and exports of the outermost component.
pub(super) fn check_names(bytes: &[u8]) -> Result<(), UploadError> {
    let invalid = |error: wasmparser::Error| {
        UploadError::new(UploadCode::NotAComponent, format!("the component is damaged: {error}"), "build it again")
    };
    let (mut foreign, mut exports) = (Vec::new(), Vec::new());
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(invalid)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) if depth > 0 => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    let name = import.map_err(invalid)?.name.name;
                    // Types that the world itself uses are imported by their plain names.
                    if name.contains(':') && !is_known(name) {
                        foreign.push(name);
                    }
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    exports.push(export.map_err(invalid)?.name.name);
                }
            }
            _ => {}
        }
    }
    if let Some(first) = foreign.first() {
        let more = if foreign.len() > 1 { format!(" and {} more", foreign.len() - 1) } else { String::new() };
        return Err(UploadError::new(
            UploadCode::ForeignImport,
            format!("the component imports `{first}`{more}, which the host does not provide"),
            if first.starts_with("styx:guest/") {
                "it was built for a contract that this server does not know: styx:guest/function of 0.1 and 0.2 are known; update the server, or build it with another SDK"
            } else {
                "a function reaches the world through its context only: remove the library that needs it, or build for the world styx:guest/function@0.2.0"
            },
        ));
    }
    let missing: Vec<_> = ["invoke", "describe"].into_iter().filter(|name| !exports.contains(name)).collect();
    if !missing.is_empty() {
        return Err(UploadError::new(
            UploadCode::MissingExport,
            format!("the component does not export `{}`", missing.join("` and `")),
            "build it with a Styx SDK, or for the world styx:guest/function@0.2.0",
        ));
    }
    Ok(())
}

/// Whether the host provides an interface, any compatible version of it.
fn is_known(name: &str) -> bool {
    let Some((path, version)) = name.split_once('@') else { return false };
    if let Some(interface) = path.strip_prefix("styx:guest/") {
        return GUEST.contains(&interface) && (version.starts_with("0.1.") || version.starts_with("0.2."));
    }
    path.strip_prefix("wasi:").is_some_and(|interface| WASI.contains(&interface) && version.starts_with("0.2."))
}

#[cfg(test)]
mod tests {
    use super::is_known;

    #[test]
    fn versions_and_interfaces_are_told_apart() {
        for (name, known) in [
            ("styx:guest/state@0.1.0", true),
            ("styx:guest/state@0.2.0", true),
            ("styx:guest/state@0.3.0", false),
            ("styx:guest/other@0.1.0", false),
            ("wasi:clocks/wall-clock@0.2.3", true),
            ("wasi:clocks/wall-clock@0.3.0", false),
            ("wasi:http/outgoing-handler@0.2.0", false),
            ("wasi:io/poll", false),
        ] {
            assert_eq!(is_known(name), known, "{name}");
        }
    }
}
