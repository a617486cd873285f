//! What clients ask of a worker: those of gateways, and those in this very process.

use std::sync::Arc;

use styx_protocol::machine::Input;

use super::Driver;
use super::serving::{Asker, Looker};
use crate::handle::{self, Call, ClientMessage};
use styx_driver::wire::{Envelope, Query, Question, Response, TicketedResponse};
use styx_transport::NodeId;

impl Driver {
    pub(super) fn ask(&mut self, node: NodeId, Query { ticket, generation, question }: Query) {
        let waiter = Asker::Remote(node, ticket);
        let current = self.serving.as_mut().filter(|serving| serving.live && serving.invite.generation == generation);
        let Some(serving) = current else {
            return self.control(
                node,
                &Envelope::Responses(vec![TicketedResponse { ticket, response: Response::WrongGeneration }]),
            );
        };
        let input = match question {
            Question::Submit(request, _) if request.retained && !serving.remembers(request.id) => None,
            Question::Await(id) if !serving.remembers(id) => None,
            Question::Submit(request, receipt) => Some(Input::Submit { request, waiter, receipt }),
            Question::Query(request) => Some(Input::Query { request: Arc::unwrap_or_clone(request), waiter }),
            Question::Await(id) => Some(Input::Await { id, waiter }),
            Question::Admin(query) => return serving.look(Looker::Remote(node, ticket), &query),
        };
        match input {
            Some(input) => self.step(input),
            None => serving.tell(Looker::Remote(node, ticket), Response::WrongGeneration),
        }
    }

    /// Takes what a client in this process asks for.
    pub(super) fn local(&mut self, message: ClientMessage) {
        match message {
            ClientMessage::Call(call) => {
                self.handle.taken();
                self.step_local(match call {
                    Call::Submit { request, waiter, receipt } => {
                        Input::Submit { request, waiter: Asker::Local(waiter), receipt }
                    }
                    Call::Query { request, waiter } => Input::Query { request, waiter: Asker::Local(waiter) },
                });
            }
            ClientMessage::Await { id, waiter } => {
                self.step_local(Input::Await { id, waiter: Asker::Local(waiter) });
            }
            ClientMessage::Read(query, to) => {
                // Outside of a generation nobody can say; the asker sees the channel close.
                if let Some(serving) = &mut self.serving {
                    serving.look(Looker::Local(to), &query);
                }
            }
        }
    }

    /// Outside of a live generation the waiter is dropped, and its channel closes.
    fn step_local(&mut self, input: Input<Asker>) {
        if self.serving.as_ref().is_some_and(|serving| serving.live) {
            self.step(input);
        }
    }

    pub(super) fn answer(&mut self, asker: Asker, remote: Response, local: impl FnOnce() -> handle::Answer) {
        match asker {
            Asker::Local(waiter) => waiter.answer(local()),
            Asker::Remote(node, ticket) => {
                if let Some(serving) = &mut self.serving {
                    serving.tell(Looker::Remote(node, ticket), remote);
                }
            }
        }
    }
}
