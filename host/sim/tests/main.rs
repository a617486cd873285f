//! Tests of machines, in one program: it is compiled once, and its tests share the processors.

mod cluster;
mod driver;
mod fair;
mod machine;
mod serializable;
mod snapshots;
