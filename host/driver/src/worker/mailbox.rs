//! Mailbox: parts of graphs on their way to other workers, which travel together.

use std::collections::BTreeMap;

use styx_protocol::ids::NodeId;
use styx_protocol::message::Mail;

/// Parts of graphs that wait for others to travel with.
const MAIL_MAX: usize = 512;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Mailbox(BTreeMap<NodeId, Mail>);

impl Mailbox {
    /// Keeps mail until the batch of events is over; gives what is to be sent now, if there is much.
    pub(super) fn post(&mut self, to: NodeId, mail: Mail) -> Option<Mail> {
        let held =
            self.0.entry(to).or_insert_with(|| Mail { round: mail.round, fallback: mail.fallback, ..Mail::default() });
        match held.append(mail) {
            Some(next) => Some(std::mem::replace(held, next)),
            None if held.len() < MAIL_MAX => None,
            None => self.0.remove(&to),
        }
    }

    /// Takes everything.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (NodeId, Mail)> {
        std::mem::take(&mut self.0).into_iter()
    }
}
