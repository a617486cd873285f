//! What gateways and endpoints are shown of the cluster: who is a member, and what is deployed.

use std::time::Instant;

use styx_protocol::catalog::Catalog;
use styx_protocol::placement::Placement;

use super::Driver;
use styx_driver::wire::{CatalogVersion, Envelope, Member, Overview, View};
use styx_transport::NodeId;

/// A gateway that wants to be told of changes.
pub(in crate::cluster::coordinator) struct Watching {
    /// What it knows to be deployed.
    pub(super) known: CatalogVersion,
    /// When it was last heard of.
    pub(super) heard: Instant,
}

impl Driver {
    pub(super) fn overview(&self) -> Overview {
        let (epoch, chain) = self.office.as_ref().map(|office| office.machine.position()).unwrap_or_default();
        Overview {
            single: false,
            engine: self.engine.engine_hash(),
            generation: self.membership.generation().0,
            live: self.office.as_ref().is_some_and(|office| office.serves()),
            epoch,
            chain,
            members: self.members(),
            partitions: self.genesis.layout.partitions,
            admin: self.options.admin.clone(),
        }
    }

    pub(super) fn members(&self) -> Vec<Member> {
        let Some(office) = &self.office else { return Vec::new() };
        let address = |node| self.addresses.get(&node).cloned().unwrap_or_default();
        office.members.iter().map(|member| Member { node: member.place, address: address(member.place) }).collect()
    }

    pub(super) fn show_all(&mut self) {
        let view = self.view(CatalogVersion::default());
        self.relay.view(view);
        let gateways: Vec<NodeId> = self.gateways.keys().copied().collect();
        gateways.into_iter().for_each(|gateway| self.show(gateway));
    }

    /// Tells gateways when the log has no room or waits, and when that is over.
    pub(super) fn show_room(&mut self) {
        let room = self.handle.admission();
        let now = (room.is_full(), room.is_stalled());
        if std::mem::replace(&mut self.shown, now) != now {
            self.show_all();
        }
    }

    pub(super) fn show(&mut self, gateway: NodeId) {
        let known = self.gateways.get(&gateway).map(|watching| watching.known).unwrap_or_default();
        let view = self.view(known);
        self.control(gateway, &Envelope::View(view));
    }

    fn view(&self, known: CatalogVersion) -> View {
        // A generation replays deployments: until it is live, what was known before stands.
        let live = self.office.as_ref().filter(|office| office.serves());
        let catalog =
            live.map(|office| office.machine.catalog()).filter(|catalog| CatalogVersion::of(catalog) != known);
        View {
            generation: self.membership.generation().0,
            live: live.is_some(),
            full: self.handle.admission().is_full(),
            stalled: self.handle.admission().is_stalled(),
            members: self.members(),
            placement: match &self.office {
                Some(office) => (*office.placement).clone(),
                None => Placement::round_robin(self.genesis.layout.partitions, 1),
            },
            layout: self.genesis.layout,
            catalog: catalog.map(Catalog::image),
        }
    }
}
