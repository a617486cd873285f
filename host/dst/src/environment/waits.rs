//! What threads wait for: time, the disk, the store.

use super::Environment;
use crate::event::{Event, Fate, Life, ThreadId};
use crate::store::{Deletion, Put};
use crate::thread::{Answer, DiskOperation, Wait};

/// How long somebody waits for a store that does not answer.
const GIVES_UP: (u64, u64) = (20_000, 500_000);

impl Environment {
    /// A thread waits; it goes on when what it waits for has come.
    pub fn wait(&mut self, life: Life, thread: ThreadId, wait: Wait) {
        let store = self.plan.snapshotting.store;
        match wait {
            Wait::Order => panic!("a thread without orders is woken by who has one"),
            Wait::Pause(duration) => self.after(duration.as_micros() as u64, Event::Thread(life, thread, Answer::Done)),
            Wait::Disk(operation) => {
                let slow = self.slow_disks.get(&life.node).copied().unwrap_or(1);
                let delay = match operation {
                    DiskOperation::Sync => self.delay(self.plan.sync) * slow,
                    DiskOperation::Other => 0,
                };
                let fails = operation == DiskOperation::Sync && self.fails(self.plan.sync_failures);
                if fails {
                    self.excuse(life);
                }
                let answer = if fails { Answer::Failed } else { Answer::Done };
                self.after(delay, Event::Thread(life, thread, answer));
            }
            Wait::Read => {
                let (delay, answer) = if self.store_fails(life) {
                    (self.delay(GIVES_UP), Answer::Failed)
                } else {
                    (self.delay(store), Answer::Done)
                };
                self.after(delay, Event::Thread(life, thread, answer));
            }
            Wait::Put(put) => self.send(life, thread, |fate| Event::Put(life, thread, put, fate)),
            Wait::Delete(deletion) => self.send(life, thread, |fate| Event::Delete(life, thread, deletion, fate)),
            Wait::Append(message) => self.sends(life, thread, message),
            Wait::Confirmation(sender) => self.awaits_confirmation(life, thread, &sender),
            Wait::Fetch => self.fetches(life, thread),
            Wait::Forget(offset) => self.forgets(life, thread, offset),
            Wait::Call(call) => self.calls(life, thread, *call),
            Wait::State(..) => panic!("the process itself answers"),
        }
    }

    fn store_fails(&mut self, life: Life) -> bool {
        let is_cut = self.store_cut.get(&life.node).is_some_and(|until| self.queue.now() < *until);
        let fails = is_cut || self.fails(self.plan.snapshotting.failures);
        if fails {
            self.figures.store_failures += 1;
            self.causes.affects(life.node, self.queue.now() + GIVES_UP.1);
        }
        fails
    }

    pub(super) fn fails(&mut self, permille: u32) -> bool {
        !self.calm && permille > 0 && self.random.chance(permille)
    }

    /// Sends something to the store, which may be lost on the way there or back.
    fn send(&mut self, life: Life, thread: ThreadId, event: impl FnOnce(Fate) -> Event) {
        let store = self.plan.snapshotting.store;
        let (there, back) = (self.delay(store), self.delay(store) / 2);
        if !self.store_fails(life) {
            return self.after(there, event(Fate::Answered(back)));
        }
        let gives_up = self.delay(GIVES_UP);
        if self.random.chance(500) {
            // It may arrive before its sender gives it up, or long after.
            let there = self.random.between(0, 2 * gives_up);
            self.after(there, event(Fate::Unanswered(gives_up.saturating_sub(there))));
            if there > gives_up {
                self.after(gives_up, Event::Thread(life, thread, Answer::Failed));
            }
        } else {
            self.after(gives_up, Event::Thread(life, thread, Answer::Failed));
        }
    }

    /// An object reaches the store.
    pub fn put_arrives(&mut self, life: Life, thread: ThreadId, put: &Put, fate: Fate) {
        let now = self.queue.now();
        let result = {
            let mut contents = self.store.contents();
            contents.now_us = crate::clock::BEGINNING + now;
            contents.put(put)
        };
        let done = result.is_ok();
        self.trace.event(now, [17, u64::from(done)], || {
            format!("{life} {} {}", if done { "has put" } else { "finds taken" }, put.name)
        });
        if done {
            self.was_put(put.name.as_ref());
        }
        match fate {
            Fate::Answered(back) => self.after(back, Event::Thread(life, thread, Answer::Put(Some(result)))),
            Fate::Unanswered(0) => {}
            Fate::Unanswered(after) => self.after(after, Event::Thread(life, thread, Answer::Failed)),
        }
    }

    /// A deletion reaches the store.
    pub fn deletion_arrives(&mut self, life: Life, thread: ThreadId, deletion: &Deletion, fate: Fate) {
        // A request that is not answered may have been carried out in part.
        let most = match fate {
            Fate::Answered(_) => deletion.names.len(),
            Fate::Unanswered(_) => self.random.below(deletion.names.len() as u64 + 1) as usize,
        };
        for name in &deletion.names[..most] {
            self.store.contents().delete(name);
            self.was_deleted(name.as_ref());
        }
        let now = self.queue.now();
        self.trace.event(now, [18, most as u64], || format!("{life} has deleted {most} objects"));
        match fate {
            Fate::Answered(back) => self.after(back, Event::Thread(life, thread, Answer::Done)),
            Fate::Unanswered(0) => {}
            Fate::Unanswered(after) => self.after(after, Event::Thread(life, thread, Answer::Failed)),
        }
    }
}
