//! One target under libFuzzer: the one that `STYX_FUZZ_TARGET` names. `STYX_FUZZ_SEEDS` is a directory for what it begins
//! with. Compiled and run by scripts/fuzz.sh.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use styx_fuzz::Target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("STYX_FUZZ_TARGET").unwrap_or_default();
    Target::named(&name).unwrap_or_else(|| panic!("no target is called {name:?}"))
});

fuzz_target!(
    init: {
        if let Some(directory) = std::env::var_os("STYX_FUZZ_SEEDS") {
            for (at, seed) in (TARGET.seeds)().into_iter().enumerate() {
                let path = std::path::Path::new(&directory).join(format!("seed-{at}"));
                std::fs::write(path, seed).expect("seeds can be written");
            }
        }
    },
    |bytes: &[u8]| {
        (TARGET.read)(bytes);
    }
);
