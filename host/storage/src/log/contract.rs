//! Contract of [`Log`], as one test suite that runs against every implementation.

use super::{Log, LogError};

/// Contents that survive a crash: dropping the log and opening it again is the crash.
pub(crate) trait Storage {
    /// Opens the log on this storage.
    fn open(&self) -> Result<Box<dyn Log>, LogError>;

    /// True if servers elsewhere keep it. Then opening takes the log away from whoever has it, who
    /// is told so, and of what was appended and not synced a crash may leave any beginning.
    fn is_served(&self) -> bool {
        false
    }
}

/// Runs the suite; `storage` makes an empty storage for each case.
pub(crate) fn check<S: Storage>(storage: &dyn Fn() -> S) {
    numbers_are_contiguous_from_zero(&storage());
    synced_records_survive_and_others_do_not_have_to(&storage());
    replay_starts_where_asked(&storage());
    replay_stops_at_the_consumers_error(&storage());
    trim_forgets_for_good(&storage());
    trim_of_everything_keeps_the_numbers(&storage());
    records_may_be_empty_and_large(&storage());
    one_at_a_time(&storage());
    random_runs_match_a_model(storage);
}

/// All retained records.
pub(crate) fn records(log: &mut dyn Log) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    let mut expected = log.first();
    log.replay(expected, &mut |sequence, record| {
        assert_eq!(sequence, expected);
        expected += 1;
        records.push(record.to_vec());
        Ok(())
    })
    .unwrap();
    assert_eq!(expected, log.next());
    records
}

fn numbers_are_contiguous_from_zero(storage: &dyn Storage) {
    let mut log = storage.open().unwrap();
    assert_eq!((log.first(), log.durable(), log.next()), (0, 0, 0));
    log.sync().unwrap();
    for n in 0..40 {
        assert_eq!(log.next(), n);
        assert_eq!(log.append(format!("record {n}").as_bytes()).unwrap(), n);
        if n % 7 == 0 {
            assert!(log.durable() <= n, "durable before a sync");
            log.sync().unwrap();
            assert_eq!(log.durable(), n + 1);
        }
    }
}

fn synced_records_survive_and_others_do_not_have_to(storage: &dyn Storage) {
    let mut log = storage.open().unwrap();
    for record in [b"a", b"b", b"c"] {
        log.append(record).unwrap();
    }
    log.sync().unwrap();
    log.append(b"unsynced").unwrap();
    drop(log);
    let mut log = storage.open().unwrap();
    let mut expected: Vec<&[u8]> = vec![b"a", b"b", b"c"];
    if storage.is_served() && log.next() == 4 {
        expected.push(b"unsynced");
    }
    assert_eq!(records(&mut *log), expected);
    assert_eq!((log.durable(), log.next()), (expected.len() as u64, expected.len() as u64));
    // The number of the lost record is free again: nobody was told of it.
    assert_eq!(log.append(b"d").unwrap(), expected.len() as u64);
    log.sync().unwrap();
    drop(log);
    expected.push(b"d");
    assert_eq!(records(&mut *storage.open().unwrap()), expected);
}

