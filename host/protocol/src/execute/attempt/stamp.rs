//! When, in the serial order of its transaction, something was done.

use std::cmp::Ordering;

use super::path::Path;

/// The path of the function that did it, and how many synchronous calls that had made before.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Stamp {
    #[rkyv(with = crate::archive::Plain)]
    path: Path,
    step: u32,
}

impl Stamp {
    pub(super) fn new(path: Path, step: u32) -> Self {
        Stamp { path, step }
    }

    /// The numbers of the path and the step.
    pub fn parts(&self) -> (&[u32], u32) {
        (&self.path, self.step)
    }

    /// From [`Stamp::parts`].
    pub fn from_parts(path: &[u32], step: u32) -> Self {
        Stamp { path: path.iter().copied().collect(), step }
    }
}

impl Ord for Stamp {
    fn cmp(&self, other: &Self) -> Ordering {
        // A call precedes what its caller does next, and follows what its caller did before: what
        // ends first comes first.
        let steps = |stamp: &Stamp| stamp.path.len() + 1;
        let step = |stamp: &Stamp, at: usize| stamp.path.get(at).copied().unwrap_or(stamp.step);
        let common = steps(self).min(steps(other));
        (0..common)
            .map(|at| step(self, at).cmp(&step(other, at)))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| steps(self).cmp(&steps(other)))
    }
}

impl PartialOrd for Stamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::super::path::ASYNC;
    use super::*;

    #[test]
    fn stamps_are_in_the_order_of_a_serial_run() {
        let order: [(&[u32], u32); 9] = [
            (&[], 0),
            (&[0], 0),
            (&[0, ASYNC], 0),
            (&[], 1),
            (&[1], 0),
            (&[1], 1),
            (&[], 2),
            (&[ASYNC], 0),
            (&[ASYNC + 1], 0),
        ];
        let stamps: Vec<Stamp> = order.iter().map(|(path, step)| Stamp::from_parts(path, *step)).collect();
        assert!(stamps.is_sorted_by(|a, b| a < b));
    }
}
