//! Operators that a project declares without a function, which what is compiled leaves out without a word; and names that
//! nothing may have.

use std::path::PathBuf;

use crate::error::{BuildError, Code};
use crate::manifest::{NAMES, is_name};

const DECLARES: &str = "STYX_OPERATOR(";
const DEFINES: [&str; 2] = ["STYX_FUNCTION(", "STYX_READ_ONLY("];

/// A source or a header.
pub struct Source {
    /// In the project.
    pub path: PathBuf,
    pub text: String,
    /// It may hold functions of operators that others declare.
    pub is_included: bool,
}

/// Refuses operators without functions and wrong names, with the places where they are declared. Nothing can be said by the text of sources that
/// define functions by macros of their own.
pub fn check(sources: &[Source]) -> Result<(), BuildError> {
    let all: Vec<String> = sources.iter().map(|source| code(&source.text).map(|(_, line)| line).collect()).collect();
    let is_macro = |line: &str| line.trim_start().starts_with('#') || line.trim_end().ends_with('\\');
    let declares_otherwise =
        |line: &str| is_macro(line) && [DECLARES].iter().chain(&DEFINES).any(|word| line.contains(word));
    if sources.iter().any(|source| code(&source.text).any(|(_, line)| declares_otherwise(line))) {
        return Ok(());
    }
    let has_function = |operator: &str| {
        let defined = |word: &str| all.iter().any(|text| text.split(word).skip(1).any(|rest| name(rest) == operator));
        DEFINES.into_iter().any(defined)
    };
    let mut wrong = Vec::new();
    for source in sources.iter().filter(|source| !source.is_included) {
        let place = source.path.display();
        for (at, line) in code(&source.text) {
            for (what, name) in names(line).filter(|(_, name)| !name.is_empty() && !is_name(name)) {
                wrong.push((format!("{place}:{}: {name:?} cannot name {what}", at + 1), NAMES.to_owned()));
            }
            for operator in line.split(DECLARES).skip(1).map(name) {
                if !operator.is_empty() && !has_function(operator) {
                    wrong.push((
                        format!("{place}:{}: the operator `{operator}` has no function", at + 1),
                        format!("write one: STYX_FUNCTION({operator}, function, …) {{ … }}"),
                    ));
                }
            }
        }
    }
    BuildError::of_all(Code::BuildFailed, wrong).map_or(Ok(()), Err)
}

/// The names of operators and functions in a line, each with what it names.
fn names(line: &str) -> impl Iterator<Item = (&'static str, &str)> {
    let argument = |rest: &'_ str| rest.split([',', ')']).next().unwrap_or_default().trim().len();
    let operators = line.split(DECLARES).skip(1).map(|rest| ("an operator", rest));
    let functions = DEFINES.into_iter().flat_map(move |word| {
        line.split(word).skip(1).filter_map(|rest| Some(("a function", rest.split_once(',')?.1)))
    });
    operators.chain(functions).map(move |(what, rest)| {
        let rest = rest.trim_start();
        (what, &rest[..argument(rest)])
    })
}

/// Lines without their comments, counted from 0.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_comment = false;
    let without = move |line| {
        let line: &str = if in_comment {
            let Some((_, after)) = str::split_once(line, "*/") else { return "" };
            in_comment = false;
            after
        } else {
            line
        };
        let line = line.split("//").next().unwrap_or(line);
        match line.split_once("/*") {
            Some((before, after)) if !after.contains("*/") => {
                in_comment = true;
                before
            }
            _ => line,
        }
    };
    text.lines().map(without).enumerate()
}

/// The first name in the parentheses that a text begins in.
fn name(rest: &str) -> &str {
    let rest = rest.trim_start();
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    &rest[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(texts: &[&str]) -> Option<String> {
        let source = |(number, text): (usize, &&str)| Source {
            path: format!("{number}.c").into(),
            text: (*text).to_owned(),
            is_included: text.starts_with("included"),
        };
        let sources: Vec<Source> = texts.iter().enumerate().map(source).collect();
        check(&sources).err().map(|error| error.message)
    }

    #[test]
    fn an_operator_needs_a_function() {
        let lonely = |at, name| Some(format!("{at}: the operator `{name}` has no function"));
        for (texts, expected) in [
            (&["#include <styx.h>\nSTYX_OPERATOR(a)"][..], lonely("0.c:2", "a")),
            (&["STYX_OPERATOR(a, .doc = \"A.\")\nSTYX_FUNCTION(\n  a, f, void, \"\") {}"], None),
            (&["STYX_OPERATOR(a)", "STYX_READ_ONLY( a, f, void, \"\") {}"], None),
            (&["STYX_OPERATOR(a)\nSTYX_FUNCTION(ab, f, void, \"\") {}\nSTYX_OPERATOR(ab)"], lonely("0.c:1", "a")),
            (&["STYX_OPERATOR(a)\nSTYX_CALLABLE(a, f, void)"], lonely("0.c:1", "a")),
            (&["// STYX_OPERATOR(a)\n/* STYX_OPERATOR(b)\nSTYX_OPERATOR(c) */\nint x; /* y */"], None),
            (&["STYX_OPERATOR(a)", "included STYX_FUNCTION(a, f, void, \"\") {}\nSTYX_OPERATOR(b)"], None),
            (
                &["STYX_OPERATOR(_a)\nSTYX_FUNCTION(_a, 2f, void, \"\") {}\nSTYX_READ_ONLY(_a, a b, void, \"\") {}"],
                Some("0.c:1: \"_a\" cannot name an operator (2 more)".to_owned()),
            ),
            (&["STYX_OPERATOR(a)\n#define F(n) STYX_FUNCTION(a, n, void, \"\")\nF(f) {}"], None),
        ] {
            assert_eq!(refused(texts), expected, "{texts:?}");
        }
    }
}
