//! What is seen of requests and of guests' log lines: kept for a while, within bounds, for those who ask what the system
//! does. Nothing depends on it.
//!
//! Whether a request is watched is decided by its id, so that all processes decide alike: one in so many, and those whose
//! id was made for it ([`marked`]). Who is not watched pays for that look. Those that abort are kept too, a few each
//! second, with what their execution itself tells.

mod audit;
mod changes;
mod conflicts;
mod logs;
mod merge;
mod names;
mod recording;
mod traced;
mod view;

pub use audit::{Audit, AuditEntry};
pub use changes::Change;
pub(crate) use conflicts::conflicts;
pub use logs::Lines;
pub use merge::{merge, summary};
pub use recording::{Recorder, SLOW, marked};
pub use traced::{Traced, Watched};
pub use view::{
    LogEntry, Question, RequestSummary, RequestTrace, Told, TraceAccess, TraceAttempt, TraceCall, TraceConflict,
    TracePhase, Writer,
};
