//! Hash collections whose order depends on what is in them and on nothing else.
//!
//! `std`'s default hasher takes its seed from the instance's memory, so the order
//! of iteration differs between a fresh instance and a warm one, and with it the
//! bytes of a map that is written to the state. These use the same hash with a
//! fixed seed. Create them with `HashMap::default()`.

use std::hash::{BuildHasherDefault, DefaultHasher};

/// A `std` hash map with a fixed seed.
pub type HashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// A `std` hash set with a fixed seed.
pub type HashSet<T> = std::collections::HashSet<T, BuildHasherDefault<DefaultHasher>>;
