//! Leadership as the threads of a coordinator share it: for ever, if nobody else can coordinate; or for as long as a
//! thread renews the lease.
//!
//! The driver decides by it what it does ([`styx_driver::leadership`]). What it wants sent is held back here once
//! more, since a process may be paused between a step and its effects: so it says nothing that is no longer true.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use styx_driver::leadership::LeaseEffect;
use styx_durability::lease::Claim;
use tokio::sync::watch;

use crate::diagnostics;
use crate::fatal::fatal_on_panic;

/// How often whoever waits for the renewal looks.
const LOOK: Duration = Duration::from_millis(2);

/// For how long this process may coordinate. Clones are the same.
#[derive(Clone, Debug)]
pub struct Leadership(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    started: Instant,
    /// µs since then; never, or forever, at the ends.
    until: AtomicU64,
    /// Nobody waits any more for what is not held.
    ending: AtomicBool,
    /// Who has it instead.
    lost: watch::Sender<Option<String>>,
}

const FOREVER: u64 = u64::MAX;

impl Leadership {
    /// Of a coordinator that is the only one.
    pub fn forever() -> Self {
        Leadership::until(FOREVER)
    }

    /// Of one that does not lead yet.
    pub fn none() -> Self {
        Leadership::until(0)
    }

    fn until(until: u64) -> Self {
        let (until, ending, lost) = (AtomicU64::new(until), AtomicBool::new(false), watch::Sender::new(None));
        Leadership(Arc::new(Shared { started: Instant::now(), until, ending, lost }))
    }

    /// The clock by which it is counted, in µs.
    pub fn now_us(&self) -> u64 {
        self.0.started.elapsed().as_micros() as u64
    }

    /// The clock, for steps of the driver.
    pub(crate) fn now(&self) -> styx_driver::time::Instant {
        styx_driver::time::Instant(self.now_us())
    }

    /// What the driver must know.
    pub(crate) fn view(&self) -> styx_driver::leadership::Leadership {
        use styx_driver::leadership::Leadership as View;
        match self.0.until.load(Ordering::Acquire) {
            _ if self.is_lost() => View::Lost,
            FOREVER => View::Forever,
            until => View::Until(styx_driver::time::Instant(until)),
        }
    }

    /// Whether this process may act in the coordinator's name now.
    pub fn holds(&self) -> bool {
        let until = self.0.until.load(Ordering::Acquire);
        until == FOREVER || self.now_us() < until
    }

    /// Whether another process may coordinate some time.
    pub fn may_end(&self) -> bool {
        self.0.until.load(Ordering::Acquire) != FOREVER
    }

