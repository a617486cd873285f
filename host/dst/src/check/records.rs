//! Records of a topic and the replies to them: each has one, which tells the truth, and what replies say of others is true.

use std::collections::{BTreeMap, BTreeSet};

use styx_driver::kafka::Place;
use styx_protocol::ids::Tid;

use super::checker::{Checker, record_of};
use super::history::{History, refused};
use super::{Checked, Failure, ensure};
use crate::environment::TOPIC;
use crate::records::{Answered, Brokers, Content};

/// Committed replies.
#[derive(Debug, Default)]
pub struct Replied {
    all: BTreeMap<Place, Answered>,
    /// Below which offset of each partition all records have their reply.
    ends: BTreeMap<i32, i64>,
}

impl Replied {
    /// Replies are committed, each with the watermark that it says.
    ///
    /// # Errors
    /// One of them is not the only one, or says what is not so.
    pub fn commit(
        &mut self,
        committed: &[(Answered, i64)],
        history: &mut History,
        brokers: &Brokers,
        now: u64,
    ) -> Checked {
        for (answered, watermark) in committed {
            let Place { partition, offset } = answered.place;
            let end = self.ends.get(&partition).copied().unwrap_or(0);
            ensure(*watermark <= end, "watermark", || {
                format!("the reply to record {offset} of {partition} says {watermark}, and {end} has none")
            })?;
        }
        for (answered, _) in committed {
            let before = self.all.insert(answered.place, answered.clone());
            ensure(before.is_none(), "one reply per record", || {
                format!("{:?} is answered with {:?} and then with {:?}", answered.place, before, answered.reply)
            })?;
            let record = brokers.record(answered.place);
            if let (Content::Request(of, _), Some(reply)) = (record.what, &answered.reply) {
                history.told = history.told.max(reply.epoch);
                history.requests[of].told.push((now, reply.clone()));
            }
            let letter = answered.reply.is_none() && !record.is_long;
            ensure(answered.has_letter == letter, "dead letters", || {
                format!("{:?} is answered with {:?}, with a letter: {}", answered.place, answered.reply, !letter)
            })?;
        }
        for (Answered { place: Place { partition, .. }, .. }, _) in committed {
            let end = self.ends.entry(*partition).or_default();
            while self.all.contains_key(&Place { partition: *partition, offset: *end }) {
                *end += 1;
            }
        }
        Ok(())
    }

    /// Whether a record has its reply.
    pub fn has(&self, place: Place) -> bool {
        self.all.contains_key(&place)
    }

    /// Records that have their reply.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// After all is over: who was refused had no effect, and who had an effect was told of it.
    pub fn check(&self, brokers: &Brokers, checker: &Checker) -> Checked {
        let mut executed: BTreeMap<(u32, u64), Tid> = BTreeMap::new();
        for (tid, known) in &checker.sequenced {
            if let Some((TOPIC, partition, offset)) = record_of(&known.request) {
                executed.insert((partition, offset), *tid);
            }
        }
        let mut places = BTreeSet::new();
        for (place, record) in brokers.records() {
            places.insert((place.partition as u32, place.offset as u64));
            let Some(answered) = self.all.get(&place) else {
                return Err(Failure::new("liveness", format!("{place:?} has no reply: {record:?}")));
            };
            let tid = executed.get(&(place.partition as u32, place.offset as u64));
            let is_told = match &answered.reply {
                None => tid.is_none_or(|tid| !has_effect(checker, *tid)),
                // What it came to, or another record with its id, or that it is not known any more.
                Some(reply) => {
                    let with_id = checker.by_id.get(&reply.id).is_some_and(|tids| tids.contains(&reply.tid));
                    // A query, while somebody with another catalog refuses what is no function any more.
                    let is_query = reply.tid == Tid(0) && tid.is_none_or(|tid| !has_effect(checker, *tid));
                    tid.is_none() || with_id || is_query || is_forgotten(reply)
                }
            };
            ensure(is_told, "own reply", || format!("{place:?} ran as {tid:?}, and its reply is {:?}", answered.reply))
                .map_err(|failure| failure.about(tid.map_or(&[][..], std::slice::from_ref)))?;
        }
        ensure(executed.keys().all(|place| places.contains(place)), "own reply", || {
            format!("a record was executed that there is not: {executed:?}")
        })
    }
}

fn has_effect(checker: &Checker, tid: Tid) -> bool {
    checker.sequenced[&tid].end.as_ref().is_some_and(|end| end.outcome.is_ok())
}

fn is_forgotten(reply: &styx_protocol::replies::Reply) -> bool {
    refused(reply) && matches!(&reply.outcome, Err(abort) if abort.code == styx_protocol::abort::Code::ReplyForgotten)
}
