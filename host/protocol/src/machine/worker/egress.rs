//! Egress: replies that are remembered, clients that wait for them, and the outbox, which holds
//! responses until their epoch is durable.

use std::collections::BTreeMap;

use super::{Action, ClientResponse};
use crate::abort::Code;
use crate::commit::replies::{Kept, Known, Reply, ReplyChange, ReplyTable, RestoredReplies, Retention};
use crate::ids::{Epoch, RequestId, Timestamp};
use crate::machine::outbox::Outbox;
use crate::sequence::outcome::RetainedEnd;
use crate::sequence::quarantine::Quarantine;
use crate::state::entity::{Layout, Payload};

#[derive(Debug)]
pub(super) struct Egress<W> {
    replies: ReplyTable,
    /// Further clients that wait for the end of a request that is remembered.
    waiting: BTreeMap<RequestId, Vec<W>>,
    /// Ends in the epoch under way.
    ended: Vec<RetainedEnd>,
    outbox: Outbox<ClientResponse<W>>,
    /// The last epoch that has released something.
    released: Epoch,
}

impl<W> Egress<W> {
    /// Nothing is remembered of requests in so many partitions; changes are tracked if `snapshots` are taken of them.
    pub fn new(retention: Retention, layout: Layout, snapshots: bool) -> Self {
        let mut replies = ReplyTable::new(retention, layout);
        if snapshots {
            replies.track();
        }
        Egress { replies, waiting: BTreeMap::new(), ended: Vec::new(), outbox: Outbox::default(), released: Epoch(0) }
    }

    // What is remembered.

    /// What is known of a request that was sequenced, and the hash of its body.
    pub fn known(&self, id: RequestId) -> Option<(&Known, u64)> {
        self.replies.get(id)
    }

    pub fn remembered(&self) -> usize {
        self.replies.len()
    }

    pub fn forgotten_early(&self) -> u64 {
        self.replies.forgotten_early()
    }

    /// A request whose reply is kept is sequenced.
    pub fn begin(&mut self, id: RequestId, body: u64) {
        self.replies.begin(id, body);
    }

    /// Forgets what need not be remembered any more.
    pub fn trim(&mut self, time: Timestamp) {
        self.replies.trim(time);
    }

    /// Something is released in an epoch: what was refused because of it may be asked again.
    pub fn forget_quarantined(&mut self, quarantine: &Quarantine, epoch: Epoch) {
        self.released = epoch;
        self.replies.forget(|reply| {
            let is_refusal = matches!(&reply.outcome, Err(abort) if abort.code == Code::Quarantined);
            is_refusal && quarantine.of_request(reply.id, Some(reply.tid)).is_none()
        });
    }

    /// Tells who waits that nothing is known of what was asked for, once that cannot change any more: a release may be lost.
    pub fn unknown(&mut self, waiter: W) {
        self.hold(self.released, ClientResponse::Unknown { waiter });
    }

    pub fn restore(&mut self, replies: RestoredReplies) {
        self.replies.restore(replies);
    }

    /// There are other partitions.
    pub fn repartition(&mut self, layout: Layout) {
        self.replies.repartition(layout);
    }

    /// What has become of remembered replies since the last snapshot.
    pub fn cut_snapshot(&mut self) -> Vec<ReplyChange> {
        self.replies.cut()
    }

    /// Whether nothing has become of them since.
    pub fn is_cut(&self) -> bool {
        self.replies.is_cut()
    }

    /// Replies by partition, as other workers follow them.
    pub fn replies_mut(&mut self) -> &mut ReplyTable {
        &mut self.replies
    }

    pub fn into_kept(self) -> Vec<Kept> {
        self.replies.into_kept()
    }

    // Who is told.

    /// One more client waits for the end of a request.
    pub fn wait(&mut self, id: RequestId, waiter: W) {
        self.waiting.entry(id).or_default().push(waiter);
    }

    /// Takes those who wait besides the first.
    pub fn take_waiting(&mut self, id: RequestId) -> Vec<W> {
        self.waiting.remove(&id).unwrap_or_default()
    }

    /// A request has ended, whose reply is kept: all who wait besides the first are told.
    pub fn end(&mut self, reply: &Reply, fell_back: bool, time: Timestamp) {
        let Reply { id, tid, outcome, .. } = reply;
        let outcome = outcome.clone().map(Payload);
        self.ended.push(RetainedEnd { fell_back, tid: *tid, id: *id, outcome });
        self.replies.end(reply, time);
        for waiter in self.take_waiting(reply.id) {
            self.outbox.hold(reply.epoch, ClientResponse::Replayed { waiter, reply: reply.clone() });
        }
    }

    /// Ends in the epoch under way.
    pub fn take_ended(&mut self) -> Vec<RetainedEnd> {
        std::mem::take(&mut self.ended)
    }

    /// A request has ended in an epoch of the log; nobody waits for it yet.
    pub fn apply(&mut self, end: RetainedEnd, epoch: Epoch, time: Timestamp) {
        let RetainedEnd { tid, id, outcome, .. } = end;
        self.replies.end(&Reply { id, tid, epoch, outcome: outcome.map(|Payload(value)| value) }, time);
    }

    /// Holds a response until `epoch` is durable.
    #[inline]
    pub fn hold(&mut self, epoch: Epoch, response: ClientResponse<W>) {
        self.outbox.hold(epoch, response);
    }

    /// So many responses to come rest on `epoch`.
    pub fn reserve(&mut self, epoch: Epoch, responses: usize) {
        self.outbox.reserve(epoch, responses);
    }

    /// The round that was to be `epoch` came to nothing that is logged.
    pub fn has_not_been(&mut self, epoch: Epoch) {
        self.outbox.has_not_been(epoch);
    }

    /// The log is durable up to `epoch`.
    pub fn release(&mut self, epoch: Epoch) {
        self.outbox.release(epoch);
    }

    /// Answers clients that may be answered.
    #[inline]
    pub fn respond(&mut self, actions: &mut Vec<Action<W>>) {
        let responses = self.outbox.take();
        if !responses.is_empty() {
            actions.push(Action::Respond(responses));
        }
    }

    /// What holds between steps; `is_admitted` tells of requests that are not sequenced yet.
    pub fn invariants(&self, is_admitted: impl Fn(RequestId) -> bool) -> Result<(), &'static str> {
        let is_known = |id: &RequestId| matches!(self.replies.get(*id), Some((Known::Pending, _))) || is_admitted(*id);
        if !self.waiting.keys().all(is_known) {
            return Err("whoever waits for a reply waits for a request under way");
        }
        self.outbox.invariants()
    }
}
