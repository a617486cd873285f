//! Faults in a manifest, told with their line and the nearest thing that would be right.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::FILE_NAME;
use crate::error::{BuildError, Code};

/// The known keys of a table, or of each of its named tables.
enum Keys {
    Fixed(&'static [&'static str]),
    Named(&'static [&'static str]),
    /// Its keys are names that somebody gave; or the server reads them from the same file, and nothing of it concerns a build.
    Any,
}

const SECTIONS: &[(&str, Keys)] = &[
    ("app", Keys::Fixed(&["name", "language", "entry"])),
    ("component", Keys::Named(&["path", "language", "entry", "file"])),
    ("export", Keys::Named(&["functions", "to"])),
    ("import", Keys::Any),
    ("limits", Keys::Fixed(&["fuel", "transaction_fuel", "memory", "call_depth", "calls", "rw_set", "payload"])),
    ("operator", Keys::Named(&["isolation", "snapshot"])),
    ("server", Keys::Any),
];

const LANGUAGES: &[&str] = &["python", "rust", "typescript", "javascript", "go", "c"];
const ISOLATIONS: &[&str] = &["warm", "fresh"];

/// Refuses unknown keys and words; what the values are is serde's business.
pub fn keys(text: &str) -> Result<(), BuildError> {
    let document = DeTable::parse(text).map_err(|error| syntax(text, &error))?;
    for (section, value) in document.get_ref() {
        let name = section.get_ref().as_ref();
        let Some((_, keys)) = SECTIONS.iter().find(|(known, _)| *known == name) else {
            let known = SECTIONS.iter().map(|(known, _)| *known);
            return Err(unknown(text, section, "section or key", name, known));
        };
        match keys {
            Keys::Fixed(known) => table(text, name, value, known)?,
            Keys::Named(known) => {
                for (inner, value) in value.get_ref().as_table().into_iter().flatten() {
                    table(text, &format!("{name}.{}", inner.get_ref()), value, known)?;
                }
            }
            Keys::Any => {}
        }
    }
    Ok(())
}

fn table(
    text: &str,
    path: &str,
    value: &Spanned<DeValue<'_>>,
    known: &'static [&'static str],
) -> Result<(), BuildError> {
    for (key, value) in value.get_ref().as_table().into_iter().flatten() {
        let name = key.get_ref().as_ref();
        if !known.contains(&name) {
            return Err(unknown(text, key, &format!("key in [{path}]"), name, known.iter().copied()));
        }
        let words = match name {
            "language" => LANGUAGES,
            "isolation" => ISOLATIONS,
            _ => continue,
        };
        if let Some(word) = value.get_ref().as_str()
            && !words.contains(&word)
        {
            return Err(unknown(text, value, name, word, words.iter().copied()));
        }
    }
    Ok(())
}

fn unknown<T>(
    text: &str,
    place: &Spanned<T>,
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'static str> + Clone,
) -> BuildError {
    let error = BuildError::new(
        Code::BadManifest,
        format_args!("{FILE_NAME}, line {}: unknown {what}: {name:?}", line(text, place.span().start)),
    );
    let nearest = known.clone().map(|known| (strsim::damerau_levenshtein(known, &name.to_lowercase()), known)).min();
    match nearest {
        Some((distance, known)) if distance <= 2.max(known.len() / 3) && distance < known.len() => {
            error.hint(format_args!("did you mean `{known}`?"))
        }
        _ => error
            .hint(format_args!("known are {}", known.map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", "))),
    }
}

/// An error of the TOML reader, on one line.
pub fn syntax(text: &str, error: &toml::de::Error) -> BuildError {
    let message = error.message().replace('\n', ", ");
    match error.span() {
        Some(span) => {
            BuildError::new(Code::BadManifest, format_args!("{FILE_NAME}, line {}: {message}", line(text, span.start)))
        }
        None => BuildError::new(Code::BadManifest, format_args!("{FILE_NAME}: {message}")),
    }
}

fn line(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}
