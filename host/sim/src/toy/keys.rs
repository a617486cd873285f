//! The keys that toy programs know: a few hundred, by number.

use std::sync::LazyLock;

/// Number of keys.
pub const COUNT: usize = 256;

static NAMES: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..COUNT).map(|number| format!("{}k{number:03}", prefix(number))).collect());

/// The name of a key: `p2:k006`. Composite keys of one prefix share a partition.
pub fn name(number: u64) -> &'static str {
    &NAMES[number as usize % COUNT]
}

/// The number of a key by its name; some number, if a peer made the name up.
pub fn number(name: &str) -> usize {
    let digits = name.len().checked_sub(3).and_then(|at| name.get(at..));
    digits.and_then(|digits| digits.parse().ok()).map_or(0, |number: usize| number % COUNT)
}

/// The name of a key, for ever.
pub fn intern(name: &str) -> &'static str {
    &NAMES[number(name)]
}

/// Prefix of a key's name.
pub fn prefix(number: usize) -> &'static str {
    ["p0:", "p1:", "p2:", "p3:"][number % 4]
}
