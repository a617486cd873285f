//! Context of all clients: librdkafka's own messages go to the trace.

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;
use rdkafka::producer::{DeliveryResult, ProducerContext};

/// Sends the library's messages to the trace at level debug: the caller that waits for a broker reports it, once,
/// rather than every client at every attempt to connect.
#[derive(Debug, Clone, Copy, Default)]
pub struct TracedContext;

impl ClientContext for TracedContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        trace(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", %error, reason);
    }
}

impl ConsumerContext for TracedContext {}

impl ProducerContext for TracedContext {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

pub(super) fn trace(level: RDKafkaLogLevel, facility: &str, message: &str) {
    tracing::debug!(target: "librdkafka", ?level, facility, message);
}
