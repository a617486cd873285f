//! A process that is a gateway: the product's driver, and what its shell does for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use styx_driver::COORDINATOR;
use styx_driver::admission::{LogCondition, backlog_for};
use styx_driver::client::{Answer, ClientMessage};
use styx_driver::gateway::{GatewayDriver, GatewayEffect, GatewayEvent, TICK};
use styx_driver::time::Instant;
use styx_driver::wire::Envelope;
use styx_protocol::machine::worker::ClientRequest;

use super::around::Around;
use crate::check::{Checked, ensure};
use crate::event::Message;

#[derive(Debug)]
pub struct Gateway {
    driver: GatewayDriver<usize, usize>,
    /// What the log can take, as the coordinator said it last.
    condition: LogCondition,
    ticked: Instant,
    /// Requests that it has been asked and has not answered.
    asked: BTreeSet<usize>,
}

/// Requests under way.
const BACKLOG_MAX: usize = 100_000;

impl Gateway {
    /// A gateway that knows nobody.
    pub fn new(coordinators: Vec<String>, around: &mut Around<'_>) -> Self {
        around.connect(COORDINATOR, &coordinators[0].clone());
        let backlog_max = around.environment.plan.cluster.gateway_backlog_max.min(BACKLOG_MAX);
        let now = around.instant();
        Gateway {
            driver: GatewayDriver::new(now, coordinators, backlog_max),
            condition: LogCondition::default(),
            ticked: now,
            asked: BTreeSet::new(),
        }
    }

    /// What somebody waits for in it.
    pub fn under_way(&self) -> usize {
        self.driver.under_way()
    }

    /// Takes a client's message.
    pub fn hear(&mut self, attempt: usize, message: Message, around: &mut Around<'_>) -> Checked {
        let request = match message {
            Message::Submit(request, receipt) => match self.condition.refuses_writes() {
                Some(failure) => return around.answer(attempt, Answer::Failed(failure)),
                None => ClientRequest::Submit { request, waiter: attempt, receipt },
            },
            Message::Query(request) => match self.condition.refuses_reads() {
                Some(failure) => return around.answer(attempt, Answer::Failed(failure)),
                None => ClientRequest::Query { request: Arc::unwrap_or_clone(request), waiter: attempt },
            },
            Message::Await(id) => ClientRequest::Await { id, waiter: attempt },
            Message::Look(query) => {
                return self.step(GatewayEvent::Client(ClientMessage::Read(query, attempt)), around);
            }
            Message::Control(_) => panic!("deployments go to the coordinator"),
        };
        let counts = !matches!(request, ClientRequest::Await { .. });
        self.asked.extend(counts.then_some(attempt));
        self.step(GatewayEvent::Client(ClientMessage::Request(request)), around)?;
        // Those with a key may be known to a worker: more of them are passed on.
        let most = backlog_for(true, around.environment.plan.cluster.gateway_backlog_max);
        let asked = self.asked.len();
        ensure(asked <= most, "bounded", || format!("{asked} requests are under way, and {most} may be"))
    }

    /// Everything that has come was taken.
    pub fn settle(&mut self, around: &mut Around<'_>) -> Checked {
        self.step(GatewayEvent::Settled, around)?;
        self.ticked = around.instant();
        self.step(GatewayEvent::Tick, around)
    }

    /// When it wants to be woken.
    pub fn wake(&self) -> Instant {
        self.ticked.after(TICK)
    }

    /// Steps the driver.
    pub fn step(&mut self, event: GatewayEvent<usize, usize>, around: &mut Around<'_>) -> Checked {
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
                GatewayEffect::Answer(attempt, answer) => {
                    self.asked.remove(&attempt);
                    around.answer(attempt, answer)?;
                }
                GatewayEffect::Respond(attempt, seen) => around.show(attempt, seen)?,
                GatewayEffect::Catalog(catalog) => around.environment.learn(&catalog),
                GatewayEffect::Admit(condition) => self.condition = condition,
                GatewayEffect::Informed => {}
                GatewayEffect::PeerError => around.environment.peer_error(around.own.life),
                GatewayEffect::Diagnostic(diagnostic) => around.tell(&diagnostic),
            }
        }
        undelivered.into_iter().try_for_each(|event| self.step(event, around))
    }
}
