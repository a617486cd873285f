//! The topic of the log as processes reach it: who wrote to it last, what is on the way there, and who is cut off.

use super::Environment;
use crate::event::{Event, Life, ThreadId};
use crate::thread::Answer;
use crate::topic::{Message, Sender};

impl Environment {
    /// Until a machine reaches the brokers again, from now.
    fn cut_from_brokers(&self, node: usize) -> u64 {
        self.brokers_cut.get(&node).map_or(0, |until| until.saturating_sub(self.queue.now()))
    }

    /// Whether the brokers do not answer a machine.
    pub fn is_stalled(&self, node: usize) -> bool {
        self.cut_from_brokers(node) > 0
    }

    fn way_to_brokers(&mut self, node: usize) -> u64 {
        let slow = self.slow_disks.get(&node).copied().unwrap_or(1);
        self.cut_from_brokers(node) + self.delay(self.plan.sync) * slow / 2
    }

    /// A thread sends a message, after those before it.
    pub(super) fn sends(&mut self, life: Life, thread: ThreadId, message: Message) {
        self.after(0, Event::Thread(life, thread, Answer::Done));
        if self.fails(self.plan.sync_failures) {
            self.excuse(life);
            return self.fail(&message.sender);
        }
        let (now, delay) = (self.queue.now(), self.way_to_brokers(life.node));
        let arrives = {
            let mut sent = message.sender.sent();
            sent.arrives = (sent.arrives + 1).max(now + delay);
            sent.arrives
        };
        self.after(arrives - now, Event::Append(life, message));
    }

    /// A thread waits for confirmations.
    pub(super) fn awaits_confirmation(&mut self, life: Life, thread: ThreadId, sender: &Sender) {
        if sender.sent().has_failed {
            return self.after(0, Event::Thread(life, thread, Answer::Done));
        }
        sender.sent().waiting = Some((life, thread));
    }

    /// A thread reads the topic.
    pub(super) fn fetches(&mut self, life: Life, thread: ThreadId) {
        let delay = 2 * self.way_to_brokers(life.node);
        self.after(delay, Event::Thread(life, thread, Answer::Done));
    }

    /// A message reaches the topic, whoever writes to it by now; of a process that is gone it may not have been sent.
    pub fn append_arrives(&mut self, life: Life, is_gone: bool, message: &Message) {
        if is_gone && self.random.chance(300) {
            message.sender.sent().has_failed = true;
        }
        if message.sender.sent().has_failed {
            return;
        }
        let offset = self.topic.append(message);
        let now = self.queue.now();
        let writer = self.writer.filter(|_| !message.is_fence());
        self.figures.late += u64::from(writer.is_some_and(|writer| writer != life));
        self.trace
            .event(now, [25, life.node as u64, offset as u64], || format!("{offset} is {:?} of {life}", message.stamp));
        if message.is_fence() && message.stamp.generation <= self.writer_generation {
            // It was replaced before its fence came.
            self.excuse(life);
        } else if message.is_fence() {
            self.writer_generation = message.stamp.generation;
            // Whoever wrote before has no reason to go on.
            let replaced = self.writer.replace(life).filter(|writer| *writer != life);
            replaced.into_iter().for_each(|replaced| self.excuse(replaced));
        }
        // The answer may be lost: then the broker knows that it has the message, and no longer where.
        let known = if self.fails(self.plan.sync_failures) { -1 } else { offset };
        let delay = self.way_to_brokers(life.node);
        let answered = {
            let mut sent = message.sender.sent();
            sent.answered = (sent.answered + 1).max(now + delay);
            sent.answered
        };
        self.after(answered - now, Event::Confirmed(message.sender.clone(), known));
    }

    /// A process hears where its message is.
    pub fn confirmed(&mut self, sender: &Sender, offset: i64) {
        sender.sent().confirmed.push(offset);
        self.wake_sender(sender);
    }

    fn fail(&mut self, sender: &Sender) {
        sender.sent().has_failed = true;
        self.wake_sender(sender);
    }

    fn wake_sender(&mut self, sender: &Sender) {
        let waiting = sender.sent().waiting.take();
        if let Some((life, thread)) = waiting {
            self.after(0, Event::Thread(life, thread, Answer::Done));
        }
    }

    /// The topic is to forget what lies below an offset, which it may not come to.
    pub(super) fn forgets(&mut self, life: Life, thread: ThreadId, offset: i64) {
        if self.random.chance(800) {
            self.topic.delete_below(offset);
        }
        self.after(0, Event::Thread(life, thread, Answer::Done));
    }
}
