//! What the server has to say, on standard error: lines for people, or for machines.

use std::io::IsTerminal;
use std::sync::OnceLock;

use styx_driver::diagnostic::{Diagnostic, Level};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// Lines that wait while standard error takes none; those beyond are left out.
const LINES: usize = 8192;

static LEFT_OUT: OnceLock<ErrorCounter> = OnceLock::new();

/// Begins to write lines. A thread of its own does, so that a pipe that nobody reads keeps nobody waiting; what is left
/// is written when the guard is dropped, if it can be.
pub fn begin(format: LogFormat, filter: EnvFilter) -> WorkerGuard {
    let lines = NonBlockingBuilder::default().buffered_lines_limit(LINES).thread_name("styx-lines");
    let (writer, guard) = lines.finish(std::io::stderr());
    LEFT_OUT.get_or_init(|| writer.error_counter());
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    match format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).with_target(false).compact().init(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).with_span_list(false).init(),
    }
    guard
}

/// Lines that were left out, because standard error did not take them.
pub(crate) fn left_out() -> usize {
    LEFT_OUT.get().map_or(0, ErrorCounter::dropped_lines)
}

/// Shows a line.
pub(crate) fn show(diagnostic: &Diagnostic) {
    let Diagnostic { level, code, node, generation, message } = diagnostic;
    let (code, node, generation) = (*code, node.map(|node| node.0), generation.map(|generation| generation.0));
    match level {
        Level::Debug => tracing::debug!(code, node, generation, "{message}"),
        Level::Info => tracing::info!(code, node, generation, "{message}"),
        Level::Warn => tracing::warn!(code, node, generation, "{message}"),
        Level::Error => tracing::error!(code, node, generation, "{message}"),
    }
}
