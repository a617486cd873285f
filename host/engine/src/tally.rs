//! What functions have used since the process began, however that ended: attempts that are made again, runs in the
//! fallback and calls that were given up while they waited are in it. Nothing depends on it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Most functions that are counted by themselves; all others together are `other`.
pub const COUNTED_MAX: usize = 1000;

/// Counters of one function in one executor, which alone writes them: adding takes no locked instruction. It has a cache
/// line of its own, so that threads do not take it from each other.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Tally {
    invocations: AtomicU64,
    fuel: AtomicU64,
}

impl Tally {
    /// Notes an invocation that is over.
    #[inline]
    pub fn add(&self, fuel: u64) {
        let add = |counter: &AtomicU64, more: u64| {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        add(&self.invocations, 1);
        add(&self.fuel, fuel);
    }
}

/// A function, and what it has used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionUse {
    pub app: String,
    pub operator: String,
    pub function: String,
    /// How often a guest has run it, for a request or another function.
    pub invocations: u64,
    /// Fuel that it has used by itself, without what it called.
    pub fuel: u64,
}

#[derive(Debug, Default)]
struct Counted {
    tallies: Vec<Arc<Tally>>,
    /// Of tallies that nobody adds to any more.
    invocations: u64,
    fuel: u64,
}

impl Counted {
    /// Keeps what was counted in tallies that their executors have let go of, as they do with each version of an app.
    fn settle(&mut self) {
        let Counted { tallies, invocations, fuel } = self;
        tallies.retain_mut(|tally| {
            let Some(tally) = Arc::get_mut(tally) else { return true };
            *invocations += *tally.invocations.get_mut();
            *fuel += *tally.fuel.get_mut();
            false
        });
    }
}

/// The tallies of all executors.
#[derive(Debug, Default)]
pub struct Tallies(Mutex<BTreeMap<[String; 3], Counted>>);

impl Tallies {
    /// One more for a function, for one executor to add to.
    pub(crate) fn tally(&self, app: &str, operator: &str, function: &str) -> Arc<Tally> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut name = [app, operator, function].map(str::to_owned);
        if counted.len() >= COUNTED_MAX && !counted.contains_key(&name) {
            name = ["other"; 3].map(str::to_owned);
        }
        let function = counted.entry(name).or_default();
        function.settle();
        let tally = Arc::new(Tally::default());
        function.tallies.push(tally.clone());
        tally
    }

    /// What was used so far, by functions that were run, in the order of their names.
    pub fn used(&self) -> Vec<FunctionUse> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let used = counted.iter_mut().map(|([app, operator, function], counted)| {
            counted.settle();
            let sum = |ended: u64, of: fn(&Tally) -> &AtomicU64| -> u64 {
                ended + counted.tallies.iter().map(|tally| of(tally).load(Ordering::Relaxed)).sum::<u64>()
            };
            FunctionUse {
                app: app.clone(),
                operator: operator.clone(),
                function: function.clone(),
                invocations: sum(counted.invocations, |tally| &tally.invocations),
                fuel: sum(counted.fuel, |tally| &tally.fuel),
            }
        });
        used.filter(|function| function.invocations > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(tallies: &Tallies) -> Vec<(String, u64, u64)> {
        tallies.used().into_iter().map(|one| (one.function, one.invocations, one.fuel)).collect()
    }

    #[test]
    fn executors_add_up_and_what_one_has_counted_outlives_it() {
        let tallies = Tallies::default();
        let [one, two, idle] = ["f", "f", "g"].map(|name| tallies.tally("app", "o", name));
        one.add(3);
        one.add(4);
        two.add(10);
        assert_eq!(seen(&tallies), [("f".into(), 3, 17)], "what was not run is not shown");
        drop((one, idle));
        assert_eq!(seen(&tallies), [("f".into(), 3, 17)]);
        tallies.tally("app", "o", "f").add(100);
        two.add(1);
        assert_eq!(seen(&tallies), [("f".into(), 5, 118)]);
        let counted = tallies.0.lock().unwrap();
        assert!(counted.values().all(|function| function.tallies.len() <= 1), "{counted:?}");
    }

    #[test]
    fn the_number_of_functions_is_bounded_and_nothing_is_lost() {
        let tallies = Tallies::default();
        (0..2 * COUNTED_MAX).for_each(|n| tallies.tally("app", "o", &format!("f{n}")).add(2));
        tallies.tally("app", "o", "f0").add(5);
        let used = tallies.used();
        assert_eq!(used.len(), COUNTED_MAX + 1);
        let of = |name: &str| used.iter().find(|one| one.function == name).map(|one| (one.invocations, one.fuel));
        assert_eq!((of("f0"), of("other")), (Some((2, 7)), Some((1000, 2000))));
    }
}
