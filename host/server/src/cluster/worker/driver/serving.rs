//! A worker's part in one generation: its machine, and what waits for it or for others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use styx_protocol::catalog::Digest;
use styx_protocol::ids::{Epoch, RequestId, WorkerId};
use styx_protocol::machine::Worker;
use styx_protocol::membership::Doubt;
use styx_protocol::message::{Mail, Message, Node};
use styx_protocol::route::memory_of;
use tokio::sync::oneshot;

use crate::handle::Waiter;
use crate::snapshots::{Collector, Written};
use styx_driver::admin_query::QueryView;
use styx_driver::wire::{AdminQuery, Invite, Response, TicketedResponse};
use styx_transport::NodeId;

/// Whoever waits for an answer.
#[derive(Debug)]
pub(in crate::cluster::worker) enum Asker {
    /// A gateway, and its ticket.
    Remote(NodeId, u64),
    /// A client in this process.
    Local(Waiter),
}

/// What waits for the coordinator to show that the generation was the current one.
pub(super) enum Doubtful {
    Unknown(Asker),
    Look(Looker, Response),
}

/// Whoever waits for a look.
pub(super) enum Looker {
    Remote(NodeId, u64),
    Local(oneshot::Sender<Response>),
}

/// A membership.
pub(in crate::cluster::worker) struct Serving {
    pub(super) invite: Invite,
    pub(super) machine: Worker<Asker>,
    pub(super) workers: BTreeMap<NodeId, WorkerId>,
    /// Messages that wait until the components of a deployment are ready.
    pub(super) stalled: VecDeque<(Node, Message)>,
    pub(super) missing: BTreeSet<Digest>,
    /// What it begins with is still being read, or components of that made ready.
    pub(super) beginning: bool,
    /// Writes its part of snapshots.
    pub(super) collector: Option<Collector>,
    /// What was written of the last one.
    pub(super) written: Option<Written>,
    pub(super) tells: BTreeMap<NodeId, Vec<TicketedResponse>>,
    /// Mail to other workers that leaves with what else this burst brings.
    pub(super) mails: BTreeMap<NodeId, Mail>,
    pub(super) durable: Epoch,
    /// Whether the log has been replayed. Before, a request might be one that is still to come again.
    pub(super) live: bool,
    /// Looks at an epoch that is not yet durable.
    pub(super) looks: VecDeque<(Epoch, Looker, Response)>,
    /// Questions whose answer is that nothing is known: held until the coordinator shows that this
    /// generation was still the current one when they came. What was looked up after them waits
    /// behind them.
    pub(super) doubts: VecDeque<(Doubt, Doubtful)>,
    pub(super) started: Instant,
}

impl Serving {
    pub(super) fn remembers(&self, id: RequestId) -> bool {
        memory_of(id, &self.invite.placement) == self.invite.me
    }

    pub(super) fn tell(&mut self, looker: Looker, response: Response) {
        match looker {
            Looker::Remote(node, ticket) => {
                self.tells.entry(node).or_default().push(TicketedResponse { ticket, response })
            }
            Looker::Local(to) => drop(to.send(response)),
        }
    }

    /// Looks at the machine; the answer is given once all that it tells is durable.
    pub(super) fn look(&mut self, looker: Looker, query: &AdminQuery) {
        let (machine, seat) = (&self.machine, self.machine.seat());
        let seen = machine.position().0;
        let view = QueryView {
            worker: seat.me,
            owns: &|partition| seat.placement.owner(partition) == seat.me,
            state: machine.state(),
            catalog: machine.catalog(),
            epoch: seen,
            waiting: machine.backlog(),
            remembered: machine.remembered(),
        };
        let answer = view.answer(query);
        match seen <= self.durable {
            true if self.doubts.is_empty() => self.tell(looker, answer),
            true => self.doubts.push_back((Doubt::default(), Doubtful::Look(looker, answer))),
            false => self.looks.push_back((seen, looker, answer)),
        }
    }
}
