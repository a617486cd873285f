//! From one generation to the next: what the membership says is to be done.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use styx_protocol::ids::{EngineHash, Epoch, Generation};
use styx_protocol::machine::Coordinator;
use styx_protocol::machine::coordinator::{Config, Input};
use styx_protocol::membership::{self, Seated};
use styx_protocol::placement::Placement;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::office::{Office, Resting};
use super::{Driver, Event};
use crate::fatal::fatal;
use crate::snapshots::{Hands, Keeper, Noted, Term};
use styx_driver::wire::{Envelope, Invite, SnapshotPlace};
use styx_transport::NodeId;

impl Driver {
    pub(super) fn member(&mut self, input: membership::Input<NodeId>) {
        let mut actions = Vec::new();
        self.membership.step(self.now_us(), input, &mut actions);
        for action in actions {
            match action {
                membership::Action::Beat(to, beat) => self.control(to, &Envelope::Beat(beat)),
                membership::Action::Drain(generation) => self.rest(generation.0),
                membership::Action::Release(to) => self.control(to, &Envelope::Released),
                membership::Action::Refuse(to, why) => {
                    tracing::error!(node = to.0, "refused: {why}");
                    self.control(to, &Envelope::Refused(why));
                }
                membership::Action::Persist(generation) => {
                    self.close();
                    self.archive.raise(generation.0);
                }
                membership::Action::Begin { generation, members } => self.begin(generation.0, members),
                membership::Action::Invite(seated) => self.invite(&seated),
                membership::Action::Suspend => self.close(),
                membership::Action::Depose(generation) => fatal(&format!(
                    "another coordinator has begun generation {generation}: two processes coordinate one cluster"
                )),
            }
        }
    }

    /// The generation is to end, without haste: no gateway shall send it anything more.
    pub(super) fn rest(&mut self, generation: u64) {
        let Some(office) = &mut self.office else { return };
        tracing::info!(generation, "the generation comes to a rest");
        office.resting = Some(Resting::Busy);
        self.step(Input::Drain);
        self.show_all();
    }

    /// Looks how far the rest has come.
    pub(super) fn rested(&mut self) {
        let Some(office) = &mut self.office else { return };
        let done = match &mut office.resting {
            Some(Resting::Busy) if office.machine.is_drained() && office.durable >= office.machine.position().0 => {
                match &office.keeper {
                    Some(keeper) => {
                        let (to, kept) = oneshot::channel();
                        keeper.note(Noted::Wanted(to));
                        office.resting = Some(Resting::Kept(kept));
                        false
                    }
                    None => true,
                }
            }
            Some(Resting::Kept(kept)) => !matches!(kept.try_recv(), Err(TryRecvError::Empty)),
            _ => false,
        };
        if done {
            office.resting = Some(Resting::Done);
            let generation = office.generation;
            self.member(membership::Input::Drained(Generation(generation)));
        }
    }

    /// The generation is over: nobody appends any more.
    fn close(&mut self) {
        if let Some(mut office) = self.office.take() {
            // It may be in the middle of something that takes time, and is waited for by nobody.
            if let Some(keeper) = office.keeper.take() {
                keeper.abandon();
            }
            tracing::info!(generation = self.membership.generation().0, "the generation is over");
            self.show_all();
        }
    }

    fn begin(&mut self, generation: u64, members: Vec<Seated<NodeId>>) {
        tracing::info!(generation, workers = members.len(), "a generation begins");
        self.network.set_generation(generation);
        let placement = Arc::new(Placement::round_robin(self.genesis.layout.partitions, members.len() as u16));
        let config = Config {
            layout: self.genesis.layout,
            engine: EngineHash(self.engine.engine_hash()),
            generation: Generation(generation),
        };
        let mut machine = Coordinator::new(config, placement.clone());
        let found = self.found.clone();
        if let Some(found) = &found {
            let carried = found.head.carried.iter().map(|carried| carried.tid).collect();
            machine.restore(&found.head.frame, carried);
        }
        // Workers dial; a process that was replaced must not take them away from the next one.
        for member in members.iter().filter(|_| !self.tenure.may_end()) {
            if let Some(address) = self.addresses.get(&member.place) {
                self.network.connect(member.place, address.clone());
            }
        }
        self.office = Some(Box::new(Office {
            generation,
            machine,
            members: members.clone(),
            placement,
            joined: BTreeSet::new(),
            replay: None,
            live: false,
            resting: None,
            found,
            keeper: None,
            durable: Epoch(0),
            position: self.position,
            waiting_since: None,
            started: Instant::now(),
            staged: Instant::now(),
        }));
        members.iter().for_each(|member| self.invite(member));
        self.show_all();
        for deploying in &mut self.deploying {
            deploying.missing.clear();
        }
        self.make_ready_everywhere();
    }

    fn invite(&self, seated: &Seated<NodeId>) {
        let Some(office) = &self.office else { return };
        let Some(me) = office.worker(seated.place) else { return };
        let invite = Invite {
            generation: office.generation,
            life: seated.life,
            me,
            members: self.members(),
            placement: (*office.placement).clone(),
            layout: self.genesis.layout,
            retention: self.options.retention,
            store: self.store.as_ref().map(|store| SnapshotPlace {
                place: store.location().url().to_owned(),
                identity: store.identity(),
                begin: office.found.as_ref().map(|found| found.manifest.sequence),
            }),
        };
        self.control(seated.place, &Envelope::Invite(invite));
    }

    /// Takes snapshots of the generation that runs.
    pub(super) fn keep(&mut self) {
        let Some(office) = self.office.as_mut() else { return };
        let (Some(store), Some(options)) = (self.store.clone(), self.options.snapshots.clone()) else { return };
        let generation = office.generation;
        let (to_begin, to_remind) = (self.events.clone(), self.events.clone());
        let hands = Hands {
            begin: Box::new(move || drop(to_begin.send(Event::Snapshot(generation)))),
            remind: Box::new(move || drop(to_remind.send(Event::Remind(generation)))),
            trim: Box::new(self.archive.trimmer()),
        };
        let term = Term { generation, workers: office.members.len(), genesis: self.genesis };
        match Keeper::start(store, options, term, office.found.as_deref(), hands, self.handle.stats().clone()) {
            Ok(keeper) => office.keeper = Some(keeper),
            Err(error) => fatal(&format!("cannot start a thread: {error}")),
        }
    }
}
