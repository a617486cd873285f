//! Messages between the nodes of a generation. Below both of their users, the machines and what
//! carries their messages.

pub mod fault;
pub mod long;
pub mod mail;
pub mod message;
pub mod moving;
