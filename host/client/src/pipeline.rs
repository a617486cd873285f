//! Many requests under way on one WebSocket, through whatever happens to it.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::task::Poll;

use tokio::sync::{mpsc, oneshot};

use crate::retry::Attempts;
use crate::tls::Credentials;
use crate::{Connection, Error, Reply, Request, Retry};

/// A pipeline of requests; cheap to clone. It ends, and its connection with it, when all clones are gone and all
/// requests are answered.
///
/// Requests leave in the order in which they are made. When the connection breaks, it is opened again and what has no
/// reply is asked again, in the old order and under the old idempotency keys; a request without a key ends with
/// [`Error::outcome_unknown`] instead.
#[derive(Clone, Debug)]
pub struct Pipeline {
    to: mpsc::UnboundedSender<Job>,
    retry: Retry,
}

#[derive(Debug)]
struct Job {
    request: Request,
    attempts: Attempts,
    reply: oneshot::Sender<Result<Reply, Error>>,
}

impl Pipeline {
    pub(crate) fn new(ingress: String, credentials: Credentials, retry: Retry) -> Pipeline {
        let (to, jobs) = mpsc::unbounded_channel();
        let again = to.downgrade();
        tokio::spawn(Driver { ingress, credentials, retry, jobs, again, waiting: VecDeque::new() }.run());
        Pipeline { to, retry }
    }

    /// Makes a call. It is under way at once, whether or not the future is polled.
    pub fn call(&self, request: Request) -> impl Future<Output = Result<Reply, Error>> + Send + use<> {
        let (reply, replied) = oneshot::channel();
        // A driver that has ended drops the sender, which the receiver sees.
        let _ = self.to.send(Job { request, attempts: self.retry.begin(), reply });
        async move { replied.await.unwrap_or_else(|_| Err(Error::new("CONNECTION", "the pipeline has ended"))) }
    }
}

struct Driver {
    ingress: String,
    credentials: Credentials,
    retry: Retry,
    jobs: mpsc::UnboundedReceiver<Job>,
    /// For requests that are to be repeated after a pause.
    again: mpsc::WeakUnboundedSender<Job>,
    waiting: VecDeque<Job>,
}

impl Driver {
    async fn run(mut self) {
        let mut attempts = self.retry.begin();
        loop {
            if self.waiting.is_empty() {
                let Some(job) = self.jobs.recv().await else { return };
                self.waiting.push_back(job);
            }
            match Connection::open_as(&self.ingress, &self.credentials).await {
                Ok(connection) => {
                    attempts = self.retry.begin();
                    self.converse(connection).await;
                }
                Err(error) => match attempts.pause(&error, true) {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => {
                        attempts = self.retry.begin();
                        while let Ok(job) = self.jobs.try_recv() {
                            self.waiting.push_back(job);
                        }
                        for job in self.waiting.drain(..) {
                            // A caller that is gone does not mind.
                            let _ = job.reply.send(Err(error.clone()));
                        }
                    }
                },
            }
        }
    }

    /// Sends and receives until the connection breaks, or nothing is left to do.
    async fn converse(&mut self, mut connection: Connection) {
        let mut under_way: BTreeMap<u64, Job> = BTreeMap::new();
        let (mut number, mut closed) = (0u64, false);
        let error = poll_fn(|context| {
            loop {
                let mut moved = false;
                while under_way.len() < Connection::CAPACITY {
                    let job = match self.waiting.pop_front() {
                        Some(job) => job,
                        None if closed => break,
                        None => match self.jobs.poll_recv(context) {
                            Poll::Ready(Some(job)) => job,
                            Poll::Ready(None) => {
                                closed = true;
                                break;
                            }
                            Poll::Pending => break,
                        },
                    };
                    connection.send(number, &job.request);
                    under_way.insert(number, job);
                    (number, moved) = (number + 1, true);
                }
                if closed && under_way.is_empty() {
                    return Poll::Ready(Error::new("CONNECTION", "nobody asks any more"));
                }
                let polled = connection.poll(context, |number, reply| {
                    let Some(job) = under_way.remove(&number) else {
                        return Err(Error::new("BAD_REPLY", "a reply to a request that is not under way"));
                    };
                    finish(job, reply.parse()?, &self.again);
                    Ok(())
                });
                match polled {
                    Poll::Ready(Err(error)) => return Poll::Ready(error),
                    Poll::Ready(Ok(())) => {}
                    Poll::Pending if moved => {}
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
        for (_, job) in under_way.into_iter().rev() {
            if job.request.idempotency_key.is_some() {
                self.waiting.push_front(job);
            } else {
                let _ = job.reply.send(Err(error.clone()));
            }
        }
    }
}

/// Ends a request, or has it repeated after a pause.
fn finish(mut job: Job, reply: Result<Reply, Error>, again: &mpsc::WeakUnboundedSender<Job>) {
    if let Err(error) = &reply
        && let Some(pause) = job.attempts.pause(error, job.request.idempotency_key.is_some())
        && let Some(again) = again.upgrade()
    {
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            // The driver lives for as long as this sender.
            let _ = again.send(job);
        });
        return;
    }
    // A caller that is gone does not mind.
    let _ = job.reply.send(reply);
}
