//! A process that is a gateway: the product's driver, and what its shell does for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use styx_driver::COORDINATOR;
use styx_driver::admission::{LogCondition, backlog_for};
use styx_driver::client::{Answer, ClientMessage, Failure};
use styx_driver::fullness::Full;
use styx_driver::gateway::{GatewayDriver, GatewayEffect, GatewayEvent, TICK};
use styx_driver::time::Instant;
use styx_driver::wire::Envelope;
use styx_protocol::catalog::Catalog;
use styx_protocol::machine::worker::{ClientRequest, FEW};
use styx_protocol::transaction::Request;

use super::around::Around;
use super::front::{Front, FrontInput};
use crate::check::{Checked, ensure};
use crate::event::{Message, Waiter};

#[derive(Debug)]
pub struct Gateway {
    driver: GatewayDriver<Waiter, usize>,
    /// What is deployed, as far as it knows.
    catalog: Arc<Catalog>,
    /// Its front for records.
    front: Option<Front>,
    /// What the log can take, as the coordinator said it last.
    condition: LogCondition,
    /// Who gets no more state, likewise.
    full: Full,
    ticked: Instant,
    /// Requests that it has been asked and has not answered.
    asked: BTreeSet<Waiter>,
}

/// Requests under way.
const BACKLOG_MAX: usize = 100_000;

impl Gateway {
    /// A gateway that knows nobody.
    pub fn new(coordinators: Vec<String>, around: &mut Around<'_>) -> Self {
        around.connect(COORDINATOR, &coordinators[0].clone());
        let backlog_max = around.environment.plan.cluster.gateway_backlog_max.min(BACKLOG_MAX);
        let now = around.instant();
        let front = around.environment.plan.records.map(|_| Front::new(true, around));
        Gateway {
            catalog: Arc::default(),
            front,
            driver: GatewayDriver::new(now, coordinators, backlog_max),
            condition: LogCondition::default(),
            full: Full::default(),
            ticked: now,
            asked: BTreeSet::new(),
        }
    }

    /// What somebody waits for in it.
    pub fn under_way(&self) -> usize {
        self.driver.under_way() + self.front.as_ref().map_or(0, Front::under_way)
    }

    /// Takes something for its front.
    pub fn front(&mut self, input: FrontInput, around: &mut Around<'_>) -> Checked {
        let Some(front) = &mut self.front else { return Ok(()) };
        let asked = front.take(input, &self.catalog, around)?;
        asked.into_iter().try_for_each(|(waiter, message)| self.hear(waiter, message, around))
    }

    /// Why a request that may write is refused, if so.
    fn refuses(&self, request: &Request, around: &mut Around<'_>) -> Option<Failure> {
        let state = || around.environment.refuses_state(&self.full, &self.catalog, request);
        self.condition.refuses_writes().or_else(state)
    }

    /// Takes a client's message, or its front's.
    pub fn hear(&mut self, waiter: Waiter, message: Message, around: &mut Around<'_>) -> Checked {
        let request = match message {
            Message::Submit(request, receipt) => match self.refuses(&request, around) {
                // Those with a key may have ended before.
                Some(failure) => return around.answer_to(waiter, Answer::Failed(failure)),
                None => ClientRequest::Submit { request, waiter, receipt },
            },
            Message::Query(request) => match self.condition.refuses_reads() {
                Some(failure) => return around.answer_to(waiter, Answer::Failed(failure)),
                None => ClientRequest::Query { request, waiter },
            },
            Message::Await(id) => ClientRequest::Await { id, waiter },
            Message::Look(query) => {
                let Waiter::Client(attempt) = waiter else { panic!("a front does not look") };
                return self.step(GatewayEvent::Client(ClientMessage::Read(query, attempt)), around);
            }
            Message::Control(_) => panic!("deployments go to the coordinator"),
        };
        let counts = !matches!(request, ClientRequest::Await { .. });
        self.asked.extend(counts.then_some(waiter));
        self.step(GatewayEvent::Client(ClientMessage::Request(request)), around)?;
        // Those with a key may be known to a worker: more of them are passed on.
        // And so are a few of each app, whoever else waits; of one that is gone by now, too.
        let most = backlog_for(true, around.environment.plan.cluster.gateway_backlog_max);
        let most = most + (self.catalog.apps().count() + 2) * (most / FEW);
        let asked = self.asked.len();
        ensure(asked <= most, "bounded", || format!("{asked} requests are under way, and {most} may be"))
    }

    /// Everything that has come was taken.
    pub fn settle(&mut self, around: &mut Around<'_>) -> Checked {
        self.step(GatewayEvent::Settled, around)?;
        self.ticked = around.instant();
        self.step(GatewayEvent::Tick, around)?;
        let Some(front) = &mut self.front else { return Ok(()) };
        let asked = front.tick(&self.catalog, around)?;
        asked.into_iter().try_for_each(|(waiter, message)| self.hear(waiter, message, around))
    }

    /// When it wants to be woken.
    pub fn wake(&self) -> Instant {
        let front = self.front.as_ref().and_then(|front| front.wake(self.ticked));
        front.unwrap_or(Instant(u64::MAX)).min(self.ticked.after(TICK))
    }

    /// Steps the driver.
    pub fn step(&mut self, event: GatewayEvent<Waiter, usize>, around: &mut Around<'_>) -> Checked {
        let mut effects = Vec::new();
        self.driver.step(around.instant(), event, &mut effects);
        let mut undelivered = Vec::new();
        for effect in effects {
            match effect {
                GatewayEffect::Ask { to, queries } => {
                    let envelope = Envelope::Queries(queries);
                    if around.send_control_now(to, &envelope).is_err()
                        && let Envelope::Queries(queries) = envelope
                    {
                        undelivered.push(GatewayEvent::Undelivered { to, queries });
                    }
                }
                GatewayEffect::Send(envelope) => drop(around.send_control(COORDINATOR, &envelope)),
                GatewayEffect::Connect { node, address } => around.connect(node, &address),
                GatewayEffect::Disconnect(node) => around.forget(node),
                GatewayEffect::Redirect(address) => around.redirect(COORDINATOR, &address),
                GatewayEffect::Answer(waiter, answer) => {
                    self.asked.remove(&waiter);
                    around.answer_to(waiter, answer)?;
                }
                GatewayEffect::Respond(attempt, seen) => around.show(attempt, seen)?,
                GatewayEffect::Catalog(catalog) => {
                    around.environment.learn(&catalog);
                    self.catalog = catalog;
                }
                GatewayEffect::Admit(condition, full) => (self.condition, self.full) = (condition, full),
                GatewayEffect::Informed => {}
                GatewayEffect::PeerError => around.environment.peer_error(around.own.life),
                GatewayEffect::Diagnostic(diagnostic) => around.tell(&diagnostic),
            }
        }
        undelivered.into_iter().try_for_each(|event| self.step(event, around))
    }
}
