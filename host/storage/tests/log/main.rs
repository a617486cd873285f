//! The embedded log through its public interface: its speed, and the files of other versions of its format.

mod formats;
mod speed;
