//! History: the requests of clients and the responses to them, which is all that promises are about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use styx_driver::wire::AdminQuery;
use styx_protocol::abort::{Abort, Code};
use styx_protocol::control::Control;
use styx_protocol::ids::{Epoch, RequestId, Tid};
use styx_protocol::machine::coordinator::MIGRATION_UNDER_WAY;
use styx_protocol::replies::Reply;
use styx_protocol::transaction::Request;

use super::checker::{Checker, record_of, same};
use super::order::{Interval, real_time};
use super::{Checked, Failure, ensure};
use crate::poison::Poison;

/// Kind of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request whose end is awaited.
    Update,
    /// A request whose receipt is awaited.
    Send,
    /// A read-only request.
    Query,
    /// The question for an earlier request's end.
    Await,
    Control,
    /// A look at the state.
    Look,
}

/// A request, over all of its attempts.
#[derive(Debug)]
pub struct TrackedRequest {
    pub request: Arc<Request>,
    /// When it was first submitted.
    pub submitted: u64,
    /// Ends that clients were told, and when.
    pub told: Vec<(u64, Reply)>,
    /// When a receipt was first given.
    pub accepted: Option<u64>,
}

/// One message to a node; the machine's waiter is its index.
#[derive(Debug)]
pub struct Attempt {
    pub kind: Kind,
    /// The request; for a deployment its place among the controls.
    pub of: usize,
    /// What a look asks for, and the latest epoch of which anybody had been told before.
    pub query: Option<(AdminQuery, Epoch)>,
    /// The node that was asked.
    pub node: usize,
    /// The client's slot.
    pub slot: usize,
    /// Whether the machine has answered it.
    pub answered: bool,
    /// Whether the simulator has lost the message or its answer.
    pub lost: bool,
    /// The request was durable, and to be remembered, when this was asked: so often it had been forgotten before.
    pub known: Option<u64>,
}

/// A query that ran.
#[derive(Debug)]
struct Queried {
    /// What it had to come to, and the epoch that this rests on, each time that it ran: a record is read again, and may mean
    /// another app by then.
    runs: Vec<(Epoch, Result<u64, Abort>)>,
    rank: (u64, u64, u64),
}

impl Queried {
    /// Whether an answer is what it came to at some time; or is of a time that nobody has seen.
    fn allows(&self, reply: &Reply) -> bool {
        let mut of_then = self.runs.iter().filter(|(base, _)| *base == reply.epoch).peekable();
        of_then.peek().is_none() || of_then.any(|(_, expected)| same(expected, &reply.outcome))
    }
}

/// Everything that was asked and told.
#[derive(Debug, Default)]
pub struct History {
    pub requests: Vec<TrackedRequest>,
    /// Deployments, and whether a client was told that they are done.
    pub controls: Vec<(Control, bool)>,
    pub attempts: Vec<Attempt>,
    /// The latest epoch of which a client has been told.
    pub told: Epoch,
    queries: BTreeMap<RequestId, Queried>,
    /// Queries that ran where a generation was over: no client may be told, once somebody was told of a later epoch.
    overtaken: BTreeSet<RequestId>,
    /// How often something was queried.
    queried: u64,
}

impl History {
    /// A query runs now and must come to this.
    pub fn queried(&mut self, id: RequestId, expected: Result<u64, Abort>, base: Epoch, next: u64) {
        self.queried += 1;
        // A gateway may ask again; the earliest state is early enough for all that was told of it, and what was lost of
        // the log is no state.
        let rank = (next, 0, self.queried);
        let queried = self.queries.entry(id).or_insert(Queried { runs: Vec::new(), rank });
        queried.rank = queried.rank.min(rank);
        queried.runs.push((base, expected));
    }

    /// A query runs in a generation that is over, and its worker does not know.
    pub fn overtaken(&mut self, id: RequestId) {
        self.overtaken.insert(id);
    }

    /// Each attempt is answered at most once.
    fn answer(&mut self, attempt: usize) -> Checked<&Attempt> {
        let attempt = &mut self.attempts[attempt];
        ensure(!attempt.answered, "told once", || format!("{attempt:?} is answered again"))?;
        attempt.answered = true;
        Ok(attempt)
    }

