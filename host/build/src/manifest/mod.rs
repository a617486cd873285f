//! `styx.toml`: what an app is called, what it is made of, and its limits.
//!
//! The same format describes a source project (components have a `path`) and a
//! bundle (components have a `file`). Everything is optional in a project.

mod check;
mod interface;
pub mod reference;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use bytesize::ByteSize;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::error::{BuildError, Code};
pub use interface::{Export, ForeignOperator};

/// The name of the manifest, in a project and in a bundle.
pub const FILE_NAME: &str = "styx.toml";

/// The contents of `styx.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    #[serde(skip_serializing_if = "is_default")]
    pub app: App,
    /// Its components by name; empty if the app is one component.
    #[serde(rename = "component", skip_serializing_if = "BTreeMap::is_empty")]
    pub components: BTreeMap<String, Component>,
    /// What an invocation and a transaction may use.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: Limits,
    /// Settings per operator.
    #[serde(rename = "operator", skip_serializing_if = "BTreeMap::is_empty")]
    pub operators: BTreeMap<String, OperatorSettings>,
    /// What other apps may call, by operator.
    #[serde(rename = "export", skip_serializing_if = "BTreeMap::is_empty")]
    pub exports: BTreeMap<String, Export>,
    /// Functions of other apps that this one calls.
    #[serde(rename = "import", skip_serializing_if = "BTreeMap::is_empty")]
    pub imports: BTreeMap<ForeignOperator, Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    /// Default: the directory's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Default: told by the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// Module, file or crate. Default: told by the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
}

/// `[component.<name>]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component {
    /// Source directory, relative to the project's. Default: the component's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Default: told by the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// Module, file or crate. Default: told by the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// In a bundle: the component's file. In a project: one that is built already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// `[limits]`: what is absent is the server's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Fuel of one invocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Fuel of all invocations of a transaction together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction_fuel: Option<u64>,
    /// Linear memory of an instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// How deep calls may nest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_depth: Option<u32>,
    /// Calls of a transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u32>,
    /// Keys and ranges that a transaction reads and writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rw_set: Option<u32>,
    /// Arguments, result or value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Size>,
}

/// `[operator.<name>]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorSettings {
    /// True if instances are used again.
    #[serde(default)]
    pub isolation: Isolation,
    /// Functions whose transactions are promised snapshot isolation only, when a request calls them.
    /// All they read is of one state, and no write is lost; but what they have read may have changed
    /// by the time that their own writes take effect (write skew). In exchange their reads never
    /// conflict with writers. What is not listed is strictly serializable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshot: Vec<String>,
}

/// True if an instance serves one call or many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Many: fast.
    #[default]
    Warm,
    /// One: nothing can leak from call to call.
    Fresh,
}

/// The language of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// By the Rust SDK and cargo.
    Rust,
    /// By the Python SDK and componentize-py.
    Python,
    /// TypeScript or JavaScript.
    #[serde(alias = "javascript")]
    TypeScript,
    /// By the stock compiler.
    Go,
    /// By zig.
    C,
}

impl fmt::Display for Language {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::TypeScript => "typescript",
            Self::Go => "go",
            Self::C => "c",
        })
    }
}

/// A number of bytes, written as people do: `"64MiB"`, or plainly `65536`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Size;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a size such as \"64MiB\"")
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes))
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
                u64::try_from(bytes).map(Size).map_err(|_| E::invalid_value(de::Unexpected::Signed(bytes), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                let size: ByteSize = text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))?;
                Ok(Size(size.as_u64()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Manifest {
    /// Reads a manifest and checks every key, name and number in it.
    pub fn parse(text: &str) -> Result<Self, BuildError> {
        check::keys(text)?;
        let manifest: Self = toml::from_str(text).map_err(|error| check::syntax(text, &error))?;
        manifest.check()?;
        Ok(manifest)
    }

    /// The manifest as text; the same manifest always gives the same text.
    pub fn to_text(&self) -> String {
        toml::to_string(self).expect("a manifest can be written as TOML")
    }

    fn check(&self) -> Result<(), BuildError> {
        let names = self.app.name.iter().map(|name| ("an app", name));
        let names = names.chain(self.components.keys().map(|name| ("a component", name)));
        for (what, name) in names.chain(self.operators.keys().map(|name| ("an operator", name))) {
            check_name(what, name)?;
        }
        let Limits { fuel, transaction_fuel, memory, call_depth, calls, rw_set, payload } = self.limits;
        for (name, value) in [
            ("fuel", fuel),
            ("transaction_fuel", transaction_fuel),
            ("memory", memory.map(|size| size.0)),
            ("call_depth", call_depth.map(u64::from)),
            ("calls", calls.map(u64::from)),
            ("rw_set", rw_set.map(u64::from)),
            ("payload", payload.map(|size| size.0)),
        ] {
            if value == Some(0) {
                return Err(BuildError::new(
                    Code::BadManifest,
                    format_args!("{FILE_NAME}: limits.{name} is 0, so that nothing could run"),
                )
                .hint("leave it out for the server's default"));
            }
        }
        self.check_interface()?;
        for (name, component) in &self.components {
            let Component { path, file, language, entry } = component;
            if file.is_some() && (path.is_some() || language.is_some() || entry.is_some()) {
                return Err(BuildError::new(
                    Code::BadManifest,
                    format_args!("{FILE_NAME}: component.{name} has both a `file` and sources"),
                )
                .hint("a component is either built already (`file`) or built from `path`"));
            }
        }
        if !self.components.is_empty() && (self.app.language.is_some() || self.app.entry.is_some()) {
            return Err(BuildError::new(
                Code::BadManifest,
                format_args!("{FILE_NAME}: the app has components, so `app.language` and `app.entry` say nothing"),
            )
            .hint("move them to [component.<name>]"));
        }
        Ok(())
    }
}

/// The names of apps, components and operators.
pub fn check_name(what: &str, name: &str) -> Result<(), BuildError> {
    if is_name(name) {
        return Ok(());
    }
    Err(BuildError::new(Code::BadManifest, format_args!("{name:?} cannot name {what}")).hint(NAMES))
}

/// What a name is.
pub const NAMES: &str = "a name is a letter, then letters, digits, `_` and `-`, at most 64";

/// Whether apps, components, operators and functions may be called so.
pub fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-')
        && name.len() <= 64
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
