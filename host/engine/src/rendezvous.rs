//! Rendezvous: the place where a guest on a fiber and its executor hand each other the transaction.
//!
//! A guest that needs other workers leaves the transaction here with its requests and is suspended; the executor takes
//! both, and leaves the transaction with the responses before it resumes the guest.

use std::sync::{Arc, Mutex};
use std::task::Poll;

use styx_protocol::attempt::{RemoteRequests, RemoteResponse};

/// Between an executor and the one guest that it runs. The lock is never contended: both are on the executor's thread.
pub(crate) struct Rendezvous<T>(Arc<Mutex<Handed<T>>>);

enum Handed<T> {
    Nothing,
    Requests(T, RemoteRequests),
    Responses(T, Vec<RemoteResponse>),
}

impl<T> Rendezvous<T> {
    pub fn new() -> Self {
        Rendezvous(Arc::new(Mutex::new(Handed::Nothing)))
    }

    /// For the guest: leaves requests, with the transaction, and waits for the responses.
    pub async fn request(self, transaction: T, requests: RemoteRequests) -> (T, Vec<RemoteResponse>) {
        self.leave(Handed::Requests(transaction, requests));
        std::future::poll_fn(|_| match self.take() {
            Handed::Responses(transaction, responses) => Poll::Ready((transaction, responses)),
            other => {
                self.leave(other);
                Poll::Pending
            }
        })
        .await
    }

    /// For the executor: the requests of the guest that was suspended.
    pub fn requests(&self) -> (T, RemoteRequests) {
        match self.take() {
            Handed::Requests(transaction, requests) => (transaction, requests),
            Handed::Nothing | Handed::Responses(..) => panic!("a guest waits and has requested nothing"),
        }
    }

    /// For the executor: leaves the responses for the guest that is resumed next.
    pub fn respond(&self, transaction: T, responses: Vec<RemoteResponse>) {
        self.leave(Handed::Responses(transaction, responses));
    }

    fn leave(&self, handed: Handed<T>) {
        *self.0.lock().expect("no panic under the lock") = handed;
    }

    fn take(&self) -> Handed<T> {
        std::mem::replace(&mut *self.0.lock().expect("no panic under the lock"), Handed::Nothing)
    }
}

impl<T> Clone for Rendezvous<T> {
    fn clone(&self) -> Self {
        Rendezvous(self.0.clone())
    }
}
