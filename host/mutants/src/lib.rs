//! Mutation tests: a small change of a line that decides something must be noticed by a test or by the simulator.
//!
//! Building a program for each mutant would take half a minute each. So all of them are compiled into one program, behind
//! switches (*mutant schemata*), and the same program runs once for each, with one switch on:
//!
//! | | |
//! |---|---|
//! | [`source`] | files of a crate's product, without its tests |
//! | [`find`] | sites in a file where something can be changed, and how |
//! | [`schema`] | a file with its sites turned into switches |
//! | [`catalog`] | all mutants of all crates: numbers, keys |
//! | [`copy`] | a workspace beside the real one, with rewritten crates |
//! | [`compile`] | compiled once; what does not compile is left out |
//! | [`process`] | a child within bounds of time and memory |
//! | [`check`] | what can notice a mutant: a test, a run of the simulator |
//! | [`baseline`] | how long checks take without a mutant, and what they reach |
//! | [`suite`] | what a mutant must survive, in order |
//! | [`hunt`] | mutants against the suite, several at a time |
//! | [`equivalent`] | mutants that change nothing, each explained |
//! | [`report`] | what came out, for people and for programs |
//!
//! Each uses only those above it.

pub mod baseline;
pub mod catalog;
pub mod check;
pub mod compile;
pub mod copy;
pub mod equivalent;
pub mod find;
pub mod hunt;
pub mod process;
pub mod report;
pub mod schema;
pub mod source;
pub mod suite;
