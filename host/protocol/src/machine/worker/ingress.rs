//! Ingress: requests that no round has taken yet, and the clients that wait for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use styx_planted::{Bug, planted};

use super::egress::Egress;
use super::expected_fuel::ExpectedFuel;
use super::ground::Ground;
use super::queues::{Queues, Room};
use super::{ClientRequest, ClientResponse, Config};
use crate::abort::{Abort, Code};
use crate::commit::replies::{Known, Reply};
use crate::commit::watermark;
use crate::ids::{Epoch, RequestId, Tid, Timestamp};
use crate::sequence::budget::RecordBudget;
use crate::sequence::catalog::Catalog;
use crate::sequence::origin::Origin;
use crate::sequence::sequencer::Sequencer;
use crate::sequence::transaction::{CarriedTransaction, Request, Transaction};

/// A transaction and the client that waits for it.
#[derive(Debug)]
pub(super) struct Slot<W> {
    pub transaction: Transaction,
    pub waiter: Option<W>,
    /// Times that it lacked something that had not arrived here.
    pub lacked: u8,
}

impl<W> Slot<W> {
    /// A transaction of the log, for whose end nobody waits.
    pub fn unattended(tid: Tid, time: Timestamp, request: Arc<Request>) -> Self {
        Slot { transaction: Transaction { tid, time, request, query: false }, waiter: None, lacked: 0 }
    }
}

impl<W> Slot<W> {
    /// The transaction, as the log carries it to a later epoch.
    pub fn carried(&self) -> CarriedTransaction {
        let Transaction { tid, time, request, .. } = &self.transaction;
        CarriedTransaction { tid: *tid, time: *time, request: request.clone() }
    }

    /// The same, with the client; what is left stands for nobody.
    pub fn take(&mut self) -> Self {
        Slot { transaction: self.transaction.clone(), waiter: self.waiter.take(), lacked: self.lacked }
    }
}

/// One such part of the backlog is few.
pub const FEW: usize = 16;

/// Tells whether a request must be refused where `most` may wait: as many do, and those `of_app`, its own app's, are not few.
/// So an app that fills the backlog keeps no other out.
pub fn is_full(waiting: usize, of_app: usize, most: usize) -> bool {
    waiting >= most && of_app >= most / FEW
}

#[derive(Debug)]
pub(super) struct Ingress<W> {
    epoch_size_max: usize,
    epoch_fuel_max: u64,
    expected_fuel: ExpectedFuel,
    /// Weight of the heaviest request that is taken.
    request_max: usize,
    backlog_max: usize,
    admitted: Queues<Admitted<W>>,
    /// Body hashes of admitted requests whose reply is kept.
    bodies: BTreeMap<RequestId, u64>,
    /// Further clients that wait for the receipt of an admitted request. Which epoch it will be
    /// part of is not known yet: the next ones may be full.
    receipts: BTreeMap<RequestId, Vec<W>>,
    queries: Queues<(Arc<Request>, W)>,
    /// Stands for the app of an operator that none has.
    no_app: Arc<str>,
    /// Nothing new is admitted any more.
    draining: bool,
}

#[derive(Debug)]
struct Admitted<W> {
    request: Arc<Request>,
    waiter: W,
    /// The client is told once the request is durable, not once it ends.
    receipt: bool,
}

impl<W> Ingress<W> {
    pub fn new(config: &Config) -> Self {
        Ingress {
            epoch_size_max: config.epoch_size_max,
            epoch_fuel_max: config.epoch_fuel_max,
            expected_fuel: ExpectedFuel::new(config.epoch_size_max, config.epoch_fuel_max),
            request_max: RecordBudget::new(config.record_bytes_max).request_max(),
            backlog_max: config.backlog_max,
            admitted: Queues::new(),
            bodies: BTreeMap::new(),
            receipts: BTreeMap::new(),
            queries: Queues::new(),
            no_app: "".into(),
            draining: false,
        }
    }

