//! Bundles, honest and evil.

use super::*;

const WASM: &[u8] = b"\0asm\x0d\0\x01\0";
const MANIFEST: &str = "[component.a]\nfile = \"a.wasm\"\n";

fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        archive.start_file(*name, SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// Replaces a name by another of the same length, wherever the archive repeats it.
fn rename(mut archive: Vec<u8>, from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut replaced = 0;
    for at in 0..archive.len() - from.len() {
        if &archive[at..at + from.len()] == from.as_bytes() {
            archive[at..at + from.len()].copy_from_slice(to.as_bytes());
            replaced += 1;
        }
    }
    assert_eq!(replaced, 2, "once before the data and once in the directory");
    archive
}

fn refusal(archive: &[u8], limits: &BundleLimits) -> String {
    let error = Bundle::read(archive, limits).expect_err("it is refused");
    error.to_string().replace("BAD_BUNDLE: the bundle is refused: ", "")
}

fn check(archive: &[u8], message: &str) {
    assert_eq!(refusal(archive, &BundleLimits::default()), message);
}

#[test]
fn round_trip_is_reproducible() {
    let manifest = Manifest::parse("[app]\nname = \"shop\"\nlanguage = \"rust\"\n[limits]\nfuel = 7").unwrap();
    let components: BTreeMap<_, _> =
        [("b", 2), ("a", 1)].map(|(name, byte)| (name.to_owned(), [WASM, &[byte]].concat())).into();
    let bundle = Bundle::new(manifest, components);
    let bytes = bundle.write().unwrap();
    assert_eq!(bytes, bundle.write().unwrap());
    let read = Bundle::read(&bytes, &BundleLimits::default()).unwrap();
    assert_eq!(read, bundle);
    assert_eq!(read.manifest.app.name.as_deref(), Some("shop"));
    assert_eq!(read.manifest.components["b"].file.as_deref(), Some("b.wasm"));
}

#[test]
fn a_bare_manifest_takes_every_component() {
    let read = Bundle::read(&zip(&[("styx.toml", b""), ("x.wasm", WASM), ("y.wasm", WASM)]), &BundleLimits::default())
        .unwrap();
    assert_eq!(read.components.keys().collect::<Vec<_>>(), ["x", "y"]);
}

#[test]
fn contents_must_fit_the_manifest() {
    check(&zip(&[("a.wasm", WASM)]), "there is no styx.toml in it; make bundles with `styx build`");
    check(&zip(&[("styx.toml", b"")]), "there is no component in it");
    check(
        &zip(&[("styx.toml", MANIFEST.as_bytes())]),
        "component a is in \"a.wasm\", which is not there (or belongs to another)",
    );
    check(&zip(&[("styx.toml", MANIFEST.as_bytes()), ("a.wasm", b"MZ")]), "\"a.wasm\" is not WebAssembly");
    check(
        &zip(&[("styx.toml", MANIFEST.as_bytes()), ("a.wasm", WASM), ("b.wasm", WASM)]),
        "no component names the file \"b.wasm\"; remove it, or add [component.<name>] with `file`",
    );
    check(
        &zip(&[("styx.toml", b"[component.a]\npath = \"a\"")]),
        "component a has no `file`; this is a source project: upload what `styx build` makes of it",
    );
    check(&zip(&[("styx.toml", b"\xff")]), "its styx.toml is not UTF-8");
    assert_eq!(
        refusal(&zip(&[("styx.toml", b"[limit]")]), &BundleLimits::default()),
        "BAD_MANIFEST: styx.toml, line 1: unknown section or key: \"limit\"; did you mean `limits`?"
    );
}

#[test]
fn names_stay_inside() {
    for name in ["../a", "/abs", "a/../b", "a//b", "./a", "c:\\a", "a\\b", "a\nb"] {
        let placeholder = "n".repeat(name.len());
        let archive = rename(
            zip(&[("styx.toml", MANIFEST.as_bytes()), ("a.wasm", WASM), (&placeholder, b"?")]),
            &placeholder,
            name,
        );
        check(&archive, &format!("{name:?} is not a plain relative path"));
    }
}

#[test]
fn links_and_duplicates_are_refused() {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    archive.add_symlink("a.wasm", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    check(&archive.finish().unwrap().into_inner(), "\"a.wasm\" is a symbolic link");

    let twice =
        rename(zip(&[("styx.toml", MANIFEST.as_bytes()), ("a.wasm", WASM), ("b.wasm", WASM)]), "b.wasm", "a.wasm");
    check(&twice, "two of its entries have the same name");
}

#[test]
fn bombs_do_not_go_off() {
    let limits =
        BundleLimits { entries: 4, archive_bytes: 1 << 20, file_bytes: 1000, total_bytes: 1500, manifest_bytes: 100 };
    let zeros = vec![0; 1 << 24];
    assert_eq!(
        refusal(&zip(&[("a.wasm", &zeros)]), &limits),
        "\"a.wasm\" makes it too large: at most 1000 bytes a file and 1500 in all"
    );
    assert_eq!(
        refusal(&zip(&[("a.wasm", &zeros[..900]), ("b.wasm", &zeros[..900])]), &limits),
        "\"b.wasm\" makes it too large: at most 1000 bytes a file and 1500 in all"
    );
    assert_eq!(
        refusal(&zip(&[("styx.toml", &zeros[..101])]), &limits),
        "\"styx.toml\" makes it too large: at most 100 bytes a file and 1500 in all"
    );
    assert_eq!(
        refusal(&zip(&[("a", b""), ("b", b""), ("c", b""), ("d", b""), ("e", b"")]), &limits),
        "it has more than 4 entries"
    );
    assert_eq!(refusal(&vec![0; (1 << 20) + 1], &limits), "it has more than 1048576 bytes");
}

#[test]
fn a_lie_about_the_size_is_found_out() {
    let limits = BundleLimits { file_bytes: 1000, ..BundleLimits::default() };
    let zeros = vec![0; 100_000];
    let mut archive = zip(&[("a.wasm", &zeros)]);
    let size = 100_000u32.to_le_bytes();
    let mut lied = 0;
    for at in 0..archive.len() - 4 {
        if archive[at..at + 4] == size {
            archive[at..at + 4].copy_from_slice(&10u32.to_le_bytes());
            lied += 1;
        }
    }
    assert_eq!(lied, 2);
    let message = refusal(&archive, &limits);
    assert!(message.contains("a.wasm"), "{message}");
}

#[test]
fn what_is_no_archive_is_refused() {
    let honest = zip(&[("styx.toml", MANIFEST.as_bytes()), ("a.wasm", WASM)]);
    let not_zip = "it is not a zip archive, or has something behind its end; make bundles with `styx build`";
    check(b"", not_zip);
    check(WASM, not_zip);
    check(&[honest.as_slice(), b"tail"].concat(), not_zip);
    // Every truncation and every flipped bit is an error or a bundle, never a panic.
    for length in 0..honest.len() {
        assert!(Bundle::read(&honest[..length], &BundleLimits::default()).is_err());
    }
    for bit in 0..honest.len() * 8 {
        let mut flipped = honest.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(bundle) = Bundle::read(&flipped, &BundleLimits::default()) {
            assert_eq!(bundle.components["a"], WASM);
        }
    }
}
