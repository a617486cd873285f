//! Queues: requests that wait for an epoch, those of each app in order. An epoch takes from all apps that wait, next
//! from whoever has the least of it so far, so that no app starves another.

use std::collections::VecDeque;
use std::sync::Arc;

/// What an epoch has room for, or what a request takes of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Requests.
    pub count: usize,
    /// Bytes of its record.
    pub bytes: usize,
    /// Fuel, as far as it is expected.
    pub fuel: u64,
}

impl Room {
    /// Takes out what a request takes, if that fits.
    fn take(&mut self, wanted: Room) -> bool {
        let fits = wanted.count <= self.count && wanted.bytes <= self.bytes && wanted.fuel <= self.fuel;
        if fits {
            self.count -= wanted.count;
            self.bytes -= wanted.bytes;
            self.fuel -= wanted.fuel;
        }
        fits
    }

    /// The part of it that a request takes, of what it takes the most of, in millionths.
    fn part(self, wanted: Room) -> u64 {
        let part = |wanted: u64, of: u64| (u128::from(wanted) * 1_000_000 / u128::from(of.max(1))) as u64;
        part(wanted.count as u64, self.count as u64)
            .max(part(wanted.bytes as u64, self.bytes as u64))
            .max(part(wanted.fuel, self.fuel))
    }
}

#[derive(Debug)]
pub(super) struct Queues<T> {
    /// By the app's name.
    apps: Vec<Queue<T>>,
    /// Where the last request was put: the next is often of the same app.
    last: usize,
    len: usize,
    /// The app that the next epoch takes from first, or the one behind it.
    first: Arc<str>,
}

/// Requests of an app.
#[derive(Debug)]
struct Queue<T> {
    app: Arc<str>,
    waiting: VecDeque<T>,
    /// What the epoch that is being filled has taken, in millionths.
    part: u64,
}

impl<T> Queues<T> {
    pub fn new() -> Self {
        Queues { apps: Vec::new(), last: 0, len: 0, first: "".into() }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Those of an app.
    pub fn len_of(&self, app: &Arc<str>) -> usize {
        let queue = self.apps.binary_search_by(|queue| queue.app.cmp(app));
        queue.map_or(0, |at| self.apps[at].waiting.len())
    }

    /// Adds a request to the others of its app.
    #[inline]
    pub fn push(&mut self, app: &Arc<str>, item: T) {
        self.len += 1;
        if self.apps.get(self.last).is_none_or(|queue| !Arc::ptr_eq(&queue.app, app)) {
            self.last = self.find(app);
        }
        self.apps[self.last].waiting.push_back(item);
    }

    fn find(&mut self, app: &Arc<str>) -> usize {
        self.apps.binary_search_by(|queue| queue.app.cmp(app)).unwrap_or_else(|at| {
            self.apps.insert(at, Queue { app: app.clone(), waiting: VecDeque::new(), part: 0 });
            at
        })
    }

    /// Takes what fits, one request at least that fits but for its fuel. An app of which something did not fit is the
    /// first whose turn it is in the next epoch, so that whatever fits at all has its turn.
    pub fn take(&mut self, room: Room, wants: impl Fn(&T) -> Room, mut taken: impl FnMut(T)) {
        let mut left = room;
        let mut fits = |item: &T| {
            let wanted = wants(item);
            let wanted = Room { fuel: wanted.fuel.min(room.fuel), ..wanted };
            left.take(wanted).then_some(wanted)
        };
        if let [alone] = &mut self.apps[..] {
            let count = alone.waiting.iter().take_while(|item| fits(item).is_some()).count();
            self.len -= count;
            return alone.waiting.drain(..count).for_each(taken);
        }
        self.apps.retain(|queue| !queue.waiting.is_empty());
        self.last = 0;
        let mut turns: Vec<&mut Queue<T>> = self.apps.iter_mut().collect();
        let first = turns.iter().position(|queue| queue.app >= self.first).unwrap_or(0);
        turns.rotate_left(first);
        let mut next = turns.get(1).or(turns.first()).map(|queue| queue.app.clone());
        let mut all_fit = true;
        turns.iter_mut().for_each(|queue| queue.part = 0);
        while let Some((at, queue)) = turns.iter_mut().enumerate().min_by_key(|(_, queue)| queue.part) {
            match queue.waiting.front().map(&mut fits) {
                Some(Some(wanted)) => {
                    queue.part += room.part(wanted);
                    self.len -= 1;
                    queue.waiting.pop_front().into_iter().for_each(&mut taken);
                }
                did_not_fit => {
                    if did_not_fit.is_some() && std::mem::take(&mut all_fit) {
                        next = Some(queue.app.clone());
                    }
                    turns.remove(at);
                }
            }
        }
        self.first = next.unwrap_or_else(|| self.first.clone());
    }

    /// Apps of which something waits.
    pub fn apps(&self) -> usize {
        self.apps.iter().filter(|queue| !queue.waiting.is_empty()).count()
    }

    /// All that wait, by app.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.apps.iter().flat_map(|queue| &queue.waiting)
    }

