//! Membership: a worker's part in one generation, from the invitation to its end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use styx_planted::{Bug, planted};
use styx_protocol::catalog::Catalog;
use styx_protocol::deployment::Digest;
use styx_protocol::entity::{Entity, Layout};
use styx_protocol::fault::PeerFault;
use styx_protocol::ids::{Epoch, Generation, NodeId, OperatorId, PlacementVersion, RequestId, WorkerId};
use styx_protocol::machine::Worker;
use styx_protocol::machine::worker::{Action, ClientRequest, ClientResponse, Config, Input};
use styx_protocol::membership::Beat;
use styx_protocol::message::{Message, Node};
use styx_protocol::route::memory_of;
use styx_protocol::task::LocalView;

use super::answers::{Answers, Reader};
use super::busy::Busy;
use super::components::Components;
use super::copying::Copying;
use super::io::{Asker, RestoreFailure, WorkerConfig, WorkerEffect};
use super::mailbox::Mailbox;
use crate::COORDINATOR;
use crate::admin_query::QueryView;
use crate::client::{Answer, ClientMessage, Failure};
use crate::fullness::{Holdings, Looks};
use crate::time::Instant;
use crate::wire::{AdminQuery, CopyPace, Envelope, Invite, Query, Question, Response, WrittenPart};

/// Parts of graphs taken from a mail at a time: what they need stays in the processor's caches.
const MAIL_PIECE: usize = 64;

/// How far a membership is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// What it begins with is read, or components of that are compiled.
    Beginning,
    /// The log is replayed: a request might be one that is still to come again.
    Replaying,
    /// Clients may come.
    Live,
}

#[derive(Debug)]
pub(super) struct Membership<L, R> {
    invite: Invite,
    machine: Worker<Asker<L>>,
    workers: BTreeMap<NodeId, WorkerId>,
    piece_bytes: usize,
    progress: Progress,
    /// Why it cannot begin.
    failure: Option<RestoreFailure>,
    /// Messages that wait until the components of a deployment are compiled, in order.
    postponed: VecDeque<(Node, Message)>,
    /// Those components.
    missing: BTreeSet<Digest>,
    /// Reads of entities that wait for the end of the round, in order.
    reads: VecDeque<(Reader<R>, AdminQuery)>,
    /// Questions of gateways that know a placement which has not come here yet.
    ahead: Vec<(NodeId, Query)>,
    answers: Answers<L, R>,
    mailbox: Mailbox,
    writes_parts: bool,
    /// What was written of the last snapshot.
    part: Option<WrittenPart>,
    /// The last round began then.
    began: Instant,
    copying: Copying,
    looks: Looks,
    busy: Busy,
    /// The version of the catalog that this process's endpoints were shown.
    published: u64,
    /// A message that could not be applied, until the driver knows.
    fault: Option<PeerFault>,
    /// Empty between steps; its memory is used again.
    actions: Vec<Action<Asker<L>>>,
}

/// A machine that begins with nothing, as an invitation says.
fn machine<L>(config: &WorkerConfig, invite: &Invite) -> Worker<Asker<L>> {
    let settings = Config {
        layout: invite.layout,
        modes: config.modes,
        epoch_size_max: config.epoch_size_max,
        epoch_fuel_max: config.epoch_fuel_max,
        record_bytes_max: invite.record_bytes_max as usize,
        backlog_max: config.backlog_max,
        suspended_max: config.suspended_max,
        long_max: config.long_max,
        retention: invite.retention,
        generation: invite.generation,
        snapshots: invite.store.is_some(),
        step_max: config.step_max,
        piece_bytes: config.piece_bytes,
        claim_order: config.claim_order,
    };
    let mut machine = Worker::new(settings, LocalView { me: invite.me, placement: Arc::new(invite.placement.clone()) });
    machine.copy_as_allowed();
    machine
}