    /// Waits until it may. False if it never will again, or was told to end meanwhile.
    pub(crate) fn hold(&self) -> bool {
        while !self.holds() {
            if self.0.ending.load(Ordering::Acquire) || self.0.lost.borrow().is_some() {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    /// From now on nobody waits for what is not held.
    pub(crate) fn end(&self) {
        self.0.ending.store(true, Ordering::Release);
    }

    /// Waits until somebody else leads; says who. Never, if there is nobody else.
    pub async fn lost(&self) -> String {
        let mut lost = self.0.lost.subscribe();
        let told = lost.wait_for(Option::is_some).await.ok().and_then(|lost| lost.clone());
        match told {
            Some(who) => who,
            None => std::future::pending().await,
        }
    }

    /// Whether somebody else leads.
    pub fn is_lost(&self) -> bool {
        self.0.lost.borrow().is_some()
    }

    fn extend(&self, until: u64) {
        self.0.until.fetch_max(until, Ordering::AcqRel);
    }

    fn lose(&self, who: String) {
        self.0.until.store(0, Ordering::Release);
        self.0.lost.send_replace(Some(who));
    }
}

/// A thread that renews the lease.
#[derive(Debug)]
pub struct LeaseRenewal {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<Option<Claim>>>,
    leadership: Leadership,
}

impl LeaseRenewal {
    /// Begins with a lease that is held until then, and holds on to it.
    pub fn start(leadership: Leadership, claim: Claim, until: styx_driver::time::Instant) -> std::io::Result<Self> {
        let stop = Arc::<(Mutex<bool>, Condvar)>::default();
        leadership.extend(until.0);
        let (told, held) = (stop.clone(), leadership.clone());
        let thread = std::thread::Builder::new().name("styx-lease".into()).spawn(move || {
            let mut kept = None;
            fatal_on_panic("lease", || kept = renew(claim, &held, &told));
            kept
        })?;
        Ok(LeaseRenewal { stop, thread: Some(thread), leadership })
    }

    /// Gives the lease back, so that another one leads at once. Nothing may be done in its name any more.
    pub fn release(mut self) {
        let Some(claim) = self.end() else { return };
        self.leadership.lose("nobody: it was given back".into());
        if let Err(error) = claim.release() {
            tracing::warn!("the lease could not be given back, and runs out: {error}");
        }
    }

    fn end(&mut self) -> Option<Claim> {
        let (stopped, changed) = &*self.stop;
        *stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
        self.thread.take().and_then(|thread| thread.join().ok().flatten())
    }
}

impl Drop for LeaseRenewal {
    fn drop(&mut self) {
        self.end();
    }
}

/// Renews what is claimed until told to stop, or lost; gives it back if it is still held.
fn renew(mut claim: Claim, leadership: &Leadership, (stopped, changed): &(Mutex<bool>, Condvar)) -> Option<Claim> {
    loop {
        let pause = claim.due()?.since(leadership.now());
        let stop = stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let stop = changed.wait_timeout_while(stop, pause, |stop| !*stop).unwrap_or_else(PoisonError::into_inner);
        if *stop.0 {
            return Some(claim);
        }
        drop(stop);
        for effect in claim.step(&|| leadership.now()).expect("whoever holds a lease knows the store") {
            match effect {
                LeaseEffect::Lead(until) => leadership.extend(until.0),
                LeaseEffect::Lost(holder) => {
                    leadership.lose(holder);
                    return None;
                }
                LeaseEffect::Diagnostic(diagnostic) => diagnostics::show(&diagnostic),
                other => unreachable!("{other:?} of one that leads"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use styx_storage::snapshot::{Leases, Memory, StoreLocation};

    use super::*;

    const TERM: Duration = Duration::from_millis(400);

    /// Claims the lease until it is got.
    fn lead(leases: Leases, holder: &str, leadership: &Leadership) -> LeaseRenewal {
        let started = Instant::now();
        let mut claim = Claim::new(leases, holder.into(), TERM, leadership.now());
        loop {
            match claim.step(&|| leadership.now()).unwrap().pop() {
                Some(LeaseEffect::Lead(until)) => {
                    return LeaseRenewal::start(leadership.clone(), claim, until).unwrap();
                }
                _ => assert!(started.elapsed() < 20 * TERM, "{holder} does not get the lease"),
            }
            std::thread::sleep(TERM / 20);
        }
    }

    #[test]
    fn it_is_held_while_it_is_renewed_and_then_by_the_next_one() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let memory = Memory::default();
        let leases = || Leases::open(&StoreLocation::in_memory(&memory), runtime.handle()).unwrap();
        let (first, second) = (Leadership::none(), Leadership::none());
        assert!(!first.holds());
        let holding = lead(leases(), "one", &first);
        assert!(first.holds() && first.hold());

        // For longer than a term, there is always one.
        let until = Instant::now() + 3 * TERM;
        while Instant::now() < until {
            assert!(first.hold());
            std::thread::sleep(TERM / 50);
        }

        // Given back, it is had at once.
        let waited = Instant::now();
        holding.release();
        assert!(!first.holds() && first.is_lost() && !first.hold());
        let holding = lead(leases(), "two", &second);
        assert!(waited.elapsed() < TERM, "{:?}", waited.elapsed());

        // No longer renewed, it runs out before another one gets it.
        let third = Leadership::none();
        let watching = leases();
        drop(watching.acquire("three", 1, third.now_us()).unwrap());
        let held = second.clone();
        drop(holding);
        let three = lead(watching, "three", &third);
        assert!(!held.holds() && !held.is_lost());
        held.end();
        assert!(!held.hold(), "nobody waits for what is over");

        // Whoever renews what another one has learns of it.
        let fourth = Leadership::none();
        three.release();
        let holding = lead(leases(), "four", &fourth);
        let _other = lead(leases(), "four", &Leadership::none());
        let lost = runtime.block_on(async { tokio::time::timeout(10 * TERM, fourth.lost()).await });
        assert_eq!(lost.unwrap(), "four");
        assert!(!fourth.hold());
        drop(holding);
        assert!(Leadership::forever().hold());
    }
}
