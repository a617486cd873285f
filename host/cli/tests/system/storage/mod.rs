//! The disk of the log gets full, in one process and in a cluster: what may write is refused, what
//! reads is answered, and nothing that was acknowledged is lost.

mod disk;
mod full;
mod memory;