    /// A reply leaves the worker that has it.
    ///
    /// # Errors
    /// It rests on what is not durable.
    pub fn leaves(
        &self,
        id: RequestId,
        (tid, epoch): (Tid, Epoch),
        aborted: Option<&Abort>,
        checker: &Checker,
        durable: Epoch,
    ) -> Checked {
        if aborted.is_some_and(|abort| is_refusal(abort.code, tid)) {
            return Ok(());
        }
        // A record that is read again under another deployment may have been executed, and be a query by now.
        let was_executed = checker.sequenced.get(&tid).is_some_and(|known| known.request.id == id);
        let base = match self.queries.get(&id).filter(|_| !was_executed) {
            Some(queried) if queried.runs.iter().any(|(base, _)| *base == epoch) => epoch,
            _ if self.overtaken.contains(&id) => return Ok(()),
            Some(queried) => queried.runs.last().expect("it ran").0,
            None => checker.ends_in(tid).ok_or_else(|| {
                let message = format!("a reply to request {id} is of transaction {tid}, which is not in the log");
                Failure::new("own reply", message).about(&[tid])
            })?,
        };
        ensure(base <= durable, "durable before told", || {
            format!("a reply to request {id} rests on epoch {base}; durable is {durable}")
        })
        .map_err(|failure| failure.about(&[tid]))
    }

    /// A receipt leaves the worker that gives it.
    pub fn accepted(&self, id: RequestId, checker: &Checker, durable: Epoch) -> Checked {
        // A key may have been used again once its reply was forgotten.
        let tids = checker.by_id.get(&id).map_or(&[][..], |tids| &tids[..]);
        let epoch = tids.iter().map(|tid| checker.sequenced[tid].epoch).min();
        ensure(epoch.is_some_and(|epoch| epoch <= durable), "durable before told", || {
            format!("a receipt for request {id} of epoch {epoch:?}; durable is {durable}")
        })
    }

    /// A client is given a reply.
    pub fn reply(&mut self, attempt: usize, reply: &Reply, checker: &Checker, poison: &Poison) -> Checked {
        let &Attempt { kind, of, .. } = self.answer(attempt)?;
        let request = &self.requests[of].request;
        ensure(reply.id == request.id, "own reply", || format!("{request:?} is answered with {reply:?}"))?;
        if refused(reply) {
            let used = |other: &TrackedRequest| other.request.id == request.id && other.request != *request;
            let reason = match code_of(reply) {
                Some(Code::Overloaded) => true,
                Some(Code::Quarantined) => poison.may_refuse(reply.id),
                Some(Code::TooLarge) => request.weight() > checker.request_max(),
                Some(Code::ReplyForgotten) => {
                    let tids = checker.by_id.get(&request.id).map_or(&[][..], |tids| &tids[..]);
                    let ended = |tid| checker.sequenced[tid].end.is_some();
                    tids.iter()
                        .any(|tid| ended(tid) && record_of(&checker.sequenced[tid].request) == record_of(request))
                }
                _ => self.requests.iter().any(used),
            };
            return ensure(reason, "own reply", || format!("{request:?} is refused without reason: {reply:?}"));
        }
        if kind == Kind::Query {
            let Some(queried) = self.queries.get(&reply.id) else {
                let is_true = self.overtaken.contains(&reply.id) && reply.epoch >= self.told;
                return ensure(is_true, "own reply", || {
                    format!(
                        "epoch {} was told of, and a query that ran nowhere or before is answered: {reply:?}",
                        self.told
                    )
                });
            };
            let bases = || queried.runs.iter().map(|(base, _)| *base);
            ensure(bases().any(|base| base == reply.epoch), "own reply", || {
                let bases: Vec<Epoch> = bases().collect();
                format!("a query rests on epochs {bases:?}, and says that it is of {}", reply.epoch)
            })?;
            // It may have been asked again and have run again, at another time, while what it came to at first was on its way.
            return ensure(checker.is_lenient() || queried.allows(reply), "serial order", || {
                format!("a query came to {reply:?}; it comes to {:?}", queried.runs)
            });
        }
        let sequenced = checker.sequenced.get(&reply.tid).map(|known| &known.request);
        let own = sequenced.is_some_and(|known| known.id == reply.id && (kind == Kind::Await || known == request));
        ensure(own, "own reply", || format!("{request:?} is answered with {reply:?}, which is {sequenced:?}"))
    }

