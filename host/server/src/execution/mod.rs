//! Execution of guests beside the thread that decides: a pool of threads, each with an executor of its
//! own, and the dispatcher that hands work to them and puts together what they return.

pub(crate) mod dispatcher;
pub(crate) mod long;
pub(crate) mod pool;

pub(crate) use dispatcher::{Dispatcher, Finished, INLINE_MAX};
pub(crate) use long::{LongEvent, LongPool};
pub(crate) use pool::{Completion, ExecutionPool};
