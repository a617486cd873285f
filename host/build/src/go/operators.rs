//! Operators that a project declares and never mentions again, which have no function; and names that nothing may have.
//!
//! By their text alone: whoever registers functions in some other way is found when the server asks the component.

use std::path::PathBuf;

use crate::error::{BuildError, Code};
use crate::manifest::{NAMES, is_name};

const DECLARES: &str = "NewOperator(";
const REGISTERS: &str = "styx.Register(";
/// With a type of state, an operator is something without functions too.
const HAS_STATE: &str = "StateType";

/// A source of Go.
pub struct Source {
    /// In the project.
    pub path: PathBuf,
    pub text: String,
}

/// Refuses operators without functions, and wrong names, with the places where they are declared.
pub fn check(sources: &[Source]) -> Result<(), BuildError> {
    let mut wrong = Vec::new();
    for source in sources {
        for (at, line) in code(&source.text) {
            for (what, name) in names(line).filter(|(_, name)| !is_name(name)) {
                let place = source.path.display();
                wrong.push((format!("{place}:{}: {name:?} cannot name {what}", at + 1), NAMES.to_owned()));
            }
            let Some(variable) = declared(line) else { continue };
            let statement: String = source.text.lines().skip(at).take_while(|line| !line.trim().is_empty()).collect();
            let is_mentioned = || {
                sources.iter().any(|other| {
                    let is_here = |line| line == at && other.path == source.path;
                    code(&other.text).any(|(at, line)| !is_here(at) && has_word(line, variable))
                })
            };
            if !statement.contains(HAS_STATE) && !is_mentioned() {
                let place = source.path.display();
                wrong.push((
                    format!("{place}:{}: the operator `{variable}` has no function", at + 1),
                    format!("register one: `var _ = styx.Register({variable}, …)`"),
                ));
            }
        }
    }
    BuildError::of_all(Code::BuildFailed, wrong).map_or(Ok(()), Err)
}

/// The names of operators and functions that a line gives as plain texts, each with what it names.
fn names(line: &str) -> impl Iterator<Item = (&'static str, &str)> {
    let operators = line.split("styx.NewOperator(").skip(1).map(|rest| ("an operator", rest));
    let functions = line.split(REGISTERS).skip(1).filter_map(|rest| Some(("a function", rest.split_once(',')?.1)));
    operators.chain(functions).filter_map(|(what, rest)| {
        let (name, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
        (!name.contains('\\')).then_some((what, name))
    })
}

/// Lines without their comments, counted from 0.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().map(|line| line.split("//").next().unwrap_or(line)).enumerate()
}

/// The variable that a line declares with an operator in it: `var cart = styx.NewOperator(…`, or without `var`.
fn declared(line: &str) -> Option<&str> {
    let (before, _) = line.split_once(DECLARES)?;
    let (variable, package) = before.split_once('=')?;
    let package = package.trim().strip_suffix('.')?;
    if !package.chars().all(is_of_word) {
        return None;
    }
    let mut words = variable.trim_end_matches([':', ' ']).split_whitespace();
    let first = words.next()?;
    let name = if first == "var" { words.next()? } else { first };
    (name != "_" && name.chars().all(is_of_word)).then_some(name)
}

/// Whether a word is in a line, outside of its texts.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        let is_text = before.matches('"').count() % 2 == 1;
        !is_text && !before.ends_with(is_of_word) && !after.starts_with(is_of_word)
    })
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(texts: &[&str]) -> Option<String> {
        let source =
            |(number, text): (usize, &&str)| Source { path: format!("{number}.go").into(), text: (*text).to_owned() };
        check(&texts.iter().enumerate().map(source).collect::<Vec<_>>()).err().map(|error| error.message)
    }

    #[test]
    fn an_operator_that_nothing_mentions_has_no_function() {
        let lonely = |at, name| Some(format!("{at}: the operator `{name}` has no function"));
        for (texts, expected) in [
            (&["var a = styx.NewOperator(\"a\")\n"][..], lonely("0.go:1", "a")),
            (&["var a = styx.NewOperator(\"a\")", "var _ = styx.Register(a, \"f\", f)"], None),
            (
                &[
                    "var (\n\ta = styx.NewOperator(\"a\", styx.Doc(\"b\"))\n\tb = styx.NewOperator(\"b\")\n)\nvar f = Register(a)",
                ],
                lonely("0.go:3", "b"),
            ),
            (&["var aa = 1 // a\n", "\nvar a *styx.Operator = s.NewOperator(\"a\")"], lonely("1.go:2", "a")),
            (&["a := styx.NewOperator(\"a\")\nregister(a)"], None),
            (&["var a = styx.NewOperator(\"a\",\n\tstyx.StateType[int]())\n\nvar b = 1"], None),
            (&["register(styx.NewOperator(\"a\"))", "// var a = styx.NewOperator(\"a\")"], None),
            (&["var a = pair(1, styx.NewOperator(\"a\"))"], None),
            (
                &["register(styx.NewOperator(\"_a\"))\nvar f = styx.Register(a, \"2f\", f)\nother.Register(a, \"/\")"],
                Some("0.go:1: \"_a\" cannot name an operator (1 more)".to_owned()),
            ),
            (&["var f = styx.Register(a, name, f) // styx.NewOperator(\"_\")\nstyx.Register(a, \"f-1\", f)"], None),
        ] {
            assert_eq!(refused(texts), expected, "{texts:?}");
        }
    }
}
