//! Lines that drivers have for people, shown among the server's own.

use styx_driver::diagnostic::{Diagnostic, Level};

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