impl<L, R> Membership<L, R> {
    pub(super) fn new(now: Instant, config: &WorkerConfig, invite: Invite) -> Self {
        let members = invite.members.iter().enumerate();
        Membership {
            machine: machine(config, &invite),
            workers: members.map(|(worker, member)| (member.node, WorkerId(worker as u16))).collect(),
            piece_bytes: config.piece_bytes,
            invite,
            progress: Progress::Beginning,
            failure: None,
            postponed: VecDeque::new(),
            missing: BTreeSet::new(),
            reads: VecDeque::new(),
            ahead: Vec::new(),
            answers: Answers::new(config.frame_bytes),
            mailbox: Mailbox::new(config.frame_bytes),
            writes_parts: false,
            part: None,
            began: now,
            copying: Copying::new(now),
            looks: Looks::default(),
            busy: Busy::new(now, config.long_max),
            published: 0,
            fault: None,
            actions: Vec::new(),
        }
    }

    pub(super) fn generation(&self) -> Generation {
        self.invite.generation
    }

    pub(super) fn layout(&self) -> Layout {
        self.machine.layout()
    }

    pub(super) fn workers(&self) -> &BTreeMap<NodeId, WorkerId> {
        &self.workers
    }

    pub(super) fn machine(&self) -> &Worker<Asker<L>> {
        &self.machine
    }

    pub(super) fn view(&self) -> &LocalView {
        self.machine.view()
    }

    /// The sender of a message, if it is a part of the generation.
    pub(super) fn sender(&self, from: NodeId) -> Option<Node> {
        match self.workers.get(&from) {
            Some(worker) => Some(Node::Worker(*worker)),
            None => (from == COORDINATOR).then_some(Node::Coordinator),
        }
    }

    /// What waits to be sequenced, compiled or told.
    pub(super) fn under_way(&self) -> usize {
        self.machine.backlog()
            + self.reads.len()
            + self.ahead.len()
            + self.postponed.len()
            + self.missing.len()
            + self.answers.len()
    }

    /// Tells whether it is not ready for the log yet.
    pub(super) fn is_beginning(&self) -> bool {
        self.progress == Progress::Beginning
    }

    /// The last epoch that is known to be durable.
    pub(super) fn durable(&self) -> Epoch {
        self.answers.epoch()
    }

    pub(super) fn is_live(&self) -> bool {
        self.progress == Progress::Live
    }

    /// What state it holds, if that has changed, of so many bytes that it may.
    pub(super) fn holds(&mut self, now: Instant, most: u64) -> Option<Holdings> {
        let (state, catalog) = (self.machine.state(), self.machine.catalog());
        let due = self.progress == Progress::Live && self.looks.take(now, state.changes());
        due.then(|| Holdings::of(state, catalog, most))
    }

    /// What it begins with has been read; gives the components that have to be compiled for that.
    pub(super) fn restored(
        &mut self,
        restored: Option<Box<styx_protocol::snapshot::RestoredState>>,
        components: &Components,
        effects: &mut Vec<WorkerEffect<L, R>>,
    ) -> Vec<Digest> {
        self.writes_parts = true;
        effects.push(WorkerEffect::BeginParts {
            generation: self.generation(),
            layout: self.invite.layout,
            builds_on: restored.as_ref().is_some_and(|restored| {
                restored.laid_in == self.invite.layout.partitions || planted(Bug::SnapshotsContinued)
            }),
        });
        if let Some(restored) = restored {
            self.machine.restore(*restored);
            self.missing = components.missing(self.machine.catalog());
        }
        self.missing.iter().copied().collect()
    }

    /// Tells the coordinator that this worker is ready for the log.
    pub(super) fn join(&mut self, effects: &mut Vec<WorkerEffect<L, R>>) {
        assert!(self.missing.is_empty() && self.is_beginning(), "a worker joins once, when it is ready");
        self.progress = Progress::Replaying;
        self.report(effects);
    }

    /// What it is to begin with cannot be read.
    pub(super) fn fail(&mut self, failure: RestoreFailure, effects: &mut Vec<WorkerEffect<L, R>>) {
        self.failure = Some(failure);
        self.report(effects);
    }

