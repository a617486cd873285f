//! Many requests under way on one connection: what WebSockets and batches share.
//!
//! Requests come in as JSON text and go to the worker without a task or an await of their own;
//! replies come back in commit order, told apart by a ticket that names a slot here.

use std::borrow::Cow;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use serde::Deserialize;
use serde_json::value::RawValue;
use styx_protocol::replies::Reply;
use styx_protocol::transaction::Request;
use tokio::sync::mpsc;

use super::Ingress;
use super::callee::admit;
use super::json::compact;
use super::reply::{refusal, reply};
use super::request::{Call, check_idempotency_key, derived_id};
use super::watching::watch;
use super::window::{Refused, Window};
use crate::auth::Visitor;
use crate::handle::{Answer, Answers, Waiter};
use crate::http::{Account, ApiError, FunctionStats, Outcome};
use crate::observe::SLOW;

/// A request as it comes in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    app: Cow<'a, str>,
    #[serde(borrow)]
    operator: Cow<'a, str>,
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    function: Cow<'a, str>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    idempotency_key: Option<Cow<'a, str>>,
    /// Whether somebody wants to look at it later.
    #[serde(default)]
    trace: bool,
    /// The trace that it is part of.
    #[serde(borrow)]
    traceparent: Option<Cow<'a, str>>,
}

impl<'a> Envelope<'a> {
    /// Reads a request. UTF-8 is checked once, not in every string.
    fn read(text: &'a [u8]) -> serde_json::Result<Self> {
        match std::str::from_utf8(text) {
            Ok(text) => serde_json::from_str(text),
            Err(_) => serde_json::from_slice(text), // Says where.
        }
    }
}

/// As much of a request as is needed to say whose it is.
#[derive(Deserialize)]
struct Sender<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

/// A request under way.
struct Slot {
    /// Its id as JSON.
    id: String,
    started: Instant,
    read_only: bool,
    /// Bytes of the request, and of the result that is expected.
    held: usize,
    /// It is no request: why, unless it was one when it came first.
    refused: Option<Box<ApiError>>,
    stats: Option<&'static FunctionStats>,
    /// It, as long as there may be no room for it where it was handed over.
    request: Option<Arc<Request>>,
}

/// A request whose turn has not come: its client makes as many in a second as it may.
struct Late {
    text: Bytes,
    /// Bytes that are held for it.
    held: usize,
    started: Instant,
}

/// The requests under way on one connection. Replies are appended to the caller's buffer, each
/// ended by a line feed.
pub struct Pipeline {
    ingress: Arc<Ingress>,
    visitor: Visitor,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Where answers go, and the account of this connection.
    to: Arc<Answers>,
    answers: mpsc::UnboundedReceiver<(u64, Answer)>,
    taken: Vec<(u64, Answer)>,
    /// How many of them may be under way where they are handed over.
    window: Window,
    /// The request before the backlog, if it waits.
    late: Option<Late>,
    /// Lines that there was no room for yet.
    backlog: Bytes,
    lines: u64,
    scratch: Vec<u8>,
    /// Bytes of results in the caller's buffer.
    unread: usize,
    /// About how large results are.
    result_bytes: usize,
}

/// How long a request waits for room before its client is told that there is none.
const PATIENCE: Duration = Duration::from_secs(30);
/// Answers taken at once.
const TAKEN_MAX: usize = 1024;
/// Bytes of results that may be under way, if there is room for them, and a part of them that is taken at once.
const RESULTS_BYTES_MAX: usize = 64 << 20;
const TAKEN_BYTES_MAX: usize = 1 << 20;
/// Assumed size of results before any has been seen: what an app may return, unless its limits say otherwise.
const RESULT_BYTES_FIRST: usize = 1 << 20;

