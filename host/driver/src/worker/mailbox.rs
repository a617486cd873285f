//! Mailbox: parts of graphs on their way to other workers, which travel together.

use std::collections::BTreeMap;

use styx_protocol::ids::NodeId;
use styx_protocol::mail::Mail;

/// Parts of graphs that wait for others to travel with.
const MAIL_MAX: usize = 512;

#[derive(Debug)]
pub(super) struct Mailbox {
    frame_bytes: usize,
    mails: BTreeMap<NodeId, Mail>,
}

impl Mailbox {
    pub(super) fn new(frame_bytes: usize) -> Self {
        Mailbox { frame_bytes, mails: BTreeMap::new() }
    }

    /// Bytes that travel together at most, unless one part alone is longer.
    pub(super) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Keeps mail until the batch of events is over; gives what is to be sent now, if there is much.
    pub(super) fn post(&mut self, to: NodeId, mail: Mail) -> Vec<Mail> {
        let held = self.mails.entry(to).or_insert_with(|| Mail {
            round: mail.round,
            fallback: mail.fallback,
            ..Mail::default()
        });
        let full = match held.append(mail) {
            Some(next) => Some(std::mem::replace(held, next)),
            None if held.len() < MAIL_MAX => None,
            None => self.mails.remove(&to),
        };
        full.map_or_else(Vec::new, |mail| mail.split(usize::MAX, self.frame_bytes))
    }

    /// Takes everything.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (NodeId, Mail)> {
        let frame_bytes = self.frame_bytes;
        let all = std::mem::take(&mut self.mails).into_iter();
        all.flat_map(move |(to, mail)| mail.split(usize::MAX, frame_bytes).into_iter().map(move |mail| (to, mail)))
    }
}

#[cfg(test)]
mod tests {
    use styx_protocol::attempt::RemoteResponse;
    use styx_protocol::entity::Payload;
    use styx_protocol::ids::Round;
    use styx_protocol::mail::{CachedResult, Decision, Ending};
    use styx_protocol::task::GraphId;

    use super::super::FRAME_BYTES;
    use super::*;

    const TO: NodeId = NodeId(7);

    fn mail(round: u64, decisions: usize) -> Mail {
        let decision = Decision { graph: GraphId(1), number: 1, ending: Ending::Commits };
        Mail { round: Round(round), decisions: vec![decision; decisions], ..Mail::default() }
    }

    #[test]
    fn mail_travels_together_until_there_is_much_of_it_and_never_with_another_rounds() {
        let mut mailbox = Mailbox::new(FRAME_BYTES);
        assert_eq!(mailbox.post(TO, mail(1, MAIL_MAX - 2)), []);
        assert_eq!(mailbox.post(TO, mail(1, 1)), []);
        assert_eq!(mailbox.post(TO, mail(2, 1)), [mail(1, MAIL_MAX - 1)], "what was before goes first");
        assert_eq!(mailbox.post(TO, mail(2, MAIL_MAX - 1)), [mail(2, MAIL_MAX)], "there is much");
        assert_eq!(mailbox.drain().count(), 0);
        assert_eq!(mailbox.post(TO, mail(3, 1)), []);
        assert_eq!(mailbox.drain().map(|(to, mail)| (to, mail.len())).collect::<Vec<_>>(), [(TO, 1)]);

        let long = RemoteResponse::Value(Some(Payload(vec![7; FRAME_BYTES * 2 / 3].as_slice().into())));
        let result = |answer| CachedResult { graph: GraphId(1), number: 1, place: 0, answer };
        let results = vec![result(long.clone()), result(long), result(RemoteResponse::Noted)];
        assert_eq!(mailbox.post(TO, Mail { results, ..mail(4, 0) }), []);
        assert_eq!(mailbox.drain().map(|(_, mail)| mail.len()).collect::<Vec<_>>(), [1, 2]);
    }
}
