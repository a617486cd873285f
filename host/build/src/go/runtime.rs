//! Go's runtime with the transaction's random numbers: its own would come from a seed of the instance, and how many were
//! taken before would be nobody's promise. They decide what `math/rand` gives, the order of maps, and which of several
//! ready channels a `select` takes.

use std::fs;
use std::path::{Path, PathBuf};

use super::{quoted, write};
use crate::error::{BuildError, Code};

/// File of the runtime, what it has, and what is put in its place.
const CHANGES: [(&str, &str, &str); 2] = [
    (
        "rand.go",
        "\nfunc rand() uint64 {\n",
        "\nfunc rand() uint64 {\n\treturn styxRandom()\n}\n\n//go:wasmimport styx random\nfunc styxRandom() uint64\n\nfunc randOfInstance() uint64 {\n",
    ),
    ("select.go", "cheaprandn(uint32(norder + 1))", "(uint32(rand()>>32) % uint32(norder+1))"),
];

/// Writes the changed files and the list that `go build` takes, of them and of others that it is to find elsewhere.
pub fn overlay(root: &Path, version: &str, into: &Path, others: &[(PathBuf, PathBuf)]) -> Result<PathBuf, BuildError> {
    let mut entries: Vec<String> =
        others.iter().map(|(there, file)| format!("{}:{}", quoted(there), quoted(file))).collect();
    for (name, before, after) in CHANGES {
        let path = root.join("src/runtime").join(name);
        let text = fs::read_to_string(&path).map_err(BuildError::io("read", &path))?;
        if text.matches(before).count() != 1 {
            return Err(BuildError::new(
                Code::ToolchainMissing,
                format_args!("{version} is not known: its runtime's {name} is another"),
            )
            .hint("install the latest version of Go that this version of styx names in its SDK's README"));
        }
        let changed = write(into, name, &text.replace(before, after))?;
        entries.push(format!("{}:{}", quoted(&path), quoted(&changed)));
    }
    write(into, "overlay.json", &format!("{{\"Replace\":{{{}}}}}", entries.join(",")))
}
