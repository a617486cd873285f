//! The log on Kafka in builds without the feature `kafka`: every use of it is refused, and says what to do.

use std::fmt;

pub use super::shared::KafkaProblem;

/// Settings of connections to brokers: none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings;

impl Settings {
    /// Reads settings, of which there must be none.
    pub fn read<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Settings, KafkaProblem> {
        if texts.into_iter().next().is_none() { Ok(Settings) } else { Err(KafkaProblem::Absent) }
    }

    pub fn is_empty(&self) -> bool {
        true
    }

    /// As they were written.
    pub fn shown(&self) -> Vec<String> {
        Vec::new()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[]")
    }
}
