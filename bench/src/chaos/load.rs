//! The clients: many, each with one call at a time; and the pulse, which says how long nobody was answered.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::ask::{Told, insist};
use super::ledger::{Append, Ledger, Way};
use super::operation::What;
use styx_client::Client;
use styx_harness::RECOVERY_MAX;

/// After how long an answer will not come.
const PATIENCE: Duration = Duration::from_secs(150);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Ask,
    Wait,
    Stop,
}

pub(super) struct Shared {
    pub(super) client: Client,
    started: Instant,
    mode: watch::Sender<Mode>,
    busy: AtomicUsize,
    answers: AtomicU64,
    each: Vec<AtomicU64>,
    pulse: Mutex<Pulse>,
    ledger: Mutex<Ledger>,
}

struct Pulse {
    last: Instant,
    longest: Duration,
}

impl Shared {
    fn new(client: Client, ledger: Ledger, clients: usize) -> Arc<Shared> {
        let now = Instant::now();
        Arc::new(Shared {
            client,
            started: now,
            mode: watch::Sender::new(Mode::Wait),
            busy: AtomicUsize::new(0),
            answers: AtomicU64::new(0),
            each: (0..clients).map(|_| AtomicU64::new(0)).collect(),
            pulse: Mutex::new(Pulse { last: now, longest: Duration::ZERO }),
            ledger: Mutex::new(ledger),
        })
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    pub(super) fn beat(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        let mut pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        pulse.longest = pulse.longest.max(pulse.last.elapsed());
        pulse.last = Instant::now();
    }

    /// The mode that clients are to be in now.
    pub(super) fn mode(&self) -> Mode {
        *self.mode.borrow()
    }

    async fn operate(&self, what: What, way: Way) {
        let mut operation = self.ledger().operation(what, way);
        let told = insist(&self.client, operation.call(), PATIENCE).await;
        let mut ledger = self.ledger();
        match operation.read(&told) {
            Ok(end) => operation.told = end,
            Err(odd) => ledger.odd.push(odd),
        }
        if operation.told.is_some() {
            self.beat();
        }
        ledger.operations.push(operation);
    }

    async fn append(&self, way: Way) {
        let append = self.ledger().append(way, self.now_us());
        let told = insist(&self.client, append.call(), PATIENCE).await;
        match told {
            Told::Done(reply) => self.appended(append, &reply),
            Told::Unknown if way == Way::Plain => {
                self.ledger().appends.insert(append.number, append);
            }
            odd => {
                let mut ledger = self.ledger();
                ledger.odd.push(format!("append {} was answered with {odd:?}", append.number));
                ledger.appends.insert(append.number, append);
            }
        }
    }

    /// Writes down what an append was answered with.
    pub(super) fn appended(&self, mut append: Append, reply: &Value) {
        append.told_us = self.now_us();
        let read = append.read(reply);
        let mut ledger = self.ledger();
        match read {
            Ok(seen) => append.told = Some(seen),
            Err(odd) => ledger.odd.push(odd),
        }
        ledger.appends.insert(append.number, append);
        self.beat();
    }
}

pub(super) struct Load {
    pub(super) shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// So many clients; they wait until they are told to ask.
    pub(super) fn new(client: Client, ledger: Ledger, clients: usize) -> Load {
        let shared = Shared::new(client, ledger, clients);
        let clients = (0..clients).map(|number| tokio::spawn(ask(shared.clone(), number))).collect();
        Load { shared, clients }
    }

    /// Clients ask from now on.
    pub(super) fn ask(&self) {
        self.reset();
        self.shared.mode.send_replace(Mode::Ask);
    }

    /// Clients ask nothing more; returns when all have been answered.
    pub(super) async fn wait(&self) -> anyhow::Result<()> {
        self.shared.mode.send_replace(Mode::Wait);
        let started = Instant::now();
        while self.shared.busy.load(Ordering::SeqCst) > 0 {
            ensure!(started.elapsed() < PATIENCE + Duration::from_secs(5), "some clients are never answered");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// The longest time without an answer is measured from now on.
    pub(super) fn reset(&self) {
        let mut pulse = self.shared.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        *pulse = Pulse { last: Instant::now(), longest: Duration::ZERO };
    }

    /// The longest time in which nobody was answered.
    pub(super) fn stall(&self) -> Duration {
        let pulse = self.shared.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        pulse.longest.max(pulse.last.elapsed())
    }

    pub(super) fn answers(&self) -> u64 {
        self.shared.answers.load(Ordering::Relaxed)
    }

    /// Waits until every client has been answered `more` times.
    pub(super) async fn goes_on(&self, more: u64) -> anyhow::Result<()> {
        let of = |each: &AtomicU64| each.load(Ordering::Relaxed);
        let target: Vec<u64> = self.shared.each.iter().map(|each| of(each) + more).collect();
        let waiting = async {
            while self.shared.each.iter().zip(&target).any(|(each, target)| of(each) < *target) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let waited = tokio::time::timeout(RECOVERY_MAX, waiting).await;
        waited.with_context(|| format!("some clients were not answered within {RECOVERY_MAX:?}"))
    }

    /// Clients end; they must have been waited for.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.shared.mode.send_replace(Mode::Stop);
        for client in self.clients {
            client.await.context("a client broke")?;
        }
        Ok(())
    }
}

/// Two of three bring idempotency keys; a third of them moves money, another books bookings, the rest appends to lists.
async fn ask(shared: Arc<Shared>, number: usize) {
    let way = if number / 3 % 3 == 2 { Way::Plain } else { Way::Keyed };
    let mut mode = shared.mode.subscribe();
    loop {
        shared.busy.fetch_add(1, Ordering::SeqCst);
        while shared.mode() == Mode::Ask {
            match number % 3 {
                0 => shared.operate(What::Transfer, way).await,
                1 => shared.operate(What::Booking, way).await,
                _ => shared.append(way).await,
            }
            shared.each[number].fetch_add(1, Ordering::Relaxed);
        }
        shared.busy.fetch_sub(1, Ordering::SeqCst);
        let Ok(now) = mode.wait_for(|mode| *mode != Mode::Wait).await else { return };
        if *now == Mode::Stop {
            return;
        }
    }
}
