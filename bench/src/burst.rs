//! Calls that a worker process makes to itself, as many at a time as fit: the load of `cluster`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use hdrhistogram::Histogram;
use styx_protocol::catalog::{Component, Deployment, Digest, Function, Isolation, Limits, OperatorSpec};
use styx_protocol::ids::{OperatorId, RequestId, Timestamp};
use styx_protocol::transaction::Request;
use styx_server::handle::{Answer, Handle, Waiter};
use tokio::sync::mpsc::unbounded_channel;

/// What a run came to.
pub struct Run {
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Of each request, µs.
    pub latency_us: Histogram<u64>,
    /// Those that ended without effect.
    pub aborted: usize,
}

/// Makes requests, each with an id of its own.
pub struct Numbered(u128);

impl Numbered {
    /// Ids follow this one.
    pub fn after(last: u128) -> Self {
        Numbered(last)
    }

    /// A request to an account.
    pub fn request(&mut self, function: &Arc<str>, key: &Arc<str>, args: &str) -> Arc<Request> {
        self.0 += 1;
        Arc::new(Request {
            id: RequestId(self.0),
            operator: OperatorId(0),
            function: function.clone(),
            key: key.clone(),
            args: args.as_bytes().into(),
            retained: false,
        })
    }
}

/// Submits all requests, a bounded number in flight, and waits for all answers.
///
/// # Errors
/// Not all are answered: the worker has dropped some, since it is gone or its generation is over.
pub fn drive(handle: &Handle, requests: Vec<Arc<Request>>, window: usize) -> anyhow::Result<Run> {
    let dropped = "the worker has dropped requests: it is gone, or its generation is over";
    // While answers are waited for, only what is under way can send: if all of that is dropped, the
    // channel closes.
    let (to, mut answers) = unbounded_channel();
    let (mut weak, mut to) = (to.downgrade(), Some(to));
    let started = Instant::now();
    let total = requests.len();
    let mut sent = Vec::with_capacity(total);
    let mut latency_us = Histogram::new_with_bounds(1, 60_000_000, 3)?;
    let (mut answered, mut aborted) = (0, 0);
    let mut take = |(ticket, answer): (u64, Answer), sent: &Vec<Instant>| {
        latency_us.saturating_record(sent[ticket as usize].elapsed().as_micros() as u64);
        let Answer::Reply(reply) = answer else { anyhow::bail!("an answer that is no reply") };
        aborted += usize::from(reply.outcome.is_err());
        anyhow::Ok(())
    };
    for (ticket, request) in requests.into_iter().enumerate() {
        while ticket - answered >= window {
            to = None;
            take(answers.blocking_recv().context(dropped)?, &sent)?;
            answered += 1;
        }
        let sender = match to.take().or_else(|| weak.upgrade()) {
            Some(sender) => sender,
            None => {
                // Nothing is under way.
                while let Ok(answer) = answers.try_recv() {
                    take(answer, &sent)?;
                    answered += 1;
                }
                let (sender, receiver) = unbounded_channel();
                (weak, answers) = (sender.downgrade(), receiver);
                sender
            }
        };
        sent.push(Instant::now());
        handle.submit(request, Waiter::Stream { ticket: ticket as u64, to: sender.clone() }, false);
        to = Some(sender);
    }
    drop(to);
    while answered < total {
        take(answers.blocking_recv().context(dropped)?, &sent)?;
        answered += 1;
    }
    Ok(Run { elapsed: started.elapsed(), latency_us, aborted })
}

/// An app with the accounts' functions, which `component` has.
pub fn deployment(component: Digest) -> Deployment {
    let function = |name: &str, read_only| Function {
        name: name.into(),
        parameters: vec![],
        returns: "{}".into(),
        read_only,
        consistency: Default::default(),
        doc: String::new(),
    };
    Deployment {
        id: "dp_bench".into(),
        app: "bench".into(),
        created: Timestamp(0),
        components: vec![Component { name: "ycsb".into(), digest: component, size: 0, sdk: String::new() }],
        operators: vec![OperatorSpec {
            name: "account".into(),
            component: 0,
            key_prefix: None,
            isolation: Isolation::Warm,
            doc: String::new(),
            functions: vec![
                function("insert", false),
                function("transfer", false),
                function("transfer_async", false),
                function("credit", false),
                function("update", false),
                function("read", true),
            ],
        }],
        limits: Limits::default(),
    }
}
