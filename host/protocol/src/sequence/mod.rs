//! Sequencing: requests become transactions with TIDs, and an epoch's cut becomes a record of the log.
//!
//! The catalog stands here because deployments are sequenced too: which functions there are changes
//! between two epochs, by the log alone.

pub mod budget;
pub mod catalog;
pub mod control;
pub mod deployment;
pub mod interface;
pub mod origin;
pub mod outcome;
pub mod quarantine;
pub mod record;
pub mod route;
pub mod sequencer;
pub mod system;
pub mod token;
pub mod transaction;
pub mod writes;
