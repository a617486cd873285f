//! Who may do what on the HTTP ports.
//!
//! Whoever asks shows a bearer token (`bearer`): the operator's, from a file or the environment ([`Access`]), or one that
//! the log holds. The gate (`gate`) before each port finds out whose it is, and each request's [`Visitor`] is asked whether it
//! may. Where nothing is configured everybody may, and the port listens on the loopback only.

mod access;
mod admin;
mod bearer;
mod gate;
mod jwt;
mod rates;
mod visitor;

pub use access::{ADMIN_TOKEN, Access};
pub(crate) use admin::guard_admin;
pub(crate) use bearer::draw;
pub(crate) use gate::{Gate, guard};
pub use jwt::Provider;
pub use visitor::{Identity, Visitor};