    /// Requests that wait for a round.
    pub fn len(&self) -> usize {
        self.admitted.len() + self.queries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Apps of which something waits for an epoch.
    pub fn apps(&self) -> usize {
        self.admitted.apps()
    }

    /// What is expected of functions that use much fuel.
    pub fn expected_fuel(&mut self) -> &mut ExpectedFuel {
        &mut self.expected_fuel
    }

    /// Whether a request is admitted whose reply will be kept.
    pub fn remembers(&self, id: RequestId) -> bool {
        self.bodies.contains_key(&id)
    }

    /// Takes a request; what is remembered and has not ended belongs to the epoch `current`. Of an app that is `crowded` no
    /// new one is taken. The epoch under way has executed the records `unmarked`, of which no watermark tells yet.
    ///
    /// # Errors
    /// It is not taken: what its client is told.
    #[inline]
    pub fn take(
        &mut self,
        request: ClientRequest<W>,
        crowded: bool,
        current: Epoch,
        unmarked: &[(RequestId, Origin)],
        ground: &Ground,
        egress: &mut Egress<W>,
    ) -> Result<(), ClientResponse<W>> {
        match request {
            ClientRequest::Submit { request, waiter, receipt } if request.retained => {
                self.submit_retained((request, waiter, receipt), crowded, current, unmarked, ground, egress)
            }
            ClientRequest::Submit { request, waiter, receipt } => {
                self.admit(request, waiter, receipt, crowded, ground.catalog())
            }
            ClientRequest::Query { request, waiter } => {
                let app = ground.catalog().operator(request.operator).map_or(&self.no_app, |operator| &operator.app);
                let waiter = self.check(request.id, app, crowded, waiter)?;
                let waiter = not_quarantined(request.id, app, ground.catalog(), waiter)?;
                self.queries.push(app, (request, waiter));
                Ok(())
            }
            ClientRequest::Await { id, waiter } => {
                self.wait_for(id, waiter, egress);
                Ok(())
            }
        }
    }

    /// Takes a request whose reply is kept. A duplicate waits for the first one's end.
    fn submit_retained(
        &mut self,
        (request, waiter, receipt): (Arc<Request>, W, bool),
        crowded: bool,
        current: Epoch,
        unmarked: &[(RequestId, Origin)],
        ground: &Ground,
        egress: &mut Egress<W>,
    ) -> Result<(), ClientResponse<W>> {
        let id = request.id;
        let seen = egress.known(id).map(|(known, body)| (Some(known.clone()), body));
        // `None`: admitted, and not yet sequenced.
        let admitted = || self.bodies.get(&id).filter(|_| !planted(Bug::DuplicatesAdmitted)).map(|body| (None, *body));
        let is_over = |origin: &Origin| {
            let is_unmarked = || unmarked.iter().any(|(_, record)| record.is_of(origin));
            is_unmarked() || watermark::is_over(ground.state(), id, origin)
        };
        let forgotten = |waiter, egress: &mut Egress<W>| {
            let abort = Abort::new(Code::ReplyForgotten, "this was executed, and its reply is not kept any more");
            egress.hold(current, refusal(id, waiter, abort));
            Ok(())
        };
        let Some((known, body)) = seen.or_else(admitted) else {
            if request.origin.as_deref().is_some_and(is_over) {
                return forgotten(waiter, egress);
            }
            return self.admit(request, waiter, receipt, crowded, ground.catalog());
        };
        // The same arguments by name are others by place once the parameters are.
        let same = || request.calls_as(body) && ground.catalog().redeclares(request.operator, &request.function);
        if body != request.body_hash() && !same() && !planted(Bug::BodiesNotCompared) {
            // A record is one request, though what it names may be another operator by now: whether it is the one that is
            // known can be said when that has ended.
            let origin = request.origin.as_deref().filter(|_| !planted(Bug::RecordsCompared));
            match (&known, origin) {
                // That another record was no request says nothing of what this one came to.
                (Some(Known::Done(_)), Some(origin)) if is_over(origin) => {
                    if request.is_of_another_nothing(body) {
                        return forgotten(waiter, egress);
                    }
                }
                (Some(Known::Done(_)), _) | (_, None) => {
                    let why = "this idempotency key was used before with another request; use a new key";
                    return Err(refusal(id, waiter, Abort::new(Code::IdempotencyMismatch, why)));
                }
                (Some(Known::Pending) | None, Some(_)) => {
                    let why = "a request with this idempotency key is under way; ask again when it has ended";
                    return Err(refusal(id, waiter, Abort::new(Code::Overloaded, why)));
                }
            }
        }
        match known {
            Some(Known::Done(reply)) if receipt => egress.hold(reply.epoch, ClientResponse::Accepted { waiter, id }),
            Some(Known::Done(reply)) => egress.hold(reply.epoch, ClientResponse::Replayed { waiter, reply }),
            Some(Known::Pending) if receipt => egress.hold(current, ClientResponse::Accepted { waiter, id }),
            None if receipt => self.receipts.entry(id).or_default().push(waiter),
            Some(Known::Pending) | None => egress.wait(id, waiter),
        }
        Ok(())
    }

    /// Takes a client that asks for the end of an earlier request.
    fn wait_for(&self, id: RequestId, waiter: W, egress: &mut Egress<W>) {
        match egress.known(id) {
            Some((Known::Done(reply), _)) => {
                let (epoch, reply) = (reply.epoch, reply.clone());
                egress.hold(epoch, ClientResponse::Replayed { waiter, reply });
            }
            None if !self.remembers(id) => egress.unknown(waiter),
            Some((Known::Pending, _)) | None => egress.wait(id, waiter),
        }
    }

    /// Takes a request for the next epoch that has room.
    fn admit(
        &mut self,
        request: Arc<Request>,
        waiter: W,
        receipt: bool,
        crowded: bool,
        catalog: &Catalog,
    ) -> Result<(), ClientResponse<W>> {
        let app = catalog.operator(request.operator).map_or(&self.no_app, |operator| &operator.app);
        let waiter = self.check(request.id, app, crowded, waiter)?;
        // What a record comes to is final, whoever else still asks for it: that it is refused is said by its epoch.
        let waiter = match &request.origin {
            Some(_) => waiter,
            None => not_quarantined(request.id, app, catalog, waiter)?,
        };
        let (bytes, most) = (request.weight(), self.request_max);
        if bytes > most {
            let message = format!("a request of {bytes} bytes does not fit into the log, which takes at most {most}");
            return Err(refusal(request.id, waiter, Abort::new(Code::TooLarge, message)));
        }
        if request.retained {
            self.bodies.insert(request.id, request.body_hash());
        }
        self.admitted.push(app, Admitted { request, waiter, receipt });
        Ok(())
    }

    fn check(&self, id: RequestId, app: &Arc<str>, crowded: bool, waiter: W) -> Result<W, ClientResponse<W>> {
        if self.draining {
            return Err(ClientResponse::Returned { waiter });
        }
        let of_app = self.admitted.len_of(app) + self.queries.len_of(app);
        let full = is_full(self.len(), of_app, self.backlog_max);
        if !full && !crowded {
            return Ok(waiter);
        }
        let abort = if full {
            Abort::backlog_full()
        } else {
            Abort::new(Code::Overloaded, "too many long calls of this app are waiting; try again later")
        };
        Err(refusal(id, waiter, abort))
    }

    /// Takes what an epoch has room for, in `bytes` and beside rescheduled transactions, and gives it TIDs.
    pub fn cut(
        &mut self,
        carried: &[Slot<W>],
        bytes: usize,
        (epoch, time): (Epoch, Timestamp),
        sequencer: &mut Sequencer,
        egress: &mut Egress<W>,
    ) -> Vec<Slot<W>> {
        let Ingress { admitted, bodies, receipts, expected_fuel, .. } = self;
        let count = self.epoch_size_max.saturating_sub(carried.len()).max(1);
        let spent: u64 = carried.iter().map(|slot| expected_fuel.of(&slot.transaction.request)).sum();
        let room = Room { count, bytes, fuel: self.epoch_fuel_max.saturating_sub(spent) };
        let mut slots = Vec::with_capacity(carried.len() + admitted.len().min(count));
        let wants = |Admitted { request, .. }: &Admitted<W>| Room {
            count: 1,
            bytes: request.weight(),
            fuel: expected_fuel.of(request),
        };
        admitted.take(room, wants, |Admitted { request, waiter, receipt }| {
            let id = request.id;
            if request.retained {
                egress.begin(id, bodies.remove(&id).expect("it was admitted"));
                for waiter in receipts.remove(&id).unwrap_or_default() {
                    egress.hold(epoch, ClientResponse::Accepted { waiter, id });
                }
            }
            let waiter = if receipt {
                egress.hold(epoch, ClientResponse::Accepted { waiter, id });
                None
            } else {
                Some(waiter)
            };
            let transaction = Transaction { tid: sequencer.assign(), time, request, query: false };
            slots.push(Slot { transaction, waiter, lacked: 0 });
        });
        slots
    }

    /// Takes the read-only requests that a round has room for.
    pub fn take_queries(&mut self, time: Timestamp) -> Vec<Slot<W>> {
        let Ingress { queries, expected_fuel, .. } = self;
        let room = Room { count: self.epoch_size_max, bytes: 0, fuel: self.epoch_fuel_max };
        let mut slots = Vec::with_capacity(queries.len().min(room.count));
        let wants = |(request, _): &(Arc<Request>, W)| Room { count: 1, bytes: 0, fuel: expected_fuel.of(request) };
        queries.take(room, wants, |(request, waiter)| {
            let transaction = Transaction { tid: Tid(0), time, request, query: true };
            slots.push(Slot { transaction, waiter: Some(waiter), lacked: 0 });
        });
        slots
    }

    /// Gives back the clients of everything of which nothing has happened, and takes nothing more.
    pub fn drain(&mut self, egress: &mut Egress<W>) -> Vec<W> {
        self.draining = true;
        let admitted: Vec<_> = self.admitted.drain().collect();
        let mut waiters = self.give_back(admitted, egress);
        waiters.extend(self.queries.drain().map(|(_, waiter)| waiter));
        waiters
    }

    /// Gives back the clients of requests that another worker is to remember, of which nothing has happened.
    pub fn depart(&mut self, departs: impl Fn(RequestId) -> bool, egress: &mut Egress<W>) -> Vec<W> {
        let departs = |admitted: &Admitted<W>| admitted.request.retained && departs(admitted.request.id);
        let admitted = self.admitted.extract(departs);
        self.give_back(admitted, egress)
    }

    fn give_back(&mut self, admitted: Vec<Admitted<W>>, egress: &mut Egress<W>) -> Vec<W> {
        let mut waiters = Vec::new();
        for Admitted { request, waiter, .. } in admitted {
            waiters.push(waiter);
            if request.retained {
                self.bodies.remove(&request.id);
                waiters.extend(egress.take_waiting(request.id));
                waiters.extend(self.receipts.remove(&request.id).into_iter().flatten());
            }
        }
        waiters
    }

    /// What holds between steps.
    pub fn invariants(&self) -> Result<(), &'static str> {
        let retained = || self.admitted.iter().filter(|admitted| admitted.request.retained);
        if retained().count() != self.bodies.len()
            || !retained().all(|admitted| self.bodies.contains_key(&admitted.request.id))
        {
            return Err("a body hash is known of each admitted request whose reply is kept, and of no other");
        }
        if !self.receipts.keys().all(|id| self.bodies.contains_key(id)) {
            return Err("whoever waits for a receipt waits for an admitted request");
        }
        if self.draining && !self.is_empty() {
            return Err("nothing is admitted by a worker that drains");
        }
        Ok(())
    }
}

/// What was set aside does not even become part of the log.
#[inline]
fn not_quarantined<W>(id: RequestId, app: &str, catalog: &Catalog, waiter: W) -> Result<W, ClientResponse<W>> {
    match catalog.quarantine().refusal(id, None, app) {
        None => Ok(waiter),
        Some(abort) => Err(refusal(id, waiter, abort)),
    }
}

/// Refuses a request: nothing happened.
fn refusal<W>(id: RequestId, waiter: W, abort: Abort) -> ClientResponse<W> {
    ClientResponse::Reply { waiter, reply: Reply { id, tid: Tid(0), epoch: Epoch(0), outcome: Err(abort) } }
}
