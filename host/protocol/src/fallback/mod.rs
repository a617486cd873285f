//! Fallback: conflicting transactions run again in the same epoch, under locks granted in TID order
//! (Styx §6.2, §6.3).

mod component;
pub(crate) mod locks;
#[cfg(test)]
mod tests;
mod writers;

pub use component::{ComponentOutcome, Member, components, run_component};