fn replay_starts_where_asked(storage: &dyn Storage) {
    let mut log = storage.open().unwrap();
    for n in 0..20_u8 {
        log.append(&[n]).unwrap();
        if n % 3 == 0 {
            log.sync().unwrap();
        }
    }
    for from in 0..=20_u64 {
        let mut seen = Vec::new();
        log.replay(from, &mut |sequence, record| {
            assert_eq!(record, [sequence as u8]);
            seen.push(sequence);
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, (from..20).collect::<Vec<_>>());
    }
    assert_eq!(log.durable(), 20, "a replay shows durable records only");
    let beyond = log.replay(21, &mut |_, _| panic!("no such record"));
    assert!(matches!(beyond, Err(LogError::OutOfRange { asked: 21, first: 0, next: 20 })));
    assert_eq!(log.append(b"still usable").unwrap(), 20);
}

fn replay_stops_at_the_consumers_error(storage: &dyn Storage) {
    let mut log = storage.open().unwrap();
    for n in 0..5_u8 {
        log.append(&[n]).unwrap();
    }
    let mut calls = 0;
    let result = log.replay(0, &mut |sequence, _| {
        calls += 1;
        anyhow::ensure!(sequence < 2, "not this one");
        Ok(())
    });
    assert!(matches!(result, Err(LogError::Consumer { sequence: 2, .. })));
    assert_eq!(calls, 3);
    assert_eq!(records(&mut *log).len(), 5, "and the log goes on");
}

fn trim_forgets_for_good(storage: &dyn Storage) {
    let mut log = storage.open().unwrap();
    for n in 0..30_u8 {
        log.append(&[n]).unwrap();
        if n % 4 == 3 {
            log.sync().unwrap();
        }
    }
    log.trim(10).unwrap();
    log.trim(5).unwrap();
    assert_eq!((log.first(), log.next()), (10, 30));
    let expected: Vec<_> = (10..30_u8).map(|n| vec![n]).collect();
    assert_eq!(records(&mut *log), expected);
    let below = log.replay(9, &mut |_, _| panic!("trimmed"));
    assert!(matches!(below, Err(LogError::OutOfRange { asked: 9, first: 10, next: 30 })));
    assert!(matches!(log.trim(31), Err(LogError::OutOfRange { asked: 31, .. })));
    drop(log);
    let mut log = storage.open().unwrap();
    assert_eq!((log.first(), log.next()), (10, 30));
    assert_eq!(records(&mut *log), expected);
}

fn trim_of_everything_keeps_the_numbers(storage: &dyn Storage) {
    for round in 0..3 {
        let mut log = storage.open().unwrap();
        assert_eq!((log.first(), log.next()), (round * 3, round * 3));
        for _ in 0..3 {
            log.append(b"record").unwrap();
        }
        log.trim(log.next()).unwrap();
        assert_eq!((log.first(), log.durable()), (log.next(), log.next()));
        assert!(records(&mut *log).is_empty());
    }
}

fn records_may_be_empty_and_large(storage: &dyn Storage) {
    let lengths = [0, 1, 7, 8, 0, 4096, 100_000, 3, 60_000, 0];
    let expected: Vec<Vec<u8>> = lengths.iter().map(|length| vec![*length as u8; *length]).collect();
    let mut log = storage.open().unwrap();
    for record in &expected {
        log.append(record).unwrap();
    }
    log.sync().unwrap();
    drop(log);
    assert_eq!(records(&mut *storage.open().unwrap()), expected);
}

fn one_at_a_time(storage: &dyn Storage) {
    let mut log = storage.open().unwrap();
    if storage.is_served() {
        let mut taken = storage.open().unwrap();
        log.append(b"never durable").unwrap();
        assert!(matches!(log.sync(), Err(LogError::Fenced { .. })));
        assert!(matches!(log.append(b"more"), Err(LogError::Failed)));
        assert_eq!(log.durable(), 0);
        assert!(records(&mut *taken).is_empty());
        return;
    }
    assert!(matches!(storage.open().err(), Some(LogError::Locked(_))));
    drop(log);
    storage.open().unwrap();
}

/// Random operations and crashes against a vector that cannot be wrong.
fn random_runs_match_a_model<S: Storage>(storage: &dyn Fn() -> S) {
    // Opening takes a server half a second.
    let seeds = if storage().is_served() { 2 } else { 8 };
    for seed in 1..=seeds {
        let mut random = Random(seed);
        let storage = storage();
        let mut log = storage.open().unwrap();
        // All records ever, from number 0; those below `durable` survive.
        let mut all: Vec<Vec<u8>> = Vec::new();
        let (mut first, mut durable) = (0_usize, 0_usize);
        for _ in 0..200 {
            match random.below(20) {
                0..=11 => {
                    let record = vec![random.below(256) as u8; random.below(9000) as usize];
                    assert_eq!(log.append(&record).unwrap(), all.len() as u64);
                    all.push(record);
                    // A log may sync by itself when much is pending.
                    durable = log.durable() as usize;
                }
                12..=16 => {
                    log.sync().unwrap();
                    durable = all.len();
                }
                17 => {
                    let until = first + random.below((all.len() - first) as u64 + 1) as usize;
                    log.trim(until as u64).unwrap();
                    durable = all.len();
                    first = until;
                }
                18 => {
                    durable = all.len();
                    assert_eq!(records(&mut *log), all[first..]);
                }
                _ => {
                    drop(log);
                    log = storage.open().unwrap();
                    if storage.is_served() {
                        assert!((durable..=all.len()).contains(&(log.next() as usize)), "seed {seed}");
                        durable = log.next() as usize;
                    }
                    all.truncate(durable);
                    assert_eq!(records(&mut *log), all[first..], "seed {seed}");
                }
            }
            assert_eq!(log.first(), first as u64);
            assert_eq!(log.durable(), durable as u64);
            assert_eq!(log.next(), all.len() as u64);
        }
    }
}

/// A small generator, so that every run sees the same.
pub(crate) struct Random(pub u64);

impl Random {
    /// The next number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }
}
