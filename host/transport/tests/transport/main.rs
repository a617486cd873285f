//! The transport between nodes: everything that can come over a connection, and everything that
//! can happen to one.

mod breakage;
mod decoder;
mod frames;
mod generations;
mod greetings;
mod support;
