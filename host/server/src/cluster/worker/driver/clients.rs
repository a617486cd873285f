//! What clients ask of a worker: those of gateways, and those in this very process.

use std::sync::Arc;

use styx_protocol::machine::worker::{ClientRequest, Input};

use super::Driver;
use super::serving::{Asker, Looker};
use crate::handle::{self, ClientMessage, Waiter};
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
        let request = match question {
            Question::Submit(request, _) if request.retained && !serving.remembers(request.id) => None,
            Question::Await(id) if !serving.remembers(id) => None,
            Question::Submit(request, receipt) => Some(ClientRequest::Submit { request, waiter, receipt }),
            Question::Query(request) => Some(ClientRequest::Query { request: Arc::unwrap_or_clone(request), waiter }),
            Question::Await(id) => Some(ClientRequest::Await { id, waiter }),
            Question::Admin(query) => return serving.look(Looker::Remote(node, ticket), &query),
        };
        match request {
            Some(request) => self.step(Input::Client(request)),
            None => serving.tell(Looker::Remote(node, ticket), Response::WrongGeneration),
        }
    }

    /// Takes what a client in this process asks for.
    pub(super) fn local(&mut self, message: ClientMessage) {
        self.handle.taken(&message);
        match message {
            ClientMessage::Request(request) => self.step_local(request),
            ClientMessage::Read(query, to) => {
                // Outside of a generation nobody can say; the asker sees the channel close.
                if let Some(serving) = &mut self.serving {
                    serving.look(Looker::Local(to), &query);
                }
            }
        }
    }

    /// Outside of a live generation the waiter is dropped, and its channel closes.
    fn step_local(&mut self, request: ClientRequest<Waiter>) {
        if self.serving.as_ref().is_some_and(|serving| serving.live) {
            self.step(Input::Client(request.map_waiter(Asker::Local)));
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