    /// A front is told what a record came to, which is a request or nothing that anybody knows of.
    ///
    /// # Errors
    /// It came to something else.
    pub fn record_reply(
        &mut self,
        of: Option<usize>,
        record: (u128, u32, u64),
        reply: &Reply,
        is_query: bool,
        checker: &Checker,
        poison: &Poison,
    ) -> Checked {
        let request = of.map(|of| self.requests[of].request.clone());
        ensure(request.as_ref().is_some_and(|request| request.id == reply.id), "own reply", || {
            format!("record {record:?} is answered with {reply:?}; it is {request:?}")
        })?;
        let request = request.expect("there is one");
        let tids = checker.by_id.get(&request.id).map_or(&[][..], |tids| &tids[..]);
        if refused(reply) {
            let reason = match code_of(reply) {
                Some(Code::Quarantined) => poison.may_refuse(reply.id),
                Some(Code::TooLarge) => request.weight() > checker.request_max(),
                Some(Code::ReplyForgotten) => tids.iter().any(|tid| {
                    let known = &checker.sequenced[tid];
                    known.end.is_some() && record_of(&known.request) == Some(record)
                }),
                // Of another record with the same id, in an app that was deployed anew.
                Some(Code::IdempotencyMismatch) => {
                    tids.iter().any(|tid| record_of(&checker.sequenced[tid].request) != Some(record))
                }
                _ => false,
            };
            return ensure(reason, "own reply", || {
                format!("record {record:?} is refused without reason: {reply:?}, ran as {tids:?}")
            });
        }
        if is_query {
            let known = self.queries.get(&reply.id);
            let is_true = known.is_none_or(|queried| checker.is_lenient() || queried.allows(reply));
            return ensure(is_true, "serial order", || format!("the query {record:?} came to {reply:?}; {known:?}"));
        }
        ensure(tids.contains(&reply.tid), "own reply", || {
            format!("record {record:?} is answered with {reply:?}, and ran as {tids:?}")
        })?;
        told(reply, checker)
    }

    /// A client is given a receipt.
    pub fn receipt(&mut self, attempt: usize) -> Checked {
        self.answer(attempt).map(drop)
    }

    /// Whether a request that a client asks for is durable, and to be remembered.
    pub fn is_known(&self, of: usize, checker: &Checker, durable: Epoch) -> Option<u64> {
        let id = self.requests[of].request.id;
        let tids = checker.by_id.get(&id).map_or(&[][..], |tids| &tids[..]);
        let sequenced = tids.last().map(|tid| checker.sequenced[tid].epoch);
        checker.remembered.memory(id).filter(|_| sequenced.is_some_and(|epoch| epoch <= durable))
    }

    /// A client is told that nothing is known of a request.
    ///
    /// # Errors
    /// It was durable when it was asked for, and had not been forgotten since.
    pub fn unknown(&mut self, attempt: usize, checker: &Checker) -> Checked {
        let &Attempt { of, known, .. } = self.answer(attempt)?;
        let id = self.requests[of].request.id;
        ensure(known.is_none() || checker.remembered.memory(id) != known, "acknowledged kept", || {
            format!("request {id} is no longer known")
        })
    }

    /// Nobody can say what has become of what a client asked.
    pub fn failed(&mut self, attempt: usize) -> Checked {
        self.answer(attempt).map(drop)
    }

    /// Somebody sees how things are: gives what was asked.
    pub fn seen(&mut self, attempt: usize) -> Checked<Option<(AdminQuery, Epoch)>> {
        self.answer(attempt).map(|attempt| attempt.query.clone())
    }

    /// The machine says what became of a deployment.
    pub fn controlled(
        &mut self,
        attempt: usize,
        refused: Option<&Abort>,
        checker: &Checker,
        durable: Epoch,
    ) -> Checked {
        let of = self.answer(attempt)?.of;
        if refused.is_some_and(|abort| abort.code == Code::Overloaded) {
            // Workers did not make it ready in time: nothing has happened.
            return Ok(());
        }
        if refused.is_some_and(|abort| abort.message == MIGRATION_UNDER_WAY) {
            return Ok(());
        }
        if let Some(deployment) = self.controls[of].0.deployment() {
            ensure(refused.is_none(), "own reply", || {
                format!("the deployment {} is refused: {refused:?}", deployment.id)
            })?;
            let epoch = checker.deployments.iter().find(|(id, _)| *id == deployment.id).map(|(_, epoch)| *epoch);
            ensure(epoch.is_some_and(|epoch| epoch <= durable), "durable before told", || {
                format!("deployment {} of epoch {epoch:?} is done; durable is {durable}", deployment.id)
            })?;
        }
        Ok(())
    }

