//! A connection of many connections that each carry one call at a time: whichever is free takes the next.

use std::future::Future;
use std::task::{Context, Poll};

use anyhow::Context as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::connection::{Answered, Connection, End};
use crate::workload::Call;

pub trait Session: Send + 'static {
    /// Makes a call; also says how often it was asked again.
    fn ask(&mut self, call: &Call) -> impl Future<Output = anyhow::Result<(End, u32)>> + Send;
}

/// The connections, each in a task of its own; they end with this value.
pub struct Pool {
    sessions: Vec<mpsc::UnboundedSender<(u64, Call)>>,
    idle: Vec<usize>,
    ends: mpsc::UnboundedReceiver<(usize, anyhow::Result<Answered>)>,
    taken: Vec<(usize, anyhow::Result<Answered>)>,
    _tasks: JoinSet<()>,
}

const TAKEN_MAX: usize = 256;

impl Pool {
    /// A connection over these connections.
    pub fn new<S: Session>(sessions: Vec<S>) -> Pool {
        let (to, ends) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let start = |(index, mut session): (usize, S)| {
            let (calls, mut inbox) = mpsc::unbounded_channel::<(u64, Call)>();
            let to = to.clone();
            tasks.spawn(async move {
                while let Some((ticket, call)) = inbox.recv().await {
                    let asked = session.ask(&call).await;
                    let asked = asked.map(|(end, retries)| Answered { ticket, end, retries });
                    if to.send((index, asked)).is_err() {
                        break;
                    }
                }
            });
            calls
        };
        let sessions: Vec<_> = sessions.into_iter().enumerate().map(start).collect();
        Pool { idle: (0..sessions.len()).collect(), sessions, ends, taken: Vec::new(), _tasks: tasks }
    }
}

impl Connection for Pool {
    fn capacity(&self) -> usize {
        self.sessions.len()
    }

    fn send(&mut self, ticket: u64, call: &Call) -> anyhow::Result<()> {
        let session = self.idle.pop().context("more calls are under way than there are connections")?;
        self.sessions[session].send((ticket, call.clone())).ok().context("a connection has ended")
    }

    fn poll(&mut self, context: &mut Context<'_>, answers: &mut Vec<Answered>) -> Poll<anyhow::Result<()>> {
        if self.ends.poll_recv_many(context, &mut self.taken, TAKEN_MAX).is_pending() {
            return Poll::Pending;
        }
        for (session, asked) in self.taken.drain(..) {
            self.idle.push(session);
            match asked {
                Ok(answered) => answers.push(answered),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }
}
