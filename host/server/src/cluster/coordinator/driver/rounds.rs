//! Rounds: when one begins, and what the coordinator's machine says is to be done.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::TryRecvError;
use styx_protocol::catalog::Catalog;
use styx_protocol::ids::Generation;
use styx_protocol::machine::coordinator::{Action, Input};
use styx_protocol::membership;

use super::Driver;
use super::deployments::Announcing;
use crate::clock::now;
use crate::handle::Waiter;
use crate::snapshots::Noted;
use styx_driver::wire::Envelope;

/// Epochs that may wait for one fsync before further ones are held back to fill.
const UNSYNCED_MAX: u64 = 2;

impl Driver {
    /// Replays what is left of the log, or cuts an epoch, if it is time.
    pub(super) fn go_on(&mut self) {
        loop {
            let Some(office) = self.office.as_mut() else { return };
            if !office.machine.is_idle() {
                return;
            }
            if let Some(records) = &office.replay {
                match records.try_recv() {
                    Ok(record) => {
                        office.durable = record.epoch;
                        self.step(Input::Replay(record));
                    }
                    Err(TryRecvError::Empty) => return,
                    Err(TryRecvError::Disconnected) => self.go_live(),
                }
                continue;
            }
            if !office.live || !office.machine.has_work() {
                return;
            }
            if self.patience().is_some() {
                return;
            }
            if let Some(office) = self.office.as_mut() {
                (office.waiting_since, office.started) = (None, Instant::now());
            }
            self.step(Input::Tick { now: now() });
        }
    }

    fn go_live(&mut self) {
        let Some(office) = self.office.as_mut() else { return };
        office.replay = None;
        office.live = true;
        let (generation, (epoch, chain)) = (office.generation, office.machine.position());
        let catalog = office.machine.catalog().clone();
        office.durable = epoch;
        let stats = self.handle.stats();
        stats.epoch.store(epoch.0, Ordering::Relaxed);
        stats.durable.store(epoch.0, Ordering::Relaxed);
        tracing::info!(generation, epoch = epoch.0, %chain, "live");
        self.step(Input::Durable(epoch));
        self.handle.show_catalog(Arc::new(catalog));
        self.member(membership::Input::Live(Generation(generation)));
        self.show_all();
        self.sequence();
        self.keep();
    }

    /// How much longer the next epoch may fill; `None` if it is to be cut now.
    pub(super) fn patience(&mut self) -> Option<Duration> {
        let wait = self.options.epoch_max_wait;
        let office = self.office.as_mut()?;
        let unsynced = office.machine.position().0.0.saturating_sub(office.durable.0);
        if unsynced < UNSYNCED_MAX || self.stopping.is_some() {
            return None;
        }
        let since = *office.waiting_since.get_or_insert_with(Instant::now);
        wait.checked_sub(since.elapsed()).filter(|left| !left.is_zero())
    }

    pub(super) fn step(&mut self, input: Input<Waiter>) {
        let Some(office) = self.office.as_mut() else { return };
        let mut actions = Vec::new();
        let before = office.machine.stage();
        office.machine.step(input, &mut actions);
        if office.machine.stage() != before {
            let since = std::mem::replace(&mut office.staged, Instant::now());
            if let Some(stage) = before.filter(|_| office.live) {
                self.handle.stats().rounds.add(stage, since);
            }
        }
        for action in actions {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Action<Waiter>) {
        let Some(office) = self.office.as_mut() else { return };
        match action {
            Action::Append(record) => {
                let deploys = !record.controls.is_empty();
                self.archive.append(office.generation, record);
                if deploys {
                    let catalog: Catalog = office.machine.catalog().clone();
                    self.handle.show_catalog(Arc::new(catalog));
                    self.show_all();
                }
            }
            Action::Send { to: worker, message } => {
                let node = office.node(worker);
                if self.tenure.hold()
                    && let Err(error) = self.network.send(node, message.encode())
                {
                    tracing::warn!(node = node.0, "a message cannot be sent: {error}");
                }
            }
            Action::Controlled { waiter, result } => {
                let known = office.machine.catalog().version();
                self.announcing.push_back(Announcing { known, since: Instant::now(), waiter, result });
                self.announce();
            }
            Action::Expel { worker, expected, found } => {
                let node = office.node(worker);
                let why = format!(
                    "this worker has deployed {found:016x}, its coordinator {expected:016x}: restart it with an empty data directory"
                );
                tracing::error!(node = node.0, "expelled: {why}");
                self.control(node, &Envelope::Refused(why));
                self.member(membership::Input::Lost(node));
            }
            Action::Snapshot(frame) => {
                let keeper = office.keeper.as_ref().expect("nobody else asks for snapshots");
                keeper.note(Noted::SnapshotHeader(frame, office.position));
            }
            Action::Finished(summary) => {
                self.handle.stats().finished(&summary, office.started.elapsed().as_micros() as u64);
            }
        }
    }
}
