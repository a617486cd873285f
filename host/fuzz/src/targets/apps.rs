//! What whoever deploys an app sends.

use std::collections::BTreeMap;

use styx_build::{Bundle, BundleLimits, Manifest};

/// Bounds that small inputs can reach.
const LIMITS: BundleLimits = BundleLimits {
    entries: 16,
    archive_bytes: 1 << 20,
    file_bytes: 1 << 16,
    total_bytes: 1 << 17,
    manifest_bytes: 1 << 14,
};

pub fn bundle(bytes: &[u8]) -> bool {
    let Ok(bundle) = Bundle::read(bytes, &LIMITS) else { return false };
    let total: usize = bundle.components.values().map(Vec::len).sum();
    assert!(total as u64 <= LIMITS.total_bytes, "{total} bytes were inflated");
    true
}

pub fn bundles() -> Vec<Vec<u8>> {
    let component = b"\0asm\x0d\0\x01\0".to_vec();
    let components =
        |names: &[&str]| BTreeMap::from_iter(names.iter().map(|name| (name.to_string(), component.clone())));
    let read = |text: &str| Manifest::parse(text).expect("it is good");
    [Bundle::new(read(""), components(&["main"])), Bundle::new(read("[app]\nname = \"a\""), components(&["a", "b"]))]
        .map(|bundle| bundle.write().expect("it fits into memory"))
        .into()
}

pub fn manifest(bytes: &[u8]) -> bool {
    let Some(manifest) = std::str::from_utf8(bytes).ok().and_then(|text| Manifest::parse(text).ok()) else {
        return false;
    };
    let text = manifest.to_text();
    assert_eq!(Manifest::parse(&text).as_ref(), Ok(&manifest), "{text}");
    true
}

pub fn manifests() -> Vec<Vec<u8>> {
    let all = r#"
        [app]
        name = "ledger"
        language = "python"
        entry = "ledger"
        [limits]
        fuel = 200_000_000
        memory = "64MiB"
        payload = 65536
        [operator.journal]
        isolation = "fresh"
        snapshot = ["report"]
        [server]
        anything = "goes"
        "#;
    vec![
        all.into(),
        b"[component.a]\nfile = \"a.wasm\"".into(),
        b"[component.b]\npath = \"b\"\nlanguage = \"rust\"".into(),
    ]
}
