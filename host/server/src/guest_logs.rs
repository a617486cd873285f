//! Log lines of guests, shown among the server's own.

use styx_protocol::attempt::{LogLevel, LogLine};
use styx_protocol::catalog::Catalog;
use styx_protocol::ids::Tid;

use crate::observe::Recorder;

/// Shows a line, and keeps it. Each of its lines stands on its own: what a guest says must not look like what the
/// server says.
pub(crate) fn show(recorder: &Recorder, catalog: &Catalog, tid: Tid, line: &LogLine) {
    recorder.line(catalog, tid, line);
    let operator = catalog.operator(line.operator);
    let function = operator.and_then(|operator| operator.functions().nth(line.function.into()));
    let function = function.map_or("?", |function| &*function.qualified);
    let app = operator.map_or("?", |operator| &*operator.app);
    let (tid, key, request) = (tid.0, &*line.key, tracing::field::display(line.request));
    for message in line.message.lines() {
        match line.level {
            LogLevel::Debug => tracing::debug!(target: "guest", app, function, key, request, tid, "{message}"),
            LogLevel::Info => tracing::info!(target: "guest", app, function, key, request, tid, "{message}"),
            LogLevel::Warn => tracing::warn!(target: "guest", app, function, key, request, tid, "{message}"),
            LogLevel::Error => tracing::error!(target: "guest", app, function, key, request, tid, "{message}"),
        }
    }
}