impl Pipeline {
    /// A pipeline of somebody's, with nothing in it.
    pub fn new(ingress: Arc<Ingress>, visitor: Visitor) -> Self {
        let (to, answers) = mpsc::unbounded_channel();
        let to = Answers::new(to, ingress.options.memory.account());
        Pipeline {
            window: Window::new(ingress.options.in_flight_max),
            late: None,
            ingress,
            visitor,
            slots: Vec::new(),
            free: Vec::new(),
            to,
            answers,
            taken: Vec::new(),
            backlog: Bytes::new(),
            lines: 0,
            scratch: Vec::new(),
            unread: 0,
            result_bytes: RESULT_BYTES_FIRST,
        }
    }

    /// Requests under way.
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Goes on with what waits for its turn, if it has come; returns true if another request may be taken.
    pub fn poll_room(&mut self, context: &mut Context<'_>, out: &mut Vec<u8>) -> bool {
        while self.window.poll_pause(context).is_ready() {
            self.resume(out);
        }
        self.backlog.is_empty() && self.may_submit()
    }

    fn may_submit(&self) -> bool {
        let results = self.account().room().min(RESULTS_BYTES_MAX) / self.result_bytes;
        let in_flight = self.in_flight();
        in_flight < results.clamp(1, self.ingress.options.in_flight_max)
            && self.window.has_room(in_flight)
            && !self.window.is_clogged()
            && self.late.is_none()
    }

    /// What this connection holds.
    pub fn account(&self) -> &Account {
        &self.to.account
    }

    /// Where answers to this connection go.
    pub fn answers(&self) -> Arc<Answers> {
        self.to.clone()
    }

    /// The caller's buffer has been sent.
    pub fn sent(&mut self) {
        self.account().shrink(self.unread);
        self.unread = 0;
    }

    /// Returns true if every request taken has been answered.
    pub fn is_empty(&self) -> bool {
        self.backlog.is_empty() && self.late.is_none() && self.in_flight() == 0
    }

    /// Takes the text of one message: a request, or several, one a line.
    pub fn take_message(&mut self, text: Bytes, out: &mut Vec<u8>) {
        if memchr::memchr(b'\n', &text).is_some() && Envelope::read(&text).is_err() {
            self.take_lines(text, out);
        } else if self.account().grow(text.len()) {
            let held = text.len();
            self.take(Late { text, held, started: Instant::now() }, out);
        } else {
            self.refuse(&ApiError::no_room(), out);
        }
    }

    /// Takes whole lines, one request each; empty lines are skipped.
    pub fn take_lines(&mut self, lines: Bytes, out: &mut Vec<u8>) {
        debug_assert!(self.backlog.is_empty(), "a caller asks for room first");
        if !self.account().grow(lines.len()) {
            return self.refuse(&ApiError::no_room(), out);
        }
        self.backlog = lines;
        self.resume(out);
    }

    /// Hands over what there was no room for, and takes from the lines left over, for as long as there is room.
    fn resume(&mut self, out: &mut Vec<u8>) {
        while self.window.has_room(self.in_flight())
            && let Some(Refused { ticket, request }) = self.window.next()
        {
            self.hand_over(ticket, request);
        }
        if self.window.has_room(self.in_flight())
            && let Some(late) = self.late.take()
        {
            self.take(late, out);
        }
        while !self.backlog.is_empty() && self.may_submit() {
            let end = memchr::memchr(b'\n', &self.backlog).map_or(self.backlog.len(), |at| at + 1);
            let line = self.backlog.split_to(end);
            self.lines += 1;
            let held = line.len();
            let text = trimmed(line);
            if text.is_empty() {
                self.account().shrink(held);
            } else {
                self.take(Late { text, held, started: Instant::now() }, out);
            }
        }
    }

    /// Appends a refusal of something that is no request.
    pub fn refuse(&self, why: &ApiError, out: &mut Vec<u8>) {
        refusal("null", why, out);
        out.push(b'\n');
    }

