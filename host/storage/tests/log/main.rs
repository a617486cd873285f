//! The embedded log through its public interface: crashes at any point, its speed, and the files of other versions of its
//! format.

mod crashes;
mod formats;
mod speed;