    /// Tells the coordinator that this worker has begun, or cannot; once more on each connection, since what was told on
    /// one before may be lost with it.
    pub(super) fn report(&self, effects: &mut Vec<WorkerEffect<L, R>>) {
        let generation = self.invite.generation;
        let envelope = match &self.failure {
            Some(RestoreFailure { why, damaged }) => {
                Envelope::RestoreFailed { generation, why: why.clone(), damaged: *damaged }
            }
            None if self.progress == Progress::Replaying => Envelope::Joined { generation },
            None => return,
        };
        effects.push(WorkerEffect::SendControl { to: COORDINATOR, envelope });
    }

    /// Tells whether a component is waited for.
    pub(super) fn misses(&self, digest: Digest) -> bool {
        self.missing.contains(&digest)
    }

    /// A component is compiled: goes on with what waited for it.
    pub(super) fn prepared(
        &mut self,
        now: Instant,
        digest: Digest,
        components: &Components,
        effects: &mut Vec<WorkerEffect<L, R>>,
    ) -> Vec<Digest> {
        self.missing.remove(&digest);
        if !self.missing.is_empty() {
            return Vec::new();
        }
        if self.is_beginning() {
            self.join(effects);
            return Vec::new();
        }
        let mut wanted = Vec::new();
        for (from, message) in std::mem::take(&mut self.postponed) {
            wanted.extend(self.on_message(now, from, message, components, effects));
        }
        wanted
    }

    /// Takes a message of the protocol, unless it has to wait for components; gives those.
    pub(super) fn on_message(
        &mut self,
        now: Instant,
        from: Node,
        message: Message,
        components: &Components,
        effects: &mut Vec<WorkerEffect<L, R>>,
    ) -> Vec<Digest> {
        if !self.postponed.is_empty() {
            self.postponed.push_back((from, message));
            return Vec::new();
        }
        match message {
            Message::Begin(begin) => {
                self.began = now;
                if !begin.controls.is_empty() {
                    let mut catalog = (**self.machine.catalog()).clone();
                    for control in &begin.controls {
                        // One that is refused changes nothing.
                        let _ = catalog.apply(control);
                    }
                    self.missing = components.missing(&catalog);
                    if planted(Bug::ComponentsNotAwaited) {
                        self.missing.clear();
                    }
                    if !self.missing.is_empty() {
                        self.postponed.push_back((from, Message::Begin(begin)));
                        return self.missing.iter().copied().collect();
                    }
                }
                self.step(now, Input::Message { from, message: Message::Begin(begin) }, effects);
                for (from, query) in std::mem::take(&mut self.ahead) {
                    self.query(now, from, query, effects);
                }
            }
            Message::Durable(epoch) => {
                if self.progress == Progress::Replaying {
                    self.progress = Progress::Live;
                }
                self.answers.durable(now, epoch, effects);
                self.step(now, Input::Message { from, message: Message::Durable(epoch) }, effects);
            }
            Message::Graphs(mail) => {
                for mail in mail.split(MAIL_PIECE, usize::MAX) {
                    self.step(now, Input::Message { from, message: Message::Graphs(mail) }, effects);
                }
            }
            Message::Migrate { .. } => {
                self.step(now, Input::Message { from, message }, effects);
                // How fast may have been said before.
                self.copy_on(now, effects);
            }
            message => self.step(now, Input::Message { from, message }, effects),
        }
        Vec::new()
    }

    /// Takes a gateway's question.
    pub(super) fn query(&mut self, now: Instant, from: NodeId, query: Query, effects: &mut Vec<WorkerEffect<L, R>>) {
        let Query { ticket, generation, placement, question } = query;
        let waiter = Asker::Remote(from, ticket);
        if !self.is_live() || generation != self.invite.generation {
            return self.answers.respond(from, ticket, Response::WrongGeneration);
        }
        let version = self.machine.view().placement.version();
        if placement > version {
            // The epoch that brings it is on its way.
            let query = Query { ticket, generation, placement, question };
            return self.ahead.push((from, query));
        }
        // Whatever is not remembered may be asked of anybody.
        if placement < version && matches!(question, Question::Admin(_)) {
            return self.answers.respond(from, ticket, Response::WrongGeneration);
        }
        let request = match question {
            Question::Submit(request, _) if request.retained && !self.remembers(request.id) => None,
            Question::Await(id) if !self.remembers(id) => None,
            Question::Submit(request, receipt) => Some(ClientRequest::Submit { request, waiter, receipt }),
            Question::Query(request) => Some(ClientRequest::Query { request, waiter }),
            Question::Await(id) => Some(ClientRequest::Await { id, waiter }),
            Question::Admin(query) => return self.ask(now, Reader::Remote(from, ticket), query, effects),
        };
        match request {
            Some(request) => self.step(now, Input::Client(request), effects),
            None => self.answers.respond(from, ticket, Response::WrongGeneration),
        }
    }

