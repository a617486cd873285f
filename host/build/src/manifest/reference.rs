//! What an app's manifest can say, for people: the one list of it, which a page of the documentation is made of.

/// A key of `styx.toml`.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The table that it stands in.
    pub table: &'static str,
    pub name: &'static str,
    /// As it may be written.
    pub example: &'static str,
    /// What it is when nothing is said.
    pub default: &'static str,
    pub meaning: &'static str,
}

const fn key(
    table: &'static str,
    name: &'static str,
    example: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Key {
    Key { table, name, example, default, meaning }
}

const APP: &str = "app";
const COMPONENT: &str = "component.NAME";
const LIMITS: &str = "limits";
const OPERATOR: &str = "operator.NAME";
const EXPORT: &str = "export.OPERATOR";
const IMPORT: &str = "import";
const FOREIGN: &str = "\"APP/OPERATOR\"";

/// All keys of an app's manifest, in the order of their tables.
pub const KEYS: [Key; 19] = [
    key(APP, "name", "\"shop\"", "the directory's name", "name of the app"),
    key(
        APP,
        "language",
        "\"python\"",
        "told by the files",
        "`python`, `rust`, `typescript`, `go` or `c`; of an app that is one component",
    ),
    key(APP, "entry", "\"shop\"", "told by the files", "module, file or crate with the functions"),
    key(COMPONENT, "path", "\"stock\"", "the component's name", "directory of its sources, in the project's"),
    key(COMPONENT, "language", "\"rust\"", "told by the files", "as above"),
    key(COMPONENT, "entry", "\"order\"", "told by the files", "as above"),
    key(COMPONENT, "file", "\"stock.wasm\"", "", "instead of sources: a component that is built already"),
    key(
        LIMITS,
        "fuel",
        "5_000_000_000",
        "5 000 000 000",
        "instructions, roughly, of one invocation; up to the server's `--max-fuel`",
    ),
    key(
        LIMITS,
        "transaction_fuel",
        "10_000_000_000",
        "10 000 000 000",
        "of all invocations of a transaction together; up to `--max-transaction-fuel`",
    ),
    key(LIMITS, "memory", "\"64MiB\"", "128MiB", "linear memory of an instance; up to `--max-memory`"),
    key(LIMITS, "call_depth", "64", "64", "how deep calls may nest; up to `--max-call-depth`"),
    key(LIMITS, "calls", "10_000", "10 000", "calls of a transaction; up to `--max-calls`"),
    key(
        LIMITS,
        "rw_set",
        "5_000",
        "100 000",
        "keys and ranges that a transaction reads and writes; up to `--max-rw-set`",
    ),
    key(LIMITS, "payload", "\"1MiB\"", "1MiB", "bytes of arguments, of a result or of a value; up to `--max-payload`"),
    key(
        OPERATOR,
        "isolation",
        "\"fresh\"",
        "warm",
        "`fresh`: a new instance for each call, which nothing can leak into; `warm`: instances are used again",
    ),
    key(
        OPERATOR,
        "snapshot",
        "[\"report\"]",
        "none",
        "functions whose transactions are promised snapshot isolation only, when a request calls them: \
         their reads never conflict with writers, and they may be out of date by the time they write (write skew)",
    ),
    key(EXPORT, "functions", "[\"charge\"]", "all", "functions of the operator that other apps may call"),
    key(EXPORT, "to", "[\"shop\"]", "all", "apps that may call them"),
    key(
        IMPORT,
        FOREIGN,
        "[\"charge\"]",
        "none",
        "functions of another app's operator that this app calls, as `APP/OPERATOR`; that app has to export them",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::manifest::Manifest;

    /// The manifest that says everything that an app of one component can say, or one of several.
    fn all(with_components: bool) -> String {
        let mut text = String::new();
        let mut table = "";
        for key in KEYS {
            let of_several = key.table == COMPONENT;
            let of_one = key.table == APP && key.name != "name";
            if of_several && !with_components || of_one && with_components {
                continue;
            }
            if key.table != table {
                table = key.table;
                text.push_str(&format!("[{}]\n", table.replace("NAME", "x").replace("OPERATOR", "x")));
            }
            // A component has sources or a file.
            if key.name != "file" {
                text.push_str(&format!("{} = {}\n", key.name, key.example));
            }
        }
        text
    }

    #[test]
    fn every_key_is_listed_and_every_example_is_taken() {
        Manifest::parse("[component.x]\nfile = \"stock.wasm\"").unwrap();
        // What is a default is not written: the one that all examples differ from is.
        let written = [false, true].map(|several| {
            let manifest = Manifest::parse(&all(several)).unwrap();
            toml::Table::try_from(&manifest).unwrap()
        });
        let mut found = BTreeSet::from([(COMPONENT.to_owned(), "file".to_owned())]);
        for (table, value) in written.iter().flatten() {
            let nested = match table.as_str() {
                "component" | "operator" => Some("NAME"),
                "export" => Some("OPERATOR"),
                _ => None,
            };
            let value = nested.map_or(value, |_| &value["x"]);
            let table = nested.map_or_else(|| table.clone(), |name| format!("{table}.{name}"));
            let quoted = |key: &String| if key.contains('/') { format!("{key:?}") } else { key.clone() };
            found.extend(value.as_table().unwrap().keys().map(|key| (table.clone(), quoted(key))));
        }
        let listed: BTreeSet<_> = KEYS.iter().map(|key| (key.table.to_owned(), key.name.to_owned())).collect();
        assert_eq!(found, listed);
    }
}
