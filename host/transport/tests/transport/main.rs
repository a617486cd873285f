//! The transport between nodes: everything that can come over a connection, and everything that
//! can happen to one.

mod breakage;
mod certificates;
mod codec;
mod frames;
mod generations;
mod handshakes;
mod sending;
mod support;