    /// Takes what a client of this process asks for. Outside of a live generation it is dropped, and whoever
    /// waits sees that.
    pub(super) fn client(&mut self, now: Instant, message: ClientMessage<L, R>, effects: &mut Vec<WorkerEffect<L, R>>) {
        match message {
            ClientMessage::Request(request) if self.is_live() => {
                self.step(now, Input::Client(request.map_waiter(Asker::Local)), effects);
            }
            ClientMessage::Request(_) => {}
            ClientMessage::Read(query, to) => self.ask(now, Reader::Local(to), query, effects),
        }
    }

    fn remembers(&self, id: RequestId) -> bool {
        memory_of(id, &self.machine.layout(), &self.machine.view().placement) == self.invite.me
    }

    /// Reads the machine, entities between two rounds only: a round under way has applied some of its writes. The
    /// answer is given once all that it tells is durable.
    fn read(&mut self, now: Instant, reader: Reader<R>, query: AdminQuery, effects: &mut Vec<WorkerEffect<L, R>>) {
        if query.shows_entities() && (!self.machine.is_idle() || self.lacks(&query)) {
            return self.reads.push_back((reader, query));
        }
        let (machine, local) = (&self.machine, self.machine.view());
        let (epoch, _) = machine.position();
        let view = QueryView {
            work: &|partition| machine.work(partition),
            leaves_to: &|partition| machine.leaves_to(partition),
            worker: local.me,
            owns: &|partition| local.placement.owner(partition) == local.me,
            state: machine.state(),
            catalog: machine.catalog(),
            epoch,
            waiting: machine.backlog(),
            remembered: machine.remembered(),
            busy_us: self.busy.total(now).as_micros() as u64,
        };
        let response = view.answer(&query);
        effects.extend(self.answers.read(now, epoch, reader, response));
    }

    /// An admin query arrives: what it shows is asked for, if it is an entity that a former owner still has.
    fn ask(&mut self, now: Instant, reader: Reader<R>, query: AdminQuery, effects: &mut Vec<WorkerEffect<L, R>>) {
        if let AdminQuery::Get { operator, key } = &query {
            let entity = self.entity(*operator, key);
            if self.machine.state().lacks(&entity) {
                self.step(now, Input::Want(entity), effects);
            }
        }
        self.read(now, reader, query, effects);
    }

    /// Whether something that a query shows is still with a former owner.
    fn lacks(&self, query: &AdminQuery) -> bool {
        let state = self.machine.state();
        match query {
            AdminQuery::Get { operator, key } => state.lacks(&self.entity(*operator, key)),
            AdminQuery::Scan { operator, prefix, .. } => {
                let id = OperatorId(*operator);
                let partition = state.layout().partition_of_prefix(prefix, self.machine.catalog().is_composite(id));
                state.lacking(id, partition).next().is_some()
            }
            _ => false,
        }
    }

    fn entity(&self, operator: u32, key: &str) -> Entity {
        let id = OperatorId(operator);
        Entity::new(&self.machine.state().layout(), id, self.machine.catalog().is_composite(id), key.into())
    }

    /// How fast what leaves is to be copied.
    pub(super) fn copy_at(
        &mut self,
        now: Instant,
        version: PlacementVersion,
        pace: CopyPace,
        effects: &mut Vec<WorkerEffect<L, R>>,
    ) {
        self.copying.pace(version, pace);
        self.copy_on(now, effects);
    }

