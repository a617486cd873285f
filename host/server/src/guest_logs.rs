//! Log lines of guests, shown among the server's own.

use styx_protocol::attempt::{LogLevel, LogLine};
use styx_protocol::catalog::Catalog;
use styx_protocol::ids::Tid;

/// Shows a line. Each of its lines stands on its own: what a guest says must not look like what the
/// server says.
pub(crate) fn show(catalog: &Catalog, tid: Tid, line: &LogLine) {
    let operator = catalog.operator(line.operator).map(|operator| operator.name.clone());
    let (tid, operator, key) = (tid.0, operator.as_deref().unwrap_or("?"), &*line.key);
    for message in line.message.lines() {
        match line.level {
            LogLevel::Debug => tracing::debug!(target: "guest", tid, operator, key, "{message}"),
            LogLevel::Info => tracing::info!(target: "guest", tid, operator, key, "{message}"),
            LogLevel::Warn => tracing::warn!(target: "guest", tid, operator, key, "{message}"),
            LogLevel::Error => tracing::error!(target: "guest", tid, operator, key, "{message}"),
        }
    }
}
