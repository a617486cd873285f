//! What a process rests on fails it: the disk of the log gets full, in one process and in a cluster, files are taken away,
//! memory or the clock is not as it should be, or apps want more state than there may be. Nothing that was acknowledged is lost, and what is wrong is said.

mod disk;
mod environment;
mod full;
mod memory;
mod quota;
