//! Mutants against the suite, several at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::Result;

use crate::catalog::Mutant;
use crate::report::Outcome;
use crate::suite::{Fate, Suite};

/// Tests all of `mutants`, `jobs` at a time; tells of each on standard error, and after each gives `keep` all outcomes so far:
/// a hunt that is ended early has not been for nothing.
pub fn hunt(
    suite: &Suite,
    mutants: &[&Mutant],
    jobs: usize,
    keep: &(dyn Fn(&[Outcome]) -> Result<()> + Sync),
) -> Result<Vec<Outcome>> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
            let started = Instant::now();
            let fate = suite.test(mutant.number)?;
            let outcome = Outcome::new(mutant, fate, started.elapsed().as_secs_f64());
            let mut outcomes = outcomes.lock().expect("nobody panics while it is held");
            outcomes.push(outcome);
            let outcome = outcomes.last().expect("it has just been put there");
            let fate = match &outcome.fate {
                Fate::Caught(how) => format!("caught by {how}"),
                Fate::Survived { reached: true } => "SURVIVED".to_owned(),
                Fate::Survived { reached: false } => "SURVIVED, never reached".to_owned(),
            };
            eprintln!("{}/{} {:6.1} s  {fate}\n    {}", outcomes.len(), mutants.len(), outcome.seconds, mutant.key);
            keep(&outcomes)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    let mut outcomes = outcomes.into_inner().expect("nobody panicked while it was held");
    outcomes.sort_by(|a, b| (&a.file, a.line, &a.key).cmp(&(&b.file, b.line, &b.key)));
    Ok(outcomes)
}
