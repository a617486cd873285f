//! Transcripts: what something without IO was told in a test, and all that it did, line by line, against what is committed.
//!
//! A test asserts what it is about. Its transcript holds everything else: that nothing more was sent, in which order, with
//! which figures. A change of behaviour shows in the diff of a file that people can read. `UPDATE_TRANSCRIPTS=1` writes it.
//! A long transcript ends with a digest: with `WHOLE_TRANSCRIPTS` and a directory, before and after a change, all of it is
//! there to be compared.

mod digest;
mod file;

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::path::PathBuf;
use std::{env, fs, thread};

pub use digest::Digest;

/// At the start of a test: `let _transcript = scenario!("name");` and what this thread is [`told`] and [`did`] until the end
/// of the test stands in `tests/transcripts/name.txt` of the crate.
#[macro_export]
macro_rules! scenario {
    ($file:literal) => {
        $crate::Scenario::begin($file, {
            fn here() {}
            std::any::type_name_of_val(&here)
        })
    };
}

/// A longer line is cut off, and ends with a digest of all of it.
const WIDTH: usize = 180;
/// Further lines are told as a digest.
const LENGTH: usize = 100;

thread_local! {
    static TRANSCRIPT: RefCell<Option<Transcript>> = const { RefCell::new(None) };
}

/// What a test has told and seen.
type Transcript = Vec<String>;

/// A test with a transcript, which is compared when this is dropped.
#[derive(Debug)]
#[must_use = "the transcript ends when it is dropped"]
pub struct Scenario {
    file: PathBuf,
    /// The test's name.
    section: String,
}

impl Scenario {
    /// See [`scenario`]; `here` is the path of something in the test.
    ///
    /// # Panics
    /// It is not run by Cargo, or one is under way.
    pub fn begin(file: &str, here: &str) -> Self {
        let directory = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("Cargo runs the tests"));
        Scenario::at(directory.join(format!("tests/transcripts/{file}.txt")), here)
    }

    fn at(file: PathBuf, here: &str) -> Self {
        let before = TRANSCRIPT.replace(Some(Transcript::default()));
        assert!(before.is_none(), "a test has one transcript");
        Scenario { file, section: here.rsplit("::").nth(1).unwrap_or(here).to_owned() }
    }

    fn end(&self, update: bool) -> Result<(), String> {
        let mut lines = TRANSCRIPT.take().unwrap_or_default();
        if let Some(directory) = env::var_os("WHOLE_TRANSCRIPTS") {
            let whole = PathBuf::from(directory).join(format!("{}.txt", self.section));
            fs::write(whole, lines.join("\n")).map_err(|error| error.to_string())?;
        }
        if lines.len() > LENGTH {
            let more = lines.split_off(LENGTH);
            let mut digest = Digest::default();
            more.iter().for_each(|line| digest.take(line));
            lines.push(format!("… and {} lines more: {digest}", more.len()));
        }
        file::compare(&self.file, &self.section, lines, update)
    }
}

impl Drop for Scenario {
    fn drop(&mut self) {
        // A test that fails says why itself.
        if thread::panicking() {
            TRANSCRIPT.take();
        } else if let Err(why) = self.end(env::var_os("UPDATE_TRANSCRIPTS").is_some()) {
            panic!("{why}");
        }
    }
}

/// Something is told something.
pub fn told(what: &impl Debug) {
    line("> ", what);
}

/// It does something.
pub fn did(what: &impl Debug) {
    line("  ", what);
}

/// Nothing of this is noted: it is how a test comes to what it is about.
pub fn quietly<T>(run: impl FnOnce() -> T) -> T {
    let transcript = TRANSCRIPT.take();
    let result = run();
    TRANSCRIPT.set(transcript);
    result
}

fn line(before: &str, what: &impl Debug) {
    TRANSCRIPT.with_borrow_mut(|transcript| {
        let Some(transcript) = transcript else { return };
        let mut line = format!("{before}{what:?}");
        if line.len() > WIDTH {
            let mut digest = Digest::default();
            digest.take(&line);
            line.truncate(line.floor_char_boundary(WIDTH));
            write!(line, "… {digest}").expect("a string takes everything");
        }
        transcript.push(line);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_shown_and_written_only_on_demand() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("transcripts/some.txt");
        let checked = |lines: &[&str], update| {
            let scenario = Scenario::at(file.clone(), "some::test::here");
            told(&1);
            lines.iter().for_each(did);
            let result = scenario.end(update);
            std::mem::forget(scenario);
            result
        };
        assert!(checked(&["a", "b"], false).unwrap_err().contains("+ > 1"), "nothing is committed");
        checked(&["a", "b"], true).unwrap();
        checked(&["a", "b"], false).unwrap();
        for (lines, shown) in [(&["a"][..], "+ its end"), (&["a", "b", "c"], "- its end"), (&["b", "b"], "+   \"b\"")] {
            let why = checked(lines, false).unwrap_err();
            assert!(why.contains(shown) && why.contains("UPDATE_TRANSCRIPTS=1"), "{why}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "# test\n> 1\n  \"a\"\n  \"b\"\n");
    }

    #[test]
    fn what_is_cut_off_counts() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("some.txt");
        let lines = |long: &str, last: usize| {
            let scenario = Scenario::at(file.clone(), "some::test::here");
            did(&long);
            (0..=LENGTH).for_each(|number| did(&number));
            did(&last);
            let result = scenario.end(true);
            std::mem::forget(scenario);
            result.unwrap();
            fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let long = |end| "é".repeat(WIDTH) + end;
        let (one, other, third) = (lines(&long("a"), 1), lines(&long("b"), 1), lines(&long("a"), 2));
        assert_eq!(one.len(), LENGTH + 2);
        let shown = |line: &str| line.chars().take(WIDTH / 2).collect::<String>();
        assert!(one[1] != other[1] && shown(&one[1]) == shown(&other[1]));
        assert!(one[1] == third[1] && one[LENGTH + 1] != third[LENGTH + 1]);
        assert!(one[LENGTH + 1].starts_with("… and 3 lines more: "), "{}", one[LENGTH + 1]);
    }

    #[test]
    fn without_a_scenario_or_quietly_nothing_is_kept() {
        did(&1);
        let scenario = Scenario::at(PathBuf::new(), "some::test::here");
        quietly(|| did(&2));
        std::mem::forget(scenario);
        assert_eq!(TRANSCRIPT.take(), Some(Transcript::default()));
    }
}
