//! What a process does with its log and its store of snapshots.
//!
//! Drivers (`styx_driver`) say what is to become durable, and when; logs and stores (`styx_storage`) keep bytes and know
//! no transactions. Between them stand the steps that a process takes: one after the other, each of them blocking. A
//! server puts threads around them, so that none waits for another; a simulator calls them as its plan has it. Both run
//! this very code.
//!
//! **Nothing here** starts a thread, owns a channel, reads a clock, draws a random number or waits for anything but the
//! storage: times, seeds, pauses and the word that nobody wants a result any more come from the caller. Nor does it
//! decide when something is done, or whether it is done again: that is a driver's.

pub mod components;
pub mod failure;
pub mod lease;
pub mod log;
pub mod manifests;
pub mod metadata;
mod objects;
pub mod parts;
pub mod recovery;
