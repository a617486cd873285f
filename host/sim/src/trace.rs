//! A hash over everything that happens, to prove that a seed gives one run; and, when somebody
//! wants to read it, the same as lines.

/// The trace of a world.
#[derive(Debug, Default)]
pub struct Trace {
    hash: u64,
    /// Lines, if they are wanted.
    pub lines: Option<Vec<String>>,
}

impl Trace {
    /// Nothing has happened yet.
    pub fn new(lines: bool) -> Self {
        Trace { hash: 0, lines: lines.then(Vec::new) }
    }

    /// Something happened: what it was, as numbers, and how to tell it.
    pub fn event<const N: usize>(&mut self, now: u64, what: [u64; N], line: impl FnOnce() -> String) {
        for number in std::iter::once(now).chain(what) {
            self.hash = (self.hash.rotate_left(23) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            self.hash ^= self.hash >> 31;
        }
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{now:>9} {}", line()));
        }
    }

    /// The hash of all events so far.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}
