//! How many requests of a connection are let under way: as many as are taken.
//!
//! Where the backlog of whoever serves is full, requests are not refused on a connection that can be read more slowly. They are
//! handed over again as others are answered, and nothing more is read meanwhile.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use styx_protocol::transaction::Request;
use tokio::time::{Sleep, sleep};

/// Until something is tried again where no answer tells of room.
const PAUSE: Duration = Duration::from_millis(10);
/// Of so many requests that were taken, one more may be under way.
const TAKEN_FOR_ONE_MORE: usize = 8;

/// See the module.
#[derive(Debug)]
pub struct Window {
    /// Requests that may be under way.
    size: usize,
    most: usize,
    /// There was no room for these, oldest first.
    refused: VecDeque<Refused>,
    /// Answers that told of room since the window was made larger.
    taken: usize,
    /// Nothing is tried before it is over.
    pause: Option<Pin<Box<Sleep>>>,
}

/// A request that there was no room for.
#[derive(Debug)]
pub struct Refused {
    /// Where its answer goes.
    pub ticket: u64,
    pub request: Arc<Request>,
}

impl Window {
    /// A window of a connection that may have at most so many requests under way.
    pub fn new(most: usize) -> Self {
        Window { size: most, most, refused: VecDeque::new(), taken: 0, pause: None }
    }

    /// Whether another request may be handed over, where so many are under way with those that there was no room for.
    pub fn has_room(&self, under_way: usize) -> bool {
        self.pause.is_none() && under_way - self.refused.len() < self.size
    }

    /// Whether something waits to be handed over again.
    pub fn is_clogged(&self) -> bool {
        !self.refused.is_empty()
    }

    /// There was no room for a request.
    pub fn refuse(&mut self, refused: Refused) {
        self.refused.push_back(refused);
    }

    /// The next request to hand over again.
    pub fn next(&mut self) -> Option<Refused> {
        self.refused.pop_front()
    }

    /// Answers have come: so many told that there was room, and some that there was none, if any were `refused`. So many
    /// requests are under way, with those that there was no room for.
    pub fn answered(&mut self, taken: usize, refused: bool, under_way: usize) {
        if refused {
            let have_room = under_way - self.refused.len();
            self.size = (have_room + taken).clamp(1, self.most);
            self.taken = 0;
            // What is under way may take long, and there may be room before it ends.
            self.pause();
        } else if taken > 0 && self.size < self.most {
            self.pause = None;
            self.taken += taken;
            self.size = (self.size + self.taken / TAKEN_FOR_ONE_MORE).min(self.most);
            self.taken %= TAKEN_FOR_ONE_MORE;
        }
    }

    /// Tries nothing for a moment.
    pub fn pause(&mut self) {
        self.pause = Some(Box::pin(sleep(PAUSE)));
    }

    /// Whether a pause is over now, so that one more may be tried; if not, the task is woken when one is.
    pub fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(pause) = &mut self.pause else { return Poll::Pending };
        ready!(pause.as_mut().poll(context));
        self.pause = None;
        self.size = (self.size + 1).min(self.most);
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use styx_protocol::ids::{OperatorId, RequestId};

    use super::*;

    fn refused(ticket: u64) -> Refused {
        let (function, key, args) = ("f".into(), "k".into(), b"[]"[..].into());
        let request =
            Request { id: RequestId(1), operator: OperatorId(0), function, key, args, retained: false, origin: None };
        Refused { ticket, request: Arc::new(request) }
    }

    #[tokio::test]
    async fn a_window_is_as_wide_as_there_is_room_and_widens_slowly() {
        let mut window = Window::new(100);
        assert!(window.has_room(99) && !window.has_room(100));
        // Of 100, ten were taken, of which three have ended.
        (0..90).for_each(|ticket| window.refuse(refused(ticket)));
        window.answered(3, true, 97);
        assert!(window.is_clogged() && !window.has_room(97), "nothing is tried before an answer tells of room");
        window.answered(1, false, 96);
        assert!(window.has_room(99) && !window.has_room(100), "ten may be under way");
        window.answered(15, false, 97);
        assert!(window.has_room(101) && !window.has_room(102), "and two more");
        assert_eq!((window.next().unwrap().ticket, window.next().unwrap().ticket), (0, 1));
        for _ in 0..1000 {
            window.answered(7, false, 90);
        }
        while window.next().is_some() {}
        assert!(window.has_room(99) && !window.has_room(100), "never more than were let at first");
    }

    #[tokio::test]
    async fn what_nobody_would_tell_of_is_tried_again_after_a_pause() {
        let mut window = Window::new(10);
        // Another one is under way, and takes long.
        window.refuse(refused(0));
        window.answered(0, true, 2);
        for _ in 0..3 {
            assert!(!window.has_room(2));
            std::future::poll_fn(|context| window.poll_pause(context)).await;
            assert!(window.has_room(2) && !window.has_room(3), "one at a time");
            let again = window.next().unwrap();
            window.refuse(again);
            window.answered(0, true, 2);
        }
    }
}
