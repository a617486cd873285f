//! The budget's file: instructions per call by case, and where they were counted.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// A case may take so much more than its budget: counts of one program repeat to a thousandth.
const TOLERANCE_PERCENT: f64 = 2.0;

/// So much less is worth a tighter budget.
const TIGHTEN_PERCENT: f64 = 5.0;

const HEADER: &str = "\
# Instructions per call on the hot path, by case. `just budget` counts and compares; what is more than two in a
# hundred above its budget fails, and what is five below asks for a tighter one: `just budget --update` writes this file.
";

/// What calls may take.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sheet {
    /// Where it was counted.
    place: Option<String>,
    #[serde(default)]
    instructions: BTreeMap<String, u64>,
}

/// How a count stands to its budget.
#[derive(Debug, PartialEq)]
pub enum Standing {
    /// There is none, or it is of another place.
    Unknown,
    /// As it should be.
    Within { percent: f64 },
    /// More than it may be.
    Over { percent: f64, budget: u64 },
    /// Much less.
    Below { percent: f64 },
}

impl Sheet {
    /// Reads the file; an empty sheet if there is none.
    pub fn read(path: &Path) -> anyhow::Result<Sheet> {
        match std::fs::read_to_string(path) {
            Ok(text) => toml::from_str(&text).with_context(|| format!("reading {}", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Sheet::default()),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    /// Writes the file.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = format!("{HEADER}{}", toml::to_string(self)?);
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Where it was counted.
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// Whether it was counted at such a place.
    pub fn is_of(&self, place: &str) -> bool {
        self.place() == Some(place)
    }

    /// How a count stands.
    pub fn standing(&self, place: &str, case: &str, counted: u64) -> Standing {
        let Some(&budget) = self.instructions.get(case).filter(|_| self.is_of(place)) else {
            return Standing::Unknown;
        };
        let percent = (counted as f64 - budget as f64) * 100.0 / budget as f64;
        match percent {
            _ if percent > TOLERANCE_PERCENT => Standing::Over { percent, budget },
            _ if percent < -TIGHTEN_PERCENT => Standing::Below { percent },
            _ => Standing::Within { percent },
        }
    }

    /// Takes a count as the budget. What was counted elsewhere is of no use beside it.
    pub fn note(&mut self, place: &str, case: &str, counted: u64) {
        if !self.is_of(place) {
            *self = Sheet { place: Some(place.to_owned()), instructions: BTreeMap::new() };
        }
        self.instructions.insert(case.to_owned(), counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_fails_and_less_is_told() {
        let mut sheet = Sheet::default();
        sheet.note("here", "native", 10_000);
        for (counted, within, over) in
            [(9_400, false, false), (9_500, true, false), (10_200, true, false), (10_201, false, true)]
        {
            let standing = sheet.standing("here", "native", counted);
            assert_eq!(matches!(standing, Standing::Within { .. }), within, "{standing:?}");
            assert_eq!(matches!(standing, Standing::Over { budget: 10_000, .. }), over, "{standing:?}");
        }
        assert_eq!(sheet.standing("here", "door", 1), Standing::Unknown);
    }

    #[test]
    fn a_budget_of_another_place_is_not_compared_and_is_replaced() {
        let mut sheet = Sheet::default();
        sheet.note("there", "native", 1);
        sheet.note("there", "door", 1);
        assert_eq!(sheet.standing("here", "native", 2), Standing::Unknown);
        sheet.note("here", "native", 2);
        assert_eq!(sheet.standing("here", "native", 2), Standing::Within { percent: 0.0 });
        assert_eq!(sheet.standing("here", "door", 1), Standing::Unknown);
    }

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("budget.toml");
        assert_eq!(Sheet::read(&path).unwrap().place(), None);
        let mut sheet = Sheet::default();
        sheet.note("here", "native", 5);
        sheet.write(&path).unwrap();
        assert_eq!(Sheet::read(&path).unwrap().standing("here", "native", 5), Standing::Within { percent: 0.0 });
    }
}
