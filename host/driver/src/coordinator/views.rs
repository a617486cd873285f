//! What others are shown of the cluster: gateways, members, administrators.

use styx_protocol::entity::Layout;
use styx_protocol::ids::NodeId;
use styx_protocol::membership::Seated;
use styx_protocol::placement::Placement;

use super::config::CoordinatorConfig;
use super::leader::LeaderState;
use super::workers::Workers;
use crate::admission::LogCondition;
use crate::fullness::Full;
use crate::wire::{AdminQuery, CatalogVersion, Invite, Member, Overview, Query, Question, Response, SnapshotPlace};
use crate::wire::{TicketedResponse, View};

/// The cluster as it is now.
pub(super) struct Views<'a, W> {
    pub(super) config: &'a CoordinatorConfig,
    /// How keys are spread, as the generation under way has it or the last one had.
    pub(super) layout: Layout,
    pub(super) workers: &'a Workers,
    pub(super) leader: Option<&'a LeaderState<W>>,
    pub(super) log: LogCondition,
    pub(super) state: &'a Full,
}

impl<W> Views<'_, W> {
    fn members(&self) -> Vec<Member> {
        let Some(leader) = self.leader else { return Vec::new() };
        leader.members().iter().map(|member| self.workers.member(member.place)).collect()
    }

    /// For administrators.
    pub(super) fn overview(&self) -> Overview {
        let (epoch, chain) = self.leader.map(|leader| leader.position()).unwrap_or_default();
        Overview {
            single: false,
            engine: self.config.build.engine,
            generation: self.workers.generation(),
            live: self.leader.is_some_and(|leader| leader.serves()),
            epoch,
            chain,
            members: self.members(),
            placement: self.leader.map(|leader| leader.placement().version()).unwrap_or_default(),
            partitions: self.layout.partitions,
            created: self.layout.created,
            admin: self.config.admin.clone(),
        }
    }

    /// For a gateway that knows a version of the catalog.
    pub(super) fn view(&self, known: CatalogVersion) -> View {
        // A generation replays deployments: until it is live, what was known before stands.
        let live = self.leader.filter(|leader| leader.serves());
        let catalog = live.map(|leader| leader.catalog()).filter(|catalog| CatalogVersion::of(catalog) != known);
        let LogCondition { full, stalled } = self.log;
        let layout = self.layout;
        View {
            generation: self.workers.generation(),
            live: live.is_some(),
            full,
            stalled,
            state: self.state.clone(),
            members: self.members(),
            placement: match self.leader {
                Some(leader) => (**leader.placement()).clone(),
                None => Placement::round_robin(layout.partitions, 1),
            },
            layout,
            catalog: catalog.map(|catalog| catalog.image()),
        }
    }

    /// For a worker that is to be a member of the generation under way.
    pub(super) fn invite(&self, seated: &Seated<NodeId>) -> Option<Invite> {
        let leader = self.leader?;
        let me = leader.worker(seated.place)?;
        let begin = leader.found().map(|found| found.sequence);
        let store = self.config.snapshots.as_ref().map(|snapshots| SnapshotPlace {
            place: snapshots.place.clone(),
            identity: snapshots.identity,
            begin,
        });
        Some(Invite {
            generation: leader.generation(),
            life: seated.life,
            me,
            members: self.members(),
            placement: (**leader.placement()).clone(),
            layout: leader.layout(),
            retention: self.config.retention,
            record_bytes_max: self.config.record_bytes_max as u64,
            store,
        })
    }

    /// Answers what a gateway asks; what is not the coordinator's to say is the workers'.
    pub(super) fn answer(&self, queries: Vec<Query>) -> Vec<TicketedResponse> {
        let answered = queries.into_iter().map(|Query { ticket, question, .. }| {
            let response = match question {
                Question::Admin(AdminQuery::Cluster) => Response::Cluster(self.overview()),
                _ => Response::WrongGeneration,
            };
            TicketedResponse { ticket, response }
        });
        answered.collect()
    }
}
