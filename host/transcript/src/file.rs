//! A file of transcripts: a section for each test, which begins with a line with its name and ends with an empty one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Whoever writes a file has read it before.
static FILES: Mutex<()> = Mutex::new(());

/// Compares lines with a section of a file, or writes it.
pub(crate) fn compare(file: &Path, section: &str, lines: Vec<String>, update: bool) -> Result<(), String> {
    let _alone = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut sections = read(&fs::read_to_string(file).unwrap_or_default());
    let committed = sections.get(section).map_or(&[][..], Vec::as_slice);
    let differs = |at: &usize| lines.get(*at) != committed.get(*at);
    let Some(at) = (0..lines.len().max(committed.len())).find(differs) else { return Ok(()) };
    if update {
        sections.insert(section.to_owned(), lines);
        return write(file, &sections).map_err(|error| format!("{} cannot be written: {error}", file.display()));
    }
    let shown = |lines: &[String]| lines.get(at).map_or("its end", String::as_str).to_owned();
    let before = lines[at.saturating_sub(5)..at].iter().fold(String::new(), |all, line| all + line + "\n");
    Err(format!(
        "{section} is not what {} says, from line {} on:\n{before}- {}\n+ {}\nif that is meant: UPDATE_TRANSCRIPTS=1",
        file.display(),
        at + 1,
        shown(committed),
        shown(&lines),
    ))
}

fn read(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut sections: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut lines = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("# ") {
            lines = Some(sections.entry(name.to_owned()).or_default());
        } else if let Some(lines) = lines.as_mut().filter(|_| !line.is_empty()) {
            lines.push(line.to_owned());
        }
    }
    sections
}

fn write(file: &Path, sections: &BTreeMap<String, Vec<String>>) -> std::io::Result<()> {
    let section = |(name, lines): (&String, &Vec<String>)| format!("# {name}\n{}\n", lines.join("\n"));
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(file, sections.iter().map(section).collect::<Vec<_>>().join("\n"))
}
