//! Tests of simulated worlds, in one program: it is compiled once, and its tests share the processors.

mod bad_input;
mod histories;
mod known;
mod migrations;
mod simulation;
mod split;
mod steps;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
