//! The topics of records and replies as processes reach them, and the group of those who serve them.

use std::collections::BTreeSet;

use styx_driver::kafka::Place;
use styx_protocol::abort::Code;
use styx_protocol::replies::Reply;

use super::Environment;
use crate::check::Checked;
use crate::event::{Event, Fate, Life, ThreadId};
use crate::plan::RecordsPlan;
use crate::process::{FrontInput, Input};
use crate::records::{Call, Content};
use crate::thread::Answer;

/// Id of the topic of requests.
pub const TOPIC: u128 = 2;
/// How long somebody waits for brokers that do not answer.
const GIVES_UP: (u64, u64) = (50_000, 500_000);

impl Environment {
    /// A thread asks the brokers, which may not come to know it, or come to know it late; or it does not come to know their
    /// answer.
    pub(super) fn calls(&mut self, life: Life, thread: ThreadId, call: Call) {
        let RecordsPlan { delay, failures, .. } = self.plan.records.expect("there are records");
        let stalled = self.brokers_cut.get(&life.node).map_or(0, |until| until.saturating_sub(self.queue.now()));
        let (there, back) = (stalled + self.delay(delay), self.delay(delay));
        if stalled == 0 && !self.fails(failures) {
            return self.after(there, Event::Called(life, thread, Box::new(call), Fate::Answered(back)));
        }
        let gives_up = self.delay(GIVES_UP);
        if self.random.chance(700) {
            let there = if stalled > 0 { there } else { self.random.between(0, 2 * gives_up) };
            let after = gives_up.saturating_sub(there);
            self.after(there, Event::Called(life, thread, Box::new(call), Fate::Unanswered(after)));
            if there < gives_up {
                return;
            }
        }
        self.after(gives_up, Event::Thread(life, thread, Answer::Failed));
    }

    /// Something that was asked for reaches the brokers.
    ///
    /// # Errors
    /// What it commits is not what was promised.
    pub fn call_arrives(&mut self, life: Life, thread: ThreadId, call: Call, fate: Fate) -> Checked {
        let now = self.queue.now();
        let is_fetch = matches!(call, Call::Fetch(_));
        let said = if is_fetch || !self.trace.is_kept() { String::new() } else { format!("{call:?}") };
        let (told, committed) = self.brokers.take(call, now);
        if !is_fetch {
            self.trace.event(now, [27, life.node as u64], || format!("{life} asks brokers: {said}: {told:?}"));
        }
        self.replied.commit(&committed, &mut self.history, &self.brokers, now)?;
        self.figures.records += committed.len() as u64;
        match fate {
            Fate::Answered(back) => self.after(back, Event::Thread(life, thread, Answer::Told(Box::new(told)))),
            Fate::Unanswered(0) => {}
            Fate::Unanswered(after) => self.after(after, Event::Thread(life, thread, Answer::Failed)),
        }
        Ok(())
    }

    /// A front is told what a record came to.
    ///
    /// # Errors
    /// It came to something else.
    pub fn answers_record(&mut self, life: Life, place: Place, reply: &Reply, read_only: bool) -> Checked {
        let now = self.queue.now();
        self.trace.event(now, [28, life.node as u64, place.offset as u64], || {
            format!("{life} answers record {} of {}: {reply:?}", place.offset, place.partition)
        });
        let is_forgotten = matches!(&reply.outcome, Err(abort) if abort.code == Code::ReplyForgotten);
        if is_forgotten && self.replied.has(place) {
            // Whoever has lost the partition still asks for what its successor has answered, as a query that left no trace.
            return Ok(());
        }
        let what = self.brokers.record(place).what;
        let of = match what {
            Content::Request(of, _) => Some(of),
            Content::Nonsense(of) => of,
        };
        let record = (TOPIC, place.partition as u32, place.offset as u64);
        self.history.record_reply(of, record, reply, read_only, &self.checker, &self.poison)
    }

    /// Whether every record has its reply.
    pub fn has_replied(&self) -> bool {
        self.replied.count() == self.brokers.records().count()
    }

    /// Records that have no reply.
    pub fn unanswered(&self) -> Vec<Place> {
        self.brokers.records().map(|(place, _)| place).filter(|place| !self.replied.has(*place)).collect()
    }

    /// The group of fronts is looked at: those that were heard of are its members, and are told what to serve if that is
    /// other than before.
    pub fn review_group(&mut self, heard: &BTreeSet<Life>) {
        let RecordsPlan { silence, review, .. } = self.plan.records.expect("there are records");
        let now = self.queue.now();
        self.brokers.review(heard, now, now.saturating_sub(silence));
        self.brokers.expire(now.saturating_sub(4 * silence));
        // Sometimes for no reason.
        let turns = !self.calm && self.random.chance(20);
        if std::mem::take(&mut self.brokers.has_changed) || turns {
            let turn = self.random.below(8) as usize;
            let assignment = self.brokers.assignment(turn);
            self.trace.event(now, [29, turn as u64], || format!("partitions of records are served by {assignment:?}"));
            for (life, partitions) in assignment {
                // Whoever had them is asked to stop first, and hears of it some time.
                let stops = self.random.between(0, silence / 2);
                let begins = stops + self.random.between(0, silence / 2);
                // Nobody hears of an earlier assignment after a later one.
                let stops = self.brokers.tells(life, now + stops, now + begins + 1) - now;
                let begins = begins.max(stops);
                let input = |assigned| Box::new(Input::Front(Box::new(FrontInput::Assigned(assigned))));
                self.after(stops, Event::Told(life, input(None)));
                self.after(begins + 1, Event::Told(life, input(Some(partitions))));
            }
        }
        self.after(review, Event::ReviewGroup);
    }
}
