//! The project's `go.mod`, and the copy of it that a build uses.

use std::fs;
use std::path::{Path, PathBuf};

use super::{MINIMUM, quoted, write};
use crate::error::BuildError;

/// The SDK's module path. It has no dot, so that no one looks for it in the network.
const SDK: &str = "styx";

/// A `go.mod` that was read.
pub struct ModuleFile {
    directory: PathBuf,
    text: String,
}

impl ModuleFile {
    pub fn read(directory: &Path) -> Result<Self, BuildError> {
        let path = directory.join("go.mod");
        let text = fs::read_to_string(&path).map_err(BuildError::io("read", &path))?;
        Ok(Self { directory: directory.to_owned(), text })
    }

    /// Words of the lines that matter, as if none stood in a block.
    fn lines(&self) -> impl Iterator<Item = Vec<&str>> {
        let mut block = None;
        self.text.lines().filter_map(move |line| {
            let line = line.split("//").next().unwrap_or_default().trim();
            let mut words: Vec<&str> = line.split_whitespace().collect();
            match (block, words.as_slice()) {
                (_, []) => return None,
                (Some(_), [")"]) => {
                    block = None;
                    return None;
                }
                (Some(verb), _) => words.insert(0, verb),
                (None, [verb, "("]) => {
                    block = Some(*verb);
                    return None;
                }
                _ => {}
            }
            Some(words)
        })
    }

    /// Directories that stand in for modules.
    pub fn local_replacements(&self) -> Vec<PathBuf> {
        let local = self.lines().filter(|words| words[0] == "replace").filter_map(|words| {
            let target = words.iter().skip_while(|word| **word != "=>").nth(1)?.trim_matches('"');
            (target.starts_with('.') || target.starts_with('/')).then(|| self.directory.join(target))
        });
        local.collect()
    }

    /// Whether it says where the SDK is.
    pub fn has_own_sdk(&self) -> bool {
        self.has("replace")
    }

    /// The language's version that it asks for, or the oldest one that guests may have.
    pub fn version(&self) -> String {
        let asked = self.lines().find(|words| words[0] == "go" && words.len() == 2).map(|words| words[1]);
        let newer = asked.filter(|version| super::toolchain::number(version) >= MINIMUM);
        newer.map_or_else(|| format!("{}.{}", MINIMUM.0, MINIMUM.1), str::to_owned)
    }

    fn has(&self, verb: &str) -> bool {
        self.lines().any(|words| words[0] == verb && words.get(1) == Some(&SDK))
    }

    /// Writes the copy, in which the SDK is the given one unless the project says where its own is.
    pub fn with_sdk(&self, sdk: &Path, into: &Path) -> Result<PathBuf, BuildError> {
        let mut text = String::new();
        for line in self.text.lines() {
            let old =
                line.trim().strip_prefix("go ").is_some_and(|version| super::toolchain::number(version) < MINIMUM);
            if !old {
                text.push_str(line);
                text.push('\n');
            }
        }
        if !text.lines().any(|line| line.starts_with("go ")) {
            text.push_str(&format!("go {}.{}\n", MINIMUM.0, MINIMUM.1));
        }
        if !self.has("require") {
            text.push_str(&format!("require {SDK} v0.1.0\n"));
        }
        if !self.has("replace") {
            text.push_str(&format!("replace {SDK} => {}\n", quoted(sdk)));
        }
        let sums = fs::read_to_string(self.directory.join("go.sum")).unwrap_or_default();
        write(into, "go.sum", &sums)?;
        write(into, "go.mod", &text)
    }
}
