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

#[cfg(test)]
mod tests {
    use styx_protocol::ids::Round;
    use styx_protocol::message::Decision;
    use styx_protocol::task::GraphId;

    use super::*;

    const TO: NodeId = NodeId(7);

    fn mail(round: u64, decisions: usize) -> Mail {
        let decision = Decision { graph: GraphId(1), number: 1, commits: true };
        Mail { round: Round(round), decisions: vec![decision; decisions], ..Mail::default() }
    }

    #[test]
    fn mail_travels_together_until_there_is_much_of_it_and_never_with_another_rounds() {
        let mut mailbox = Mailbox::default();
        assert!(mailbox.post(TO, mail(1, MAIL_MAX - 2)).is_none());
        assert!(mailbox.post(TO, mail(1, 1)).is_none());
        let next = mailbox.post(TO, mail(2, 1)).expect("what was before goes first");
        assert_eq!((next.round, next.len()), (Round(1), MAIL_MAX - 1));
        let full = mailbox.post(TO, mail(2, MAIL_MAX - 1)).expect("there is much");
        assert_eq!((full.round, full.len()), (Round(2), MAIL_MAX));
        assert_eq!(mailbox.drain().count(), 0);
        assert!(mailbox.post(TO, mail(3, 1)).is_none());
        assert_eq!(mailbox.drain().map(|(to, mail)| (to, mail.len())).collect::<Vec<_>>(), [(TO, 1)]);
    }
}