    /// Takes those that are wanted.
    pub fn extract(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut extracted = Vec::new();
        for queue in &mut self.apps {
            let (taken, left): (Vec<T>, Vec<T>) = queue.waiting.drain(..).partition(&mut wanted);
            queue.waiting = left.into();
            extracted.extend(taken);
        }
        self.len -= extracted.len();
        extracted
    }

    /// Takes all that wait.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        self.len = 0;
        std::mem::take(&mut self.apps).into_iter().flat_map(|queue| queue.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room { count: 10, bytes: 1000, fuel: 100 };
    const SMALL: Room = Room { count: 1, bytes: 1, fuel: 1 };

    fn take(queues: &mut Queues<(&'static str, usize, Room)>) -> Vec<(&'static str, usize)> {
        let mut taken = Vec::new();
        queues.take(ROOM, |(_, _, room)| *room, |(app, at, _)| taken.push((app, at)));
        assert_eq!(queues.len(), queues.iter().count());
        taken
    }

    fn of(taken: &[(&'static str, usize)], app: &str) -> usize {
        let of_app: Vec<usize> = taken.iter().filter(|(of, _)| *of == app).map(|(_, at)| *at).collect();
        assert!(of_app.is_sorted(), "those of an app are taken in order: {of_app:?}");
        of_app.len()
    }

    fn queues(waiting: &[(&'static str, usize, Room)]) -> Queues<(&'static str, usize, Room)> {
        let mut queues = Queues::new();
        for (app, count, room) in waiting {
            (0..*count).for_each(|at| queues.push(&Arc::from(*app), (*app, at, *room)));
        }
        queues
    }

    #[test]
    fn apps_that_wait_have_equal_parts_and_what_one_leaves_goes_to_the_others() {
        let mut queues = queues(&[("c", 100, SMALL), ("a", 100, SMALL), ("b", 3, SMALL)]);
        let taken = take(&mut queues);
        assert_eq!((of(&taken, "a"), of(&taken, "b"), of(&taken, "c")), (4, 3, 3));
        assert_eq!((take(&mut queues).len(), queues.len()), (10, 183));
        assert_eq!((queues.drain().count(), queues.len()), (183, 0));
    }

    #[test]
    fn an_epoch_takes_as_much_fuel_as_it_may_and_one_request_at_least() {
        let heavy = Room { fuel: 40, ..SMALL };
        let taken = take(&mut queues(&[("a", 5, heavy), ("b", 20, SMALL)]));
        assert_eq!(
            (of(&taken, "a"), of(&taken, "b")),
            (2, 8),
            "whoever takes little is not kept waiting by who takes much"
        );
        let mut too_heavy = queues(&[("a", 2, Room { fuel: 1_000_000, ..SMALL })]);
        assert_eq!((take(&mut too_heavy).len(), take(&mut too_heavy).len()), (1, 1));
    }

    #[test]
    fn what_did_not_fit_is_the_first_of_the_next_epoch() {
        let long = Room { bytes: 1000, ..SMALL };
        let mut queues = queues(&[("a", 50, SMALL), ("b", 1, long), ("c", 50, SMALL)]);
        assert_eq!(of(&take(&mut queues), "b"), 0);
        assert_eq!(take(&mut queues), [("b", 0)]);
        assert_eq!(take(&mut queues).len(), 10);
    }

    #[test]
    fn of_more_apps_than_an_epoch_takes_requests_all_have_their_turn() {
        let apps: Vec<&'static str> = "abcdefghijklmnopqrstuvwxy".split("").filter(|app| !app.is_empty()).collect();
        let mut queues = queues(&apps.iter().map(|app| (*app, 9, SMALL)).collect::<Vec<_>>());
        let taken: Vec<_> = (0..3).flat_map(|_| take(&mut queues)).collect();
        assert!(apps.iter().all(|app| of(&taken, app) >= 1), "{taken:?}");
    }
}
