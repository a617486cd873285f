//! A cluster of real processes: it does what one process does, and goes on when parts of it are killed.

mod balances;
mod commands;
mod elastic;
mod endpoints;
mod equal;
mod kills;
mod migrations;
mod refusals;
mod rolling;
mod secure;
mod seen;
mod standby;
