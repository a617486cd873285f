//! What steps cost: samples of real machines, and the least that explains them.
//!
//! Every kind of step has a cost of three parts: one per step or message, and two that grow with
//! what it is about. A busy machine disturbs single samples, always upwards: of samples that should
//! be alike the lower quartile counts.

use std::collections::BTreeMap;

use super::load::Kind;

/// Kinds of steps, and what their features count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// A request is taken in.
    Submit,
    /// A message is decoded, anywhere: itself; nothing; what it lists.
    Decode(Kind),
    /// The coordinator hears a message: itself; nothing; what it lists.
    Hear(Kind),
    /// The coordinator tells all workers: messages; what all of them list together; what one lists.
    Tell(Kind),
    /// The coordinator writes a record: itself, requests.
    Record,
    /// A worker hears a message: itself, or its conflicts if it is [`Kind::Decide`]; transactions that
    /// it takes part in, or parts of graphs that a mail lists.
    Follow(Kind),
    /// A worker settles and commits at once, since nothing is shared: conflicts, transactions.
    Commit,
    /// Roots have been executed: itself, transactions.
    Executed,
    /// Parts of graphs have been executed: itself, parts.
    Advanced,
    /// Components of the fallback have run: itself, components.
    FellBack,
}

impl Op {
    /// Whether it is what the machine of a worker does.
    pub fn is_of_worker(self) -> bool {
        use Op::{Advanced, Commit, Executed, FellBack, Follow, Submit};
        matches!(self, Submit | Follow(_) | Commit | Executed | Advanced | FellBack)
    }
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Its kind.
    pub op: Op,
    /// What it was about.
    pub features: [usize; 3],
    /// How long it took.
    pub nanos: u64,
}

/// What kinds of steps cost, in ns per feature.
#[derive(Clone, Debug, Default)]
pub struct Costs(BTreeMap<Op, [f64; 3]>);

impl Costs {
    /// What explains these samples best.
    pub fn fit(samples: &[Sample]) -> Self {
        let mut alike: BTreeMap<(Op, [usize; 3]), Vec<u64>> = BTreeMap::new();
        for sample in samples {
            alike.entry((sample.op, sample.features)).or_default().push(sample.nanos);
        }
        let mut rows: BTreeMap<Op, Vec<([f64; 3], f64)>> = BTreeMap::new();
        for ((op, features), mut nanos) in alike {
            nanos.sort_unstable();
            rows.entry(op).or_default().push((features.map(|feature| feature as f64), nanos[nanos.len() / 4] as f64));
        }
        Costs(rows.into_iter().map(|(op, rows)| (op, explain(&rows))).collect())
    }

    /// Costs that are known, in ns.
    pub fn known(costs: impl IntoIterator<Item = (Op, [f64; 3])>) -> Self {
        Costs(costs.into_iter().collect())
    }

    /// What a step costs, in µs.
    pub fn micros(&self, op: Op, features: [f64; 3]) -> f64 {
        let cost = self.0.get(&op).copied().unwrap_or_default();
        cost.iter().zip(features).map(|(cost, feature)| cost * feature).sum::<f64>() / 1e3
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&Op, &[f64; 3])> {
        self.0.iter()
    }
}

/// The coefficients, none below 0, with the least squares of relative errors.
fn explain(rows: &[([f64; 3], f64)]) -> [f64; 3] {
    let mut used: Vec<usize> = (0..3).filter(|at| rows.iter().any(|(features, _)| features[*at] > 0.0)).collect();
    loop {
        let solution = least_squares(rows, &used);
        let worst = solution.iter().enumerate().min_by(|one, other| one.1.total_cmp(other.1));
        match worst {
            Some((at, value)) if *value < 0.0 => drop(used.remove(at)),
            _ => {
                let mut all = [0.0; 3];
                used.iter().zip(solution).for_each(|(at, value)| all[*at] = value);
                return all;
            }
        }
    }
}

/// Solves the normal equations of the features that are used, by elimination. What cannot be told
/// apart from a feature before it gets nothing.
fn least_squares(rows: &[([f64; 3], f64)], used: &[usize]) -> Vec<f64> {
    let count = used.len();
    let mut matrix = vec![vec![0.0; count + 1]; count];
    for (features, value) in rows {
        let weight = 1.0 / (value * value).max(1.0);
        for (row, one) in used.iter().enumerate() {
            for (column, other) in used.iter().enumerate() {
                matrix[row][column] += weight * features[*one] * features[*other];
            }
            matrix[row][count] += weight * features[*one] * value;
        }
    }
    let sizes: Vec<f64> = (0..count).map(|at| matrix[at][at]).collect();
    for pivot in 0..count {
        if matrix[pivot][pivot] <= 1e-9 * sizes[pivot] {
            matrix[pivot].fill(0.0);
            continue;
        }
        let chosen = matrix[pivot].clone();
        for (at, row) in matrix.iter_mut().enumerate().filter(|(at, _)| *at != pivot) {
            let factor = row[pivot] / chosen[pivot];
            row.iter_mut().zip(&chosen).for_each(|(value, chosen)| *value -= factor * chosen);
            debug_assert!(at < count);
        }
    }
    (0..count).map(|at| if matrix[at][at] == 0.0 { 0.0 } else { matrix[at][count] / matrix[at][at] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_samples_were_made_of_is_found() {
        let op = Op::Follow(Kind::Settle);
        let mut samples = Vec::new();
        for own in [10, 100, 1000] {
            for all in [0, 200, 4000] {
                let nanos = 500 + 30 * own as u64 + 7 * all as u64;
                // Some are disturbed.
                samples.extend([nanos, nanos, nanos * 9].map(|nanos| Sample { op, features: [1, own, all], nanos }));
            }
        }
        let costs = Costs::fit(&samples);
        let found = costs.iter().next().unwrap().1;
        for (found, expected) in found.iter().zip([500.0, 30.0, 7.0]) {
            assert!((found / expected - 1.0).abs() < 0.01, "{found} instead of {expected}");
        }
        assert!((costs.micros(op, [1.0, 100.0, 1000.0]) - 10.5).abs() < 0.1);
        // What is always the same cannot be told apart, and nothing costs less than nothing.
        let same = [Sample { op, features: [1, 5, 0], nanos: 100 }, Sample { op, features: [1, 5, 0], nanos: 100 }];
        let total = Costs::fit(&same).micros(op, [1.0, 5.0, 0.0]);
        assert!((total - 0.1).abs() < 1e-6, "{total}");
        let falling = [(10, 400), (1000, 100)].map(|(own, nanos)| Sample { op, features: [1, own, 0], nanos });
        assert!(Costs::fit(&falling).iter().all(|(_, cost)| cost.iter().all(|part| *part >= 0.0)));
    }
}
