//! What a person, or a program, sees.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal, Write};
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::error::CliError;

/// Tells people something, if their terminal is still there.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints a result; false if whoever read it reads no more, as `head` does. If it is not written for another reason, it is missed.
fn print(text: &str) -> bool {
    let mut to = std::io::stdout().lock();
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => false,
        Err(error) => {
            tell(&format!("error IO: standard output: {error}"));
            std::process::exit(1);
        }
    }
}

pub(crate) struct Output {
    json: bool,
    color: bool,
    silent: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        let color = std::io::stderr().is_terminal() && crate::environment::allows_color();
        Output { json, color, silent: false }
    }

    /// The same, but only progress and errors are seen: of a step of something larger.
    pub(crate) fn silent(mut self) -> Self {
        self.silent = true;
        self
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    pub(crate) fn error(&self, error: &CliError) {
        let CliError { code, message, hint, detail, .. } = error;
        let mut told = json!({"error": {"code": code, "message": message, "hint": hint}});
        if !detail.is_empty() {
            told["error"]["detail"] = json!(detail);
        }
        if let Some(app_code) = &error.app_code {
            told["error"]["app_code"] = json!(app_code);
        }
        // A program that reads no more, as of a server that is ready, leaves it to people to read.
        if self.json && writeln!(std::io::stdout(), "{told}").is_ok() {
            return;
        }
        for line in detail.lines() {
            tell(&format!("  {}", self.paint("2", &harmless(line))));
        }
        tell(&format!("{} {}", self.paint("1;31", "error"), harmless(&error.to_string())));
    }

    /// Whether a person at a terminal says yes; nobody else does.
    pub(crate) fn confirms(&self, question: &str) -> bool {
        if self.json || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return false;
        }
        eprint!("{} [y/N] ", harmless(question));
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
    }

    /// A line about what has been done.
    pub(crate) fn done(&self, line: &str) {
        if !self.json && !self.silent {
            tell(&format!("{} {}", self.paint("1;32", "✓"), harmless(line)));
        }
    }

    /// What has been done: a line for people, the value for programs.
    pub(crate) fn did(&self, line: &str, value: &Value) {
        if self.json {
            self.value(value);
        } else {
            self.done(line);
        }
    }

    /// A line of information.
    pub(crate) fn note(&self, line: &str) {
        if !self.json {
            tell(&self.paint("2", &harmless(line)));
        }
    }

    /// Something that a person should look at, though all goes on.
    pub(crate) fn warn(&self, line: &str) {
        if !self.json {
            tell(&format!("{} {}", self.paint("1;33", "!"), harmless(line)));
        }
    }

    /// The result, for programs and people alike.
    pub(crate) fn value(&self, value: &Value) {
        self.one_of(value);
    }

    /// One of many results; false if nobody reads any more.
    pub(crate) fn one_of(&self, value: &Value) -> bool {
        if self.silent {
            return true;
        }
        let text = if self.json { serde_json::to_string(value) } else { serde_json::to_string_pretty(value) };
        // What is escaped can only stand in a string, where it means the same.
        print(&format!("{}\n", harmless(&text.expect("JSON can be written"))))
    }

    /// A result that is JSON already, each of its values as it is written there.
    pub(crate) fn json_text(&self, text: &str) {
        let text = if self.json { text.to_owned() } else { indented(text) };
        self.line(&text);
    }

    /// A result that people and programs copy as it is.
    pub(crate) fn line(&self, line: &str) {
        self.line_of_many(line);
    }

    /// One of many; false if nobody reads any more.
    pub(crate) fn line_of_many(&self, line: &str) -> bool {
        print(&format!("{}\n", harmless(line)))
    }

    /// A result that is a text as it stands: a file, or part of one.
    pub(crate) fn text(&self, text: &str) {
        print(text);
    }

    /// Rows under a header; `value` instead, for programs.
    pub(crate) fn table(&self, header: &[&str], rows: Vec<Vec<String>>, value: &Value) {
        if self.json {
            return self.value(value);
        }
        let mut table = Table::new();
        table
            .load_style(presets::UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_header(header);
        table.add_rows(rows.iter().map(|row| row.iter().map(|cell| harmless(cell))));
        print(&format!("{table}\n"));
    }

    /// A bar of bytes; invisible in a pipe.
    pub(crate) fn bytes(&self, line: &str) -> ProgressBar {
        if self.json || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let template = "{msg} {bar:30.cyan/dim} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        let bar = ProgressBar::new(0);
        bar.set_style(ProgressStyle::with_template(template).expect("the template is right"));
        bar.set_message(line.to_string());
        bar
    }

    /// A spinner with a line of text; invisible in a pipe.
    pub(crate) fn spinner(&self, line: &str) -> ProgressBar {
        if self.json || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner();
        bar.set_style(
            ProgressStyle::with_template("{spinner:.cyan} {msg} {elapsed:.dim}").expect("the template is right"),
        );
        bar.set_message(line.to_string());
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }
}

