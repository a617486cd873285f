//! Names of operators and functions in a manifest that no source says. Only a component knows its functions, so that such a
//! name is refused when the app is deployed; that it is most likely misspelt can be told before anything is built.

use std::collections::BTreeMap;

use super::cache::each_source;
use super::error::BuildError;
use super::manifest::{FILE_NAME, Language, Manifest};
use super::project::{Origin, Project};
use super::rust::Manifests;

/// A line for each of them. None if a component is built already: what is in it cannot be read.
pub fn unsaid(project: &Project) -> Result<Vec<String>, BuildError> {
    let named = named(&project.manifest);
    let whole = project.components.iter().all(|component| matches!(component.origin, Origin::Directory { .. }));
    if named.is_empty() || !whole {
        return Ok(Vec::new());
    }
    let words = words(project)?;
    let unsaid = named.into_iter().filter(|(_, name)| !words.contains_key(&folded(name)));
    Ok(unsaid.map(|(place, name)| line(&place, name, &words)).collect())
}

/// Where a manifest names operators and functions of the app itself, and what it names there.
fn named(manifest: &Manifest) -> Vec<(String, &str)> {
    let mut named = Vec::new();
    for (operator, settings) in &manifest.operators {
        named.push((format!("[operator.{operator}]"), operator.as_str()));
        named.extend(settings.snapshot.iter().map(|name| (format!("operator.{operator}.snapshot"), name.as_str())));
    }
    for (operator, export) in &manifest.exports {
        named.push((format!("[export.{operator}]"), operator.as_str()));
        let functions = export.functions.iter().flatten();
        named.extend(functions.map(|name| (format!("export.{operator}.functions"), name.as_str())));
    }
    named
}

/// All words of the sources, folded, with one way to write each.
fn words(project: &Project) -> Result<BTreeMap<String, String>, BuildError> {
    let mut words = BTreeMap::new();
    let mut add = |_: &str, bytes: Vec<u8>| {
        let text = String::from_utf8_lossy(&bytes);
        // `a-b` is a name, or a difference.
        for joined in text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '-') {
            for word in joined.split('-').chain([joined]) {
                words.entry(folded(word)).or_insert_with(|| word.to_owned());
            }
        }
    };
    for (path, language, _) in project.directories() {
        // A crate's functions may lie in others beside it.
        let sources = if language == Language::Rust { Manifests::read(path)?.inputs } else { vec![path.to_owned()] };
        for path in sources {
            each_source(&path, &mut add)?;
        }
    }
    Ok(words)
}

/// One for `ShoppingCart`, `shopping_cart` and `shopping-cart`: SDKs name an operator after its type.
fn folded(name: &str) -> String {
    name.chars().filter(|letter| !matches!(letter, '_' | '-')).map(|letter| letter.to_ascii_lowercase()).collect()
}

fn line(place: &str, name: &str, words: &BTreeMap<String, String>) -> String {
    let wanted = folded(name);
    let nearest = words
        .iter()
        .filter(|(word, _)| word.len().abs_diff(wanted.len()) <= 2)
        .map(|(word, written)| (strsim::damerau_levenshtein(word, &wanted), written))
        .min();
    let hint = match nearest {
        Some((distance, written)) if distance <= 2 && distance < wanted.len() => format!("; did you mean `{written}`?"),
        _ => String::new(),
    };
    format!("{FILE_NAME}: {place} names {name:?}, which no source says{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::write;

    fn lines(manifest: &str, sources: &[(&str, &str)]) -> Vec<String> {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("bank");
        write(&directory, sources);
        write(&directory, &[("styx.toml", manifest)]);
        unsaid(&Project::open(&directory).unwrap()).unwrap()
    }

    #[test]
    fn what_is_misspelt_is_told() {
        let python = ("bank.py", "account = Operator('account')\n@account.function\ndef report(context): return 1\n");
        assert_eq!(
            lines("[operator.account]\nsnapshot = [\"raport\", \"report\"]", &[python]),
            ["styx.toml: operator.account.snapshot names \"raport\", which no source says; did you mean `report`?"]
        );
        assert_eq!(
            lines("[operator.acount]\n[export.account]\nfunctions = [\"transfer\"]", &[python]),
            [
                "styx.toml: [operator.acount] names \"acount\", which no source says; did you mean `account`?",
                "styx.toml: export.account.functions names \"transfer\", which no source says"
            ]
        );
    }

    #[test]
    fn names_are_made_of_others() {
        let go = [("go.mod", "module bank"), ("main.go", "type ShoppingCart struct{}\nvar _ = F(\"add-item\", a-b)")];
        let manifest = "[operator.shopping_cart]\nsnapshot = [\"add-item\", \"b\"]\n[export.shopping-cart]";
        assert_eq!(lines(manifest, &go), [""; 0]);
    }

    #[test]
    fn what_cannot_be_read_may_say_anything() {
        let manifest = "[component.a]\nfile = \"a.wasm\"\n[component.b]\n[operator.nowhere]";
        assert_eq!(lines(manifest, &[("b/b.py", ""), ("a.wasm", "")]), [""; 0]);
    }

    #[test]
    fn crates_beside_it_count() {
        let manifest = "[component.shop]\n[operator.stock]\nsnapshot = [\"count\"]\n[operator.stok]";
        let sources = [
            ("shop/Cargo.toml", "[package]\nname = \"shop\"\n[dependencies]\nstock = { path = \"../stock\" }"),
            ("shop/src/lib.rs", ""),
            ("stock/Cargo.toml", "[package]\nname = \"stock\""),
            ("stock/src/lib.rs", "fn count() {}"),
        ];
        assert_eq!(
            lines(manifest, &sources),
            ["styx.toml: [operator.stok] names \"stok\", which no source says; did you mean `stock`?"]
        );
    }
}