    /// Time has gone on: more of what leaves may be copied.
    pub(super) fn copy_on(&mut self, now: Instant, effects: &mut Vec<WorkerEffect<L, R>>) {
        let leaves = self.machine.copying().filter(|_| self.machine.is_leaving()).map(|copied| copied.version);
        if let Some(allowance) = self.copying.tick(now, leaves) {
            self.step(now, Input::AllowCopy(allowance), effects);
        }
    }

    /// Takes the coordinator's answer to a heartbeat.
    pub(super) fn beat(&mut self, beat: Beat, effects: &mut Vec<WorkerEffect<L, R>>) {
        let generation = self.generation();
        self.answers.confirm(beat, generation, effects);
    }

    /// Tells whether somebody waits for the coordinator's next beat; gives up reads that have waited too long.
    pub(super) fn awaits_beat(&mut self, now: Instant) -> bool {
        self.answers.await_beat(now)
    }

    pub(super) fn take_fault(&mut self) -> Option<(NodeId, PeerFault)> {
        let fault = self.fault.take()?;
        let node = match fault.from {
            Node::Coordinator => COORDINATOR,
            Node::Worker(worker) => self.invite.members[usize::from(worker.0)].node,
        };
        Some((node, fault))
    }

    /// Its part of a snapshot is written.
    pub(super) fn part_written(&mut self, part: WrittenPart, effects: &mut Vec<WorkerEffect<L, R>>) {
        self.part = Some(part);
        self.resend_part(effects);
    }

    /// Tells the coordinator what was written, perhaps again.
    pub(super) fn resend_part(&self, effects: &mut Vec<WorkerEffect<L, R>>) {
        if let Some(part) = self.part.clone() {
            let envelope = Envelope::PartWritten { generation: self.invite.generation, part };
            effects.push(WorkerEffect::SendControl { to: COORDINATOR, envelope });
        }
    }

    /// Steps the machine, and says what it wants done.
    pub(super) fn step(&mut self, now: Instant, input: Input<Asker<L>>, effects: &mut Vec<WorkerEffect<L, R>>) {
        match &input {
            Input::Executed(_) | Input::FellBack(_) => self.busy.batch(now, false),
            Input::TaskProgress(progress) => self.busy.tasks_end(now, progress.len()),
            Input::LongEnded { .. } => self.busy.long_ends(now),
            _ => {}
        }
        let mut actions = std::mem::take(&mut self.actions);
        self.machine.step(input, &mut actions);
        for action in actions.drain(..) {
            self.perform(now, action, effects);
        }
        self.actions = actions;
        if self.machine.is_idle() {
            for (reader, query) in std::mem::take(&mut self.reads) {
                self.read(now, reader, query, effects);
            }
        }
    }

