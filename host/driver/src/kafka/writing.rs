//! Writing of replies: in batches, each there whole or not at all, with the records that are no requests.

use styx_planted::{Bug, planted};

use super::Place;

/// Replies that are written at once. A transaction costs brokers as much as hundreds of replies.
pub const BATCH_MAX: usize = 2048;

/// A reply, as far as it matters here.
pub trait Outgoing {
    /// The record that it answers.
    fn place(&self) -> Place;

    /// Whether that record is written with it, since it is no request.
    fn has_letter(&self) -> bool;

    /// Leaves the record out: it is longer than its topic takes.
    fn drop_letter(&mut self);

    /// Says the result in fewer words: it is longer than its topic takes.
    fn shorten(&mut self);
}

/// Why a batch was not written: none of it.
#[derive(Debug)]
pub enum WriteProblem<E> {
    /// This one of its messages is longer than its topic takes: first come the records of those that have one, then the
    /// replies.
    TooLarge(usize),
    /// Another front has the right by now, or the brokers are away: nothing more can be written.
    Failed(E),
}

/// What has become of replies.
#[derive(Debug)]
pub enum Sent<E> {
    /// The reply to a record is durable.
    Reply(Place),
    /// Nothing more can be sent.
    Failed(E),
}

/// Writes replies, each with the watermark that it says, as long as there are some: `next` waits for them and gives no more
/// than so many. Tells what has become of them. `append` returns when a batch is durable.
pub fn write_all<R: Outgoing, E>(
    mut next: impl FnMut(usize) -> Option<Vec<(R, i64)>>,
    mut append: impl FnMut(&[(R, i64)]) -> Result<(), WriteProblem<E>>,
    mut tell: impl FnMut(Sent<E>),
) {
    while let Some(mut batch) = next(BATCH_MAX) {
        let places: Vec<Place> = batch.iter().map(|(reply, _)| reply.place()).collect();
        if planted(Bug::FrontAssumesWritten) {
            places.iter().for_each(|place| tell(Sent::Reply(*place)));
        }
        if let Err(error) = write(&mut batch, &mut append) {
            return tell(Sent::Failed(error));
        }
        if !planted(Bug::FrontAssumesWritten) {
            places.into_iter().for_each(|place| tell(Sent::Reply(place)));
        }
    }
}

/// Writes a batch; what its topics do not take is left out of it or said in fewer words.
fn write<R: Outgoing, E>(
    batch: &mut [(R, i64)],
    append: &mut impl FnMut(&[(R, i64)]) -> Result<(), WriteProblem<E>>,
) -> Result<(), E> {
    loop {
        let index = match append(batch) {
            Ok(()) => return Ok(()),
            Err(WriteProblem::Failed(error)) => return Err(error),
            Err(WriteProblem::TooLarge(index)) => index,
        };
        let letters = batch.iter().filter(|(reply, _)| reply.has_letter()).count();
        match index.checked_sub(letters) {
            Some(reply) => batch[reply].0.shorten(),
            None => {
                let mut with_letter = batch.iter_mut().filter(|(reply, _)| reply.has_letter());
                // Without a copy, but not without an answer.
                with_letter.nth(index).expect("it was counted").0.drop_letter();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug)]
    struct Words {
        at: i64,
        text: String,
        letter: Option<String>,
    }

    impl Outgoing for Words {
        fn place(&self) -> Place {
            Place { partition: 0, offset: self.at }
        }

        fn has_letter(&self) -> bool {
            self.letter.is_some()
        }

        fn drop_letter(&mut self) {
            self.letter = None;
        }

        fn shorten(&mut self) {
            self.text = "too large".into();
        }
    }

    /// What is written if a topic takes so many bytes, and what is told.
    fn written(replies: &[Words], most: usize, fails: bool) -> (Vec<String>, Vec<i64>, bool) {
        let mut waiting = Some(replies.iter().map(|reply| (reply.clone(), 0)).collect());
        let (mut there, mut told, mut failed) = (Vec::new(), Vec::new(), false);
        write_all(
            |_| waiting.take(),
            |batch| {
                let letters = batch.iter().filter_map(|(reply, _)| reply.letter.clone());
                let all: Vec<String> = letters.chain(batch.iter().map(|(reply, _)| reply.text.clone())).collect();
                if fails {
                    return Err(WriteProblem::Failed(()));
                }
                match all.iter().position(|text| text.len() > most) {
                    Some(at) => Err(WriteProblem::TooLarge(at)),
                    None => {
                        there.extend(all);
                        Ok(())
                    }
                }
            },
            |sent| match sent {
                Sent::Reply(place) => told.push(place.offset),
                Sent::Failed(()) => failed = true,
            },
        );
        (there, told, failed)
    }

    #[test]
    fn what_topics_do_not_take_is_answered_in_fewer_words_and_without_a_copy() {
        let long = "a".repeat(20);
        let replies = [
            Words { at: 0, text: "short".into(), letter: Some("l".into()) },
            Words { at: 1, text: long.clone(), letter: None },
            Words { at: 2, text: "refused".into(), letter: Some(long) },
        ];
        let (there, told, failed) = written(&replies, 10, false);
        assert_eq!(there, ["l", "short", "too large", "refused"]);
        assert_eq!((told, failed), (vec![0, 1, 2], false));
    }

    #[test]
    fn nothing_is_told_of_what_is_not_written() {
        let reply = Words { at: 0, text: "short".into(), letter: None };
        assert_eq!(written(&[reply], 10, true), (vec![], vec![], true));
    }
}
