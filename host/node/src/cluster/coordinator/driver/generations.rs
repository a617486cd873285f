//! From one generation to the next: what the membership says is to be done.

use std::collections::BTreeSet;
use std::sync::Arc;

use styx_protocol::attempt::Placement;
use styx_protocol::ids::Epoch;
use styx_protocol::machine::{Config, Coordinator};
use styx_protocol::membership::{self, Seated};
use styx_protocol::modes::Modes;
use styx_protocol::replies::Retention;

use super::Driver;
use super::office::Office;
use crate::cluster::envelope::{Envelope, Invite};
use crate::transport::NodeId;
use crate::worker;

impl Driver {
    pub(super) fn member(&mut self, input: membership::Input<NodeId>) {
        let mut actions = Vec::new();
        self.membership.step(self.now_us(), input, &mut actions);
        for action in actions {
            match action {
                membership::Action::Beat(to, beat) => self.control(to, &Envelope::Beat(beat)),
                membership::Action::Refuse(to, why) => {
                    tracing::error!(node = to.0, "refused: {why}");
                    self.control(to, &Envelope::Refused(why));
                }
                membership::Action::Persist(generation) => {
                    self.close();
                    self.archive.raise(generation);
                }
                membership::Action::Begin { generation, members } => self.begin(generation, members),
                membership::Action::Invite(seated) => self.invite(&seated),
                membership::Action::Suspend => self.close(),
                membership::Action::Depose(generation) => worker::fatal(&format!(
                    "another coordinator has begun generation {generation}: two processes coordinate one cluster"
                )),
            }
        }
    }

    /// The generation is over: nobody appends any more.
    fn close(&mut self) {
        if self.office.take().is_some() {
            tracing::info!(generation = self.membership.generation(), "the generation is over");
            self.show_all();
        }
    }

    fn begin(&mut self, generation: u64, members: Vec<Seated<NodeId>>) {
        tracing::info!(generation, workers = members.len(), "a generation begins");
        self.network.set_generation(generation);
        let placement = Arc::new(Placement::round_robin(self.layout.partitions, members.len() as u16));
        let config = Config {
            layout: self.layout,
            modes: Modes::default(),
            epoch_size_max: 0,
            epoch_bytes_max: 0,
            backlog_max: 0,
            suspended_max: 0,
            retention: Retention::default(),
            engine: self.engine.engine_hash(),
            generation,
            snapshots: false,
            claim_order: false,
        };
        self.controls.clear();
        let machine = Coordinator::new(config, placement.clone());
        for member in &members {
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
            durable: Epoch(0),
            waiting_since: None,
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
            layout: self.layout,
        };
        self.control(seated.place, &Envelope::Invite(invite));
    }
}