    /// Takes a request, unless its client has made as many in this second as it may: then it waits, and all behind it.
    fn take(&mut self, request: Late, out: &mut Vec<u8>) {
        if self.visitor.admit().is_err() {
            self.late = Some(request);
            return self.window.pause();
        }
        let Late { text, held, started } = request;
        if let Err((id, why)) = self.submit(&text, held, started) {
            self.account().shrink(held);
            let latencies = &self.ingress.latencies;
            latencies.record(latencies.error(why.status, why.code), started.elapsed());
            refusal(&id, &why, out);
            out.push(b'\n');
        }
    }

    /// Gives a request to the worker, or says whose it is and why not.
    fn submit(&mut self, text: &[u8], held: usize, started: Instant) -> Result<(), (String, ApiError)> {
        let envelope = match Envelope::read(text) {
            Ok(envelope) => envelope,
            Err(error) => {
                let id = serde_json::from_slice::<Sender<'_>>(text)
                    .map_or_else(|_| String::from("null"), |sender| echo(sender.id));
                let place = if self.lines > 0 { format!("line {}: ", self.lines) } else { String::new() };
                let message = format!("{place}this is no request: {}", crate::http::shorten(&error.to_string()));
                return Err((
                    id,
                    ApiError::bad_request(message)
                        .hint(r#"send {"id":…,"app":…,"operator":…,"key":…,"function":…,"args":…}"#),
                ));
            }
        };
        let catalog = self.ingress.handle.catalog();
        if let Err(why) = admit(&mut self.visitor, &envelope.app, &envelope.function, &catalog) {
            return Err((echo(envelope.id), why));
        }
        let directory = self.ingress.directories.of(catalog);
        let prepared = directory.callee(&envelope.app, &envelope.operator, &envelope.function).and_then(|callee| {
            let call = Call {
                key: &envelope.key,
                args: envelope.args.map_or(b"", |args| args.get().as_bytes()),
                idempotency_key: envelope.idempotency_key.as_deref(),
                retained: false,
            };
            Ok((callee.prepare(call, &mut self.scratch)?, callee.is_read_only(), callee.stats()))
        });
        match prepared {
            Ok((mut request, read_only, stats)) => {
                let has_key = envelope.idempotency_key.is_some();
                watch(&mut request, envelope.trace, envelope.traceparent.as_deref(), has_key, &self.ingress);
                let ticket = self.slot(envelope.id, started, held, read_only, None);
                self.slots[ticket as usize].stats = stats;
                self.hand_over(ticket, Arc::new(request));
            }
            Err(why) => {
                let key = envelope.idempotency_key.as_deref().and_then(|key| check_idempotency_key(key).ok());
                let Some(key) = key else { return Err((echo(envelope.id), why)) };
                let ticket = self.slot(envelope.id, started, held, false, Some(Box::new(why)));
                let waiter = Waiter::Stream { ticket, to: self.to.clone() };
                self.ingress.handle.ask_end(derived_id(&envelope.app, key), waiter, false, Answer::Unknown);
            }
        }
        Ok(())
    }

    /// Gives a request to the worker, for who waits in a slot.
    fn hand_over(&mut self, ticket: u64, request: Arc<Request>) {
        let slot = &mut self.slots[ticket as usize];
        slot.request = Some(request.clone());
        let waiter = Waiter::Stream { ticket, to: self.to.clone() };
        if slot.read_only {
            self.ingress.handle.query(request, waiter);
        } else {
            self.ingress.handle.submit(request, waiter, false);
        }
    }

    /// A slot for a request, and the ticket of who waits in it. Slots and the memory of their ids are used again.
    fn slot(
        &mut self,
        id: Option<&RawValue>,
        started: Instant,
        held: usize,
        read_only: bool,
        refused: Option<Box<ApiError>>,
    ) -> u64 {
        // For the result of one alone nothing is kept free: its turn comes in any case.
        let expected = self.in_flight() > 0 && self.account().grow(self.result_bytes);
        let held = held + if expected { self.result_bytes } else { 0 };
        let at = self.free.pop().unwrap_or_else(|| {
            let (refused, stats, request) = (None, None, None);
            self.slots.push(Slot { id: String::new(), started, read_only, held, refused, stats, request });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[at];
        slot.id.clear();
        match id {
            Some(id) if !id.get().contains(['\n', '\r']) => slot.id.push_str(id.get()),
            id => slot.id.push_str(&echo(id)),
        }
        (slot.started, slot.read_only, slot.held, slot.refused) = (started, read_only, held, refused);
        slot.stats = None;
        at as u64
    }

    /// Appends the replies that have come; ready with their number, or with 0 when the worker is gone.
    pub fn poll_replies(&mut self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<usize> {
        let mut taken = std::mem::take(&mut self.taken);
        let most = (TAKEN_BYTES_MAX / self.result_bytes).clamp(1, TAKEN_MAX);
        let polled = self.answers.poll_recv_many(context, &mut taken, most);
        let now = Instant::now();
        let (mut done, mut answered, mut is_full) = (0, 0, false);
        for (ticket, answer) in taken.drain(..) {
            let at = ticket as usize;
            let slot = &mut self.slots[at];
            let request = slot.request.take();
            if found_no_room(&answer)
                && now.saturating_duration_since(slot.started) < PATIENCE
                && let Some(request) = request
            {
                self.window.refuse(Refused { ticket, request });
                is_full = true;
                continue;
            }
            answered += 1;
            done += slot.held;
            let replayed = matches!(answer, Answer::Replayed(_));
            let outcome = match answer {
                Answer::Reply(end) | Answer::Replayed(end) => {
                    // Jumps up, and comes down slowly.
                    let size = end.outcome.as_ref().map_or(0, |value| value.len());
                    self.unread += size;
                    let took = now.saturating_duration_since(slot.started);
                    if took >= SLOW {
                        self.ingress.handle.stats().observed.slow(&end, took, slot.stats);
                    }
                    self.result_bytes = size.max(self.result_bytes - self.result_bytes / 8).max(64);
                    let outcome = match &end.outcome {
                        Ok(_) if slot.read_only => Outcome::Answered,
                        Ok(_) => Outcome::Committed,
                        Err(abort) => {
                            self.ingress.latencies.error(crate::http::status_of(abort.code), abort.code.as_str())
                        }
                    };
                    reply(&slot.id, end, replayed, out);
                    outcome
                }
                Answer::Failed(failure) => {
                    let error = ApiError::from(failure);
                    refusal(&slot.id, &error, out);
                    self.ingress.latencies.error(error.status, error.code)
                }
                Answer::Accepted(_) | Answer::Unknown | Answer::Controlled(_) => {
                    let error = slot.refused.take().map_or_else(ApiError::shutting_down, |error| *error);
                    refusal(&slot.id, &error, out);
                    self.ingress.latencies.error(error.status, error.code)
                }
            };
            out.push(b'\n');
            let took = now.saturating_duration_since(slot.started);
            self.ingress.latencies.record(outcome, took);
            if let Some(stats) = slot.stats {
                stats.record(outcome, took);
            }
            self.free.push(at);
        }
        self.taken = taken;
        self.account().shrink(done);
        self.window.answered(answered, is_full, self.in_flight());
        self.resume(out);
        self.poll_room(context, out);
        polled
    }
}

fn trimmed(mut line: Bytes) -> Bytes {
    line.truncate(line.trim_ascii_end().len());
    line.advance(line.len() - line.trim_ascii_start().len());
    line
}

/// Whether a request was not taken, as too many wait.
fn found_no_room(answer: &Answer) -> bool {
    matches!(answer, Answer::Reply(Reply { outcome: Err(abort), .. }) if abort.is_backlog_full())
}

/// An id as it stands in the reply: as it came, on one line.
fn echo(id: Option<&RawValue>) -> String {
    let Some(id) = id else { return String::from("null") };
    if !id.get().contains(['\n', '\r']) {
        return id.get().to_owned();
    }
    let mut line = Vec::with_capacity(id.get().len());
    compact(id.get().as_bytes(), &mut line);
    String::from_utf8(line).expect("white space is ASCII")
}
