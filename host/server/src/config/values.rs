//! Values of settings: how they are read from text, and shown again.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use serde::{Serialize, Serializer};
use styx_engine::Determinism;
use styx_protocol::modes::Modes;
use styx_storage::log::kafka::Settings;

/// Kind of the log, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub enum LogKind {
    /// Files in the data directory.
    Embedded,
    /// A topic of a Kafka cluster.
    Kafka {
        /// Brokers to ask first, as `host:port,host:port`.
        brokers: String,
        /// The topic, with one partition.
        topic: String,
    },
    /// Memory: lost at exit.
    Memory,
}

/// Topic of the log, where none is named.
const LOG_TOPIC: &str = "styx-log";

impl FromStr for LogKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let place = match text {
            "embedded" => return Ok(LogKind::Embedded),
            "memory" => return Ok(LogKind::Memory),
            _ => text.strip_prefix("kafka://"),
        };
        let (brokers, topic) =
            place.map(|place| place.split_once('/').unwrap_or((place, LOG_TOPIC))).unwrap_or_default();
        if brokers.is_empty() || topic.is_empty() {
            return Err("it can be embedded, memory or kafka://HOST:PORT,HOST:PORT".to_owned());
        }
        Ok(LogKind::Kafka { brokers: brokers.into(), topic: topic.into() })
    }
}

impl From<LogKind> for String {
    fn from(kind: LogKind) -> Self {
        match kind {
            LogKind::Embedded => "embedded".into(),
            LogKind::Kafka { brokers, topic } => format!("kafka://{brokers}/{topic}"),
            LogKind::Memory => "memory".into(),
        }
    }
}

/// A setting of librdkafka, as `KEY=VALUE`; it may be a password, and is shown without.
#[derive(Clone)]
pub struct KafkaOption(String);

impl From<String> for KafkaOption {
    fn from(text: String) -> Self {
        KafkaOption(text)
    }
}

impl AsRef<str> for KafkaOption {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for KafkaOption {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", Settings::read([self]).unwrap_or_default())
    }
}

/// Shows settings of librdkafka without secrets.
pub(super) fn kafka_options<S: Serializer>(options: &[KafkaOption], serializer: S) -> Result<S::Ok, S::Error> {
    Settings::read(options).unwrap_or_default().shown().serialize(serializer)
}

/// Reads a count, which is never 0.
pub(super) fn count<const MAX: usize>(text: &str) -> Result<usize, String> {
    match text.parse().map_err(|error: std::num::ParseIntError| error.to_string())? {
        0 => Err("must be at least 1".to_owned()),
        count if count > MAX => Err(format!("must be at most {MAX}")),
        count => Ok(count),
    }
}

/// Reads a size as people write it.
///
/// # Errors
/// It is none.
pub fn bytes(text: &str) -> Result<u64, String> {
    let size: Result<ByteSize, _> = text.parse();
    size.map(|size| size.as_u64()).map_err(|_| "it is a size, such as 256MiB, or a number of bytes".to_owned())
}

/// Reads a size that has a bound.
pub(super) fn at_most<const MAX: u64>(text: &str) -> Result<u64, String> {
    let size = bytes(text)?;
    let why = || format!("must be at least 1 and at most {}", ByteSize(MAX));
    (1..=MAX).contains(&size).then_some(size).ok_or_else(why)
}

/// Reads a time that is more than none.
pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    (!time.is_zero()).then_some(time).ok_or_else(|| "must be more than nothing".to_owned())
}

const LEASE_TERM_MIN: Duration = Duration::from_secs(1);
const LEASE_TERM_MAX: Duration = Duration::from_secs(60);

/// Bounds of a number of workers, as `MIN..MAX`.
pub(super) fn bounds(text: &str) -> Result<(u32, u32), String> {
    let read = || {
        let (min, max) = text.split_once("..")?;
        Some((min.parse().ok()?, max.parse().ok()?))
    };
    let said = read().filter(|(min, max)| (1..=*max).contains(min));
    said.ok_or_else(|| "write the fewest and the most workers as MIN..MAX, such as 1..4".to_owned())
}

pub(super) fn shown_bounds<S: Serializer>(bounds: &Option<(u32, u32)>, serializer: S) -> Result<S::Ok, S::Error> {
    match bounds {
        Some((min, max)) => serializer.collect_str(&format_args!("{min}..{max}")),
        None => serializer.serialize_none(),
    }
}

pub(super) fn lease_term(text: &str) -> Result<Duration, String> {
    let term = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let fits = (LEASE_TERM_MIN..=LEASE_TERM_MAX).contains(&term);
    fits.then_some(term).ok_or_else(|| "must be at least 1s and at most 1m".to_owned())
}

pub(super) fn determinism(text: &str) -> Result<Determinism, String> {
    match text {
        "off" => Ok(Determinism::Off),
        "all" => Ok(Determinism::All),
        every => match every.parse() {
            Ok(every @ 1..) => Ok(Determinism::Sample(every)),
            _ => Err("it can be off, all, or a number such as 1000".to_owned()),
        },
    }
}

/// How lines for people are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people
    #[default]
    Text,
    /// An object of JSON on each line
    Json,
}

/// How many are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    Off,
    All,
    /// One in so many.
    OneIn(u32),
}

impl Sample {
    /// One in so many; none if 0.
    pub fn one_in(self) -> u32 {
        match self {
            Sample::Off => 0,
            Sample::All => 1,
            Sample::OneIn(many) => many,
        }
    }
}

impl FromStr for Sample {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("off", _) => Ok(Sample::Off),
            ("all", _) => Ok(Sample::All),
            (_, Ok(many @ 1..)) => Ok(Sample::OneIn(many)),
            _ => Err("it can be off, all, or a number such as 1000".to_owned()),
        }
    }
}

impl Serialize for Sample {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Sample::Off => serializer.serialize_str("off"),
            Sample::All => serializer.serialize_str("all"),
            Sample::OneIn(many) => serializer.collect_str(many),
        }
    }
}

pub(super) fn modes_text<S: Serializer>(modes: &Modes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(modes)
}

pub(super) fn determinism_text<S: Serializer>(check: &Determinism, serializer: S) -> Result<S::Ok, S::Error> {
    match check {
        Determinism::Off => serializer.serialize_str("off"),
        Determinism::All => serializer.serialize_str("all"),
        Determinism::Sample(every) => serializer.collect_str(every),
    }
}

/// Reads one of several addresses between commas.
pub(super) fn address(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(text.trim().to_owned())
}

/// A place that is asked over HTTP.
pub(super) fn http_url(text: &str) -> Result<String, String> {
    let url = reqwest::Url::parse(text).map_err(|error| error.to_string())?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(text.to_owned()),
        _ => Err("expected http://host:port".into()),
    }
}

pub(super) fn comma_separated<S: Serializer>(list: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&list.join(","))
}
