//! What clients have in common: what librdkafka says of itself goes to the trace.

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;

/// Keeps the library's voice down: a broker that is away is spoken of by who waits for it, once,
/// not by every client at every attempt to connect.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl ClientContext for Quiet {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        quietly(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", %error, reason);
    }
}

impl ConsumerContext for Quiet {}

pub(super) fn quietly(level: RDKafkaLogLevel, facility: &str, message: &str) {
    tracing::debug!(target: "librdkafka", ?level, facility, message);
}
