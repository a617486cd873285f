//! Set of workers: noted, sent and merged for every graph that several share.

use crate::ids::WorkerId;

/// Some of the workers of a cluster: one number while all of their ids are below 64, which costs no
/// memory of its own; as many numbers as it takes beyond.
#[derive(Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct WorkerSet(Words);

/// Bit *i* of word *w* stands for worker 64 *w* + *i*.
#[derive(Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
enum Words {
    One(u64),
    /// At least two; the last is not 0, so that equal sets are equal words.
    Many(Box<[u64]>),
}

impl Default for WorkerSet {
    fn default() -> Self {
        WorkerSet(Words::One(0))
    }
}

impl WorkerSet {
    /// The set of one worker.
    pub fn only(worker: WorkerId) -> Self {
        let (word, bit) = place(worker);
        if word == 0 {
            return WorkerSet(Words::One(bit));
        }
        let mut words = vec![0; word + 1];
        words[word] = bit;
        WorkerSet(Words::Many(words.into()))
    }

    /// Adds all of another set.
    pub fn merge(&mut self, other: &WorkerSet) {
        if let (Words::One(mine), Words::One(theirs)) = (&mut self.0, &other.0) {
            *mine |= theirs;
            return;
        }
        debug_assert!(self.is_canonical());
        let (mine, theirs) = (self.words(), other.words());
        let word = |words: &[u64], at: usize| words.get(at).copied().unwrap_or(0);
        let merged = (0..mine.len().max(theirs.len())).map(|at| word(mine, at) | word(theirs, at)).collect();
        *self = WorkerSet::of(merged);
    }

    /// Takes one out, if it is there.
    pub fn remove(&mut self, worker: WorkerId) {
        let (word, bit) = place(worker);
        match &mut self.0 {
            Words::One(mine) if word == 0 => *mine &= !bit,
            Words::One(_) => {}
            Words::Many(words) => {
                let mut words = std::mem::take(words).into_vec();
                if let Some(mine) = words.get_mut(word) {
                    *mine &= !bit;
                }
                *self = WorkerSet::of(words);
            }
        }
    }

    pub fn contains(&self, worker: WorkerId) -> bool {
        let (word, bit) = place(worker);
        self.words().get(word).is_some_and(|mine| mine & bit != 0)
    }

    /// Number of workers.
    pub fn len(&self) -> usize {
        self.words().iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0 == Words::One(0)
    }

    /// All of them, ascending.
    pub fn iter(&self) -> impl Iterator<Item = WorkerId> + '_ {
        self.words().iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let next = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(WorkerId((at * 64 + next) as u16))
            })
        })
    }

    /// Whether all of them are among the first so many: another process may have said something else.
    pub fn is_within(&self, workers: u16) -> bool {
        self.is_canonical() && self.iter().all(|worker| worker.0 < workers) && self.words().len() <= MOST_WORDS
    }

    fn of(mut words: Vec<u64>) -> Self {
        while words.last() == Some(&0) {
            words.pop();
        }
        match words[..] {
            [] => WorkerSet::default(),
            [word] => WorkerSet(Words::One(word)),
            _ => WorkerSet(Words::Many(words.into())),
        }
    }

    /// Equal sets are equal words.
    fn is_canonical(&self) -> bool {
        match &self.0 {
            Words::One(_) => true,
            Words::Many(words) => words.len() > 1 && words.last() != Some(&0),
        }
    }

    fn words(&self) -> &[u64] {
        match &self.0 {
            Words::One(word) => std::slice::from_ref(word),
            Words::Many(words) => words,
        }
    }
}

/// Words for all ids that there are.
const MOST_WORDS: usize = (u16::MAX as usize + 1) / 64;

fn place(worker: WorkerId) -> (usize, u64) {
    (usize::from(worker.0 / 64), 1 << (worker.0 % 64))
}

impl std::fmt::Debug for WorkerSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl FromIterator<WorkerId> for WorkerSet {
    fn from_iter<I: IntoIterator<Item = WorkerId>>(workers: I) -> Self {
        let mut set = WorkerSet::default();
        workers.into_iter().for_each(|worker| set.merge(&WorkerSet::only(worker)));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_set_of_any_size() {
        for ids in [[63, 0, 7], [64, 0, 7], [65_535, 63, 200], [3, 128, 129]] {
            let mut sorted = ids;
            sorted.sort_unstable();
            let ids = ids.map(WorkerId);
            let mut set: WorkerSet = ids.into_iter().collect();
            set.merge(&WorkerSet::only(ids[2]));
            assert_eq!(set.iter().collect::<Vec<_>>(), sorted.map(WorkerId));
            assert_eq!((set.len(), set.contains(ids[2]), set.contains(WorkerId(8))), (3, true, false));
            assert_eq!(set, ids.into_iter().rev().collect::<WorkerSet>());
            let bytes = rkyv::to_bytes::<rkyv::rancor::Error>(&set).unwrap();
            assert_eq!(rkyv::from_bytes::<WorkerSet, rkyv::rancor::Error>(&bytes).unwrap(), set);
            set.remove(ids[0]);
            assert_eq!((set.len(), set.contains(ids[0])), (2, false));
            ids.into_iter().for_each(|worker| set.remove(worker));
            assert_eq!(set, WorkerSet::default(), "equal sets are equal, however they came about");
            assert!(set.is_empty());
        }
    }

    #[test]
    fn what_another_process_says_is_one_of_so_many_workers_written_as_it_is_written_here() {
        let many = |words: &[u64]| WorkerSet(Words::Many(words.into()));
        assert!(WorkerSet::default().is_within(1) && WorkerSet::only(WorkerId(0)).is_within(1));
        assert!(many(&[0, 1]).is_within(65) && !many(&[0, 1]).is_within(64));
        assert!(!many(&[1]).is_within(65) && !many(&[1, 0]).is_within(65) && !many(&[]).is_within(65));
    }

    #[test]
    fn it_takes_two_words() {
        assert_eq!(size_of::<WorkerSet>(), 16, "it is part of every graph's messages");
    }
}
