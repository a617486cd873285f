//! Archives and components, good and bad.

use std::io::{Cursor, Write};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::support::Guest;

const OK: &str = "(call $ok (i32.const 0) (i32.const 0))";

/// A good component with one operator.
pub fn component(operator: &'static str) -> Vec<u8> {
    Guest::body(operator, &["get"], OK).bytes()
}

/// The same with another schema of its parameter.
pub fn schema(schema: &'static str) -> Vec<u8> {
    Guest { schema, ..Guest::body("item", &["get"], OK) }.bytes()
}

/// A component whose function is none.
pub fn uncompilable() -> Vec<u8> {
    Guest::new("item", &["get"], "(func (export \"invoke\"))").bytes()
}

/// The same with another `describe`.
pub fn describing(body: &str) -> Vec<u8> {
    let text = Guest::body("item", &["get"], OK).wat();
    let start = text.find("(func (export \"describe\")").unwrap();
    let end = start + text[start..].find('\n').unwrap();
    encoded(&format!("{}(func (export \"describe\") (result i32) {body}){}", &text[..start], &text[end..]))
}

/// The same with the operator's keys composite.
pub fn composite() -> Vec<u8> {
    // In the image of the description the operator's name, 8 bytes, is followed by an absent prefix, 12 zeros.
    let mut guest = Guest::body("item", &["get"], OK);
    guest.schema = "{}";
    let bytes = guest.bytes();
    let name = bytes.windows(4).position(|window| window == b"item").unwrap();
    let pointer = find_pair(&bytes, image_address(&bytes, name), 4);
    let mut bytes = bytes;
    let given = [1u32.to_le_bytes(), image_address(&bytes, name).to_le_bytes(), 4u32.to_le_bytes()].concat();
    bytes[pointer + 8..pointer + 20].copy_from_slice(&given);
    bytes
}

/// The address in the guest's memory of what stands at an offset of the component: the image is
/// one data segment at 32768 and begins with the name of the SDK.
fn image_address(bytes: &[u8], offset: usize) -> u32 {
    let start = bytes.windows(9).position(|window| window == b"styx-wat ").unwrap();
    32768 + (offset - start) as u32
}

fn find_pair(bytes: &[u8], address: u32, length: u32) -> usize {
    let pair = [address.to_le_bytes(), length.to_le_bytes()].concat();
    bytes.windows(8).position(|window| window == pair).unwrap()
}

/// WebAssembly text as bytes.
pub fn encoded(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}"))
}

/// A zip of these files, whatever they are called.
pub fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        archive.start_file(*name, SimpleFileOptions::default()).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// A bundle of one good component.
pub fn bundle(manifest: &str) -> Vec<u8> {
    zip(&[("styx.toml", manifest.as_bytes()), ("item.wasm", &component("item"))])
}