    fn perform(&mut self, now: Instant, action: Action<Asker<L>>, effects: &mut Vec<WorkerEffect<L, R>>) {
        match action {
            Action::Send { to, message } => {
                let to = match to {
                    Node::Coordinator => COORDINATOR,
                    Node::Worker(worker) => self.invite.members[usize::from(worker.0)].node,
                };
                match message {
                    Message::Graphs(mail) => {
                        let mails = self.mailbox.post(to, mail).into_iter().map(Message::Graphs);
                        effects.extend(mails.map(|message| WorkerEffect::Send { to, message }));
                    }
                    Message::Long(mail) => {
                        let mails = mail.split(self.mailbox.frame_bytes()).into_iter().map(Message::Long);
                        effects.extend(mails.map(|message| WorkerEffect::Send { to, message }));
                    }
                    Message::Changes { round, changes } => {
                        let pieces = changes.into_pieces(self.piece_bytes).into_iter();
                        let messages = pieces.map(|changes| Message::Changes { round, changes });
                        effects.extend(messages.map(|message| WorkerEffect::Send { to, message }));
                    }
                    message => effects.push(WorkerEffect::Send { to, message }),
                }
            }
            Action::Execute(batch) => {
                self.busy.batch(now, true);
                effects.push(WorkerEffect::Execute(batch));
            }
            Action::RunTasks(tasks) => {
                self.busy.tasks_begin(now, tasks.len());
                effects.push(WorkerEffect::RunTasks(tasks));
            }
            Action::FallBack(batch) => {
                self.busy.batch(now, true);
                effects.push(WorkerEffect::FallBack(batch));
            }
            Action::StartLong(task) => {
                self.busy.long_begins(now);
                effects.push(WorkerEffect::StartLong(self.invite.generation, task));
            }
            Action::LongRead { run, answer } => {
                effects.push(WorkerEffect::AnswerLong(self.invite.generation, run, answer));
            }
            Action::Respond(responses) => {
                responses.into_iter().for_each(|response| self.respond(response, effects));
            }
            Action::Logs { tid, lines } => {
                effects.push(WorkerEffect::Logs { catalog: self.machine.catalog().clone(), tid, lines });
            }
            Action::Finished(summary) => {
                let catalog = self.machine.catalog();
                if catalog.version() != self.published {
                    self.published = catalog.version();
                    effects.push(WorkerEffect::PublishCatalog(catalog.clone()));
                }
                effects.push(WorkerEffect::EpochEnded {
                    summary,
                    duration: now.since(self.began),
                    entities: self.machine.state().len(),
                    state_bytes: self.machine.state().bytes(),
                    forgotten_early: self.machine.forgotten_early(),
                    waiting_apps: self.machine.waiting_apps(),
                });
            }
            Action::Fault(fault) => {
                self.fault.get_or_insert(fault);
            }
            Action::WorkerSnapshot(part) => {
                self.part = None;
                effects.push(WorkerEffect::WritePart(part));
            }
            Action::Changes { changes, last } => effects.push(WorkerEffect::WriteChanges { changes, last }),
            Action::Discard(discarded) => effects.push(WorkerEffect::DiscardPartitions(discarded)),
        }
    }

    fn respond(&mut self, response: ClientResponse<Asker<L>>, effects: &mut Vec<WorkerEffect<L, R>>) {
        let answer = match response {
            ClientResponse::Reply { waiter: Asker::Local(client), reply } => {
                Some(WorkerEffect::Answer(client, Answer::Reply(reply)))
            }
            ClientResponse::Reply { waiter: Asker::Remote(node, ticket), reply } => {
                self.answers.respond(node, ticket, Response::Reply(reply.into()));
                None
            }
            ClientResponse::Replayed { waiter: Asker::Local(client), reply } => {
                Some(WorkerEffect::Answer(client, Answer::Replayed(reply)))
            }
            ClientResponse::Replayed { waiter: Asker::Remote(node, ticket), reply } => {
                self.answers.respond(node, ticket, Response::Replayed(reply.into()));
                None
            }
            ClientResponse::Accepted { waiter, id } => {
                self.answers.answer(waiter, Response::Accepted(id), Answer::Accepted(id))
            }
            ClientResponse::Unknown { waiter } => {
                self.answers.unknown(waiter);
                None
            }
            ClientResponse::Returned { waiter } => {
                self.answers.answer(waiter, Response::WrongGeneration, Answer::Failed(Failure::Unavailable))
            }
        };
        effects.extend(answer);
    }

    /// Sends mail and answers that have come together.
    pub(super) fn flush(&mut self, effects: &mut Vec<WorkerEffect<L, R>>) {
        let mail = self.mailbox.drain();
        effects.extend(mail.map(|(to, mail)| WorkerEffect::Send { to, message: Message::Graphs(mail) }));
        self.answers.flush(effects);
    }

    /// Ends it: returns what clients wait for. Gives the machine, if it holds anything of use.
    pub(super) fn end(mut self, now: Instant, effects: &mut Vec<WorkerEffect<L, R>>) -> Option<Box<Worker<Asker<L>>>> {
        let mut actions = Vec::new();
        self.machine.drain(&mut actions);
        for action in actions {
            self.perform(now, action, effects);
        }
        for (from, query) in std::mem::take(&mut self.ahead) {
            self.answers.respond(from, query.ticket, Response::WrongGeneration);
        }
        self.flush(effects);
        if self.writes_parts {
            effects.push(WorkerEffect::AbandonParts);
        }
        effects.push(WorkerEffect::PublishCatalog(Arc::new(Catalog::default())));
        (!self.is_beginning()).then(|| Box::new(self.machine))
    }
}
