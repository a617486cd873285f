//! The log on Kafka in builds without the feature `kafka`: every use of it is refused, and says what to do.

use std::fmt;

/// True while a log waits for brokers that do not answer: never, here.
#[derive(Debug, Clone, Default)]
pub struct Stall;

impl Stall {
    pub fn is_stalled(&self) -> bool {
        false
    }
}

/// The one thing that can be said about Kafka.
#[derive(Debug, thiserror::Error)]
#[error("this build of Styx has no Kafka; build it with `cargo build --release -p styx-cli`, where it is a default")]
pub struct KafkaProblem;

/// Settings of connections to brokers: none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings;

impl Settings {
    /// Reads settings, of which there must be none.
    ///
    /// # Errors
    /// There is one.
    pub fn read<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Settings, KafkaProblem> {
        if texts.into_iter().next().is_none() { Ok(Settings) } else { Err(KafkaProblem) }
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