/// Bytes as people write them.
pub(crate) fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// Text that does nothing to a terminal: what would move its cursor, change its colours or turn the direction of what follows
/// is escaped as in JSON. Keys, values and messages come from clients and guests.
fn harmless(text: &str) -> Cow<'_, str> {
    let acts = |char: char| {
        let turns =
            matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        char.is_control() && !matches!(char, '\n' | '\t') || turns
    };
    if !text.contains(acts) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if acts(char) {
            write!(shown, "\\u{:04x}", u32::from(char)).expect("a String takes everything");
        } else {
            shown.push(char);
        }
    }
    shown.into()
}

/// JSON with a line for each value, as `serde_json` writes it for people.
fn indented(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let (mut depth, mut in_string, mut is_escaped) = (0, false, false);
    let line = |shown: &mut String, depth: usize| {
        shown.push('\n');
        shown.extend(std::iter::repeat_n("  ", depth));
    };
    for letter in text.trim().chars() {
        if in_string {
            shown.push(letter);
            in_string = letter != '"' || is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
            continue;
        }
        match letter {
            ' ' | '\t' | '\n' | '\r' => continue,
            '}' | ']' => {
                depth = usize::saturating_sub(depth, 1);
                if !shown.ends_with(['{', '[']) {
                    line(&mut shown, depth);
                }
            }
            _ if shown.ends_with(['{', '[']) => line(&mut shown, depth),
            _ => {}
        }
        shown.push(letter);
        match letter {
            '"' => in_string = true,
            '{' | '[' => depth += 1,
            ',' => line(&mut shown, depth),
            ':' => shown.push(' '),
            _ => {}
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_indented_is_as_serde_json_writes_it_but_for_numbers() {
        for value in [
            serde_json::json!({"a": [1, {"b": []}, "x, [y]: {\"z\\"], "c": {}, "d": [[], [{}]], "e": -0.5, "": null}),
            serde_json::json!([]),
            serde_json::json!("a\\\" : b"),
            serde_json::json!(true),
        ] {
            assert_eq!(indented(&value.to_string()), serde_json::to_string_pretty(&value).unwrap());
        }
        assert_eq!(
            indented("[123456789012345678901234567890,1e400]"),
            "[\n  123456789012345678901234567890,\n  1e400\n]"
        );
    }

    #[test]
    fn nothing_acts_on_the_terminal() {
        for (text, shown) in [
            ("plain ü 漢\n\tx", "plain ü 漢\n\tx"),
            ("\x1b]0;title\x07", "\\u001b]0;title\\u0007"),
            ("a\u{9b}31mb\r", "a\\u009b31mb\\u000d"),
            ("user\u{202e}gpj.exe", "user\\u202egpj.exe"),
        ] {
            assert_eq!(harmless(text), shown);
        }
        let value = json!("\u{202e}\u{9b}\u{1b}");
        let text = serde_json::to_string(&value).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&harmless(&text)).unwrap(), value);
    }
}