    /// After all is over: nothing told was lost, and told differently, or ran twice; and the order
    /// is that of real time.
    pub fn check(&self, checker: &Checker) -> Checked {
        for (control, _) in self.controls.iter().filter(|(_, told)| *told) {
            ensure(
                checker.records.iter().any(|record| record.controls.contains(control)),
                "acknowledged kept",
                || format!("{control:?} was told to be done, and the log does not have it"),
            )?;
        }
        for (control, told) in &self.controls {
            if let (Some(deployment), true) = (control.deployment(), told) {
                ensure(checker.deployments.iter().any(|(id, _)| *id == deployment.id), "acknowledged kept", || {
                    format!("deployment {} is lost", deployment.id)
                })?;
            }
        }
        let mut told_at: BTreeMap<Tid, u64> = BTreeMap::new();
        let mut submitted: BTreeMap<RequestId, u64> = BTreeMap::new();
        let mut intervals = Vec::new();
        for tracked in &self.requests {
            let id = tracked.request.id;
            let tids = checker.by_id.get(&id).map_or(&[][..], |tids| &tids[..]);
            let first = submitted.entry(id).or_insert(tracked.submitted);
            *first = (*first).min(tracked.submitted);
            ensure(tracked.request.retained || tids.len() <= 1, "applied twice", || {
                format!("request {id} without a key ran as {tids:?}")
            })
            .map_err(|failure| failure.about(tids))?;
            ensure(tracked.accepted.is_none() || !tids.is_empty(), "acknowledged kept", || {
                format!("request {id} had a receipt and is lost")
            })?;
            for (time, reply) in tracked.told.iter().filter(|(_, reply)| !refused(reply)) {
                match self.queries.get(&reply.id) {
                    Some(_) => {}
                    None => {
                        told(reply, checker)?;
                        let at = told_at.entry(reply.tid).or_insert(*time);
                        *at = (*at).min(*time);
                    }
                }
            }
            if let Some(queried) = self.queries.get(&id) {
                let answers = tracked.told.iter().filter(|(_, reply)| !refused(reply));
                let told = answers.map(|(time, _)| *time).min();
                intervals.push(Interval { rank: queried.rank, submitted: tracked.submitted, told, tid: Tid(0) });
            }
        }
        for (tid, known) in &checker.sequenced {
            let end = known.end.as_ref().ok_or_else(|| {
                Failure::new("liveness", format!("transaction {tid} of epoch {} never ends", known.epoch))
                    .about(&[*tid])
            })?;
            let submitted = *submitted.get(&known.request.id).ok_or_else(|| {
                Failure::new("own reply", format!("transaction {tid} was never requested")).about(&[*tid])
            })?;
            let told = told_at.get(tid).copied();
            intervals.push(Interval { rank: (end.epoch.0, end.rank as u64, 0), submitted, told, tid: *tid });
        }
        real_time(intervals)
    }
}

/// Whether a reply says that a request was not taken now.
pub fn refused(reply: &Reply) -> bool {
    code_of(reply).is_some_and(|code| is_refusal(code, reply.tid))
}

fn is_refusal(code: Code, tid: Tid) -> bool {
    // What is set aside after it was sequenced ends so.
    code == Code::Quarantined && tid == Tid(0)
        || matches!(code, Code::Overloaded | Code::IdempotencyMismatch | Code::TooLarge | Code::ReplyForgotten)
}

fn code_of(reply: &Reply) -> Option<Code> {
    reply.outcome.as_ref().err().map(|abort| abort.code)
}

/// Checks that a client's reply is the one of the log.
fn told(reply: &Reply, checker: &Checker) -> Checked {
    let Some(known) = checker.sequenced.get(&reply.tid).filter(|known| known.request.id == reply.id) else {
        let message = format!("{reply:?} was told, and the log does not have it");
        return Err(Failure::new("acknowledged kept", message).about(&[reply.tid]));
    };
    let end = known.end.as_ref().map(|end| (&end.outcome, end.epoch));
    ensure(end == Some((&reply.outcome, reply.epoch)), "one reply per request", || {
        format!("{reply:?} was told, and the log says {end:?}")
    })
    .map_err(|failure| failure.about(&[reply.tid]))
}
