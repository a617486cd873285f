use styx_protocol::entity::Layout;
use styx_protocol::ids::{EngineHash, Generation, SequencerCounter};
use styx_storage::log::MemoryDisk;

use super::*;

fn record(generation: u64, epoch: u64) -> Arc<EpochRecord> {
    Arc::new(EpochRecord {
        epoch: Epoch(epoch),
        generation: Generation(generation),
        engine: EngineHash(0),
        time: Timestamp::default(),
        sequencers: 1,
        counter: SequencerCounter(0),
        carried: Vec::new(),
        before: Default::default(),
        controls: Vec::new(),
        sequences: Vec::new(),
        outcome: None,
    })
}

fn append_order(generation: u64, epoch: u64) -> LogOrder {
    LogOrder::Append(record(generation, epoch))
}

/// Serves all orders, which are there from the beginning; what is told of them.
fn all(log: &mut dyn Log, orders: Vec<LogOrder>) -> Vec<String> {
    let (mut orders, mut told) = (orders.into_iter(), Vec::new());
    let mut order = orders.next();
    while let Some(ordered) = order.take() {
        let after = serve(log, ordered, &mut || orders.next(), &mut |report| {
            told.push(match report {
                LogReport::Synced { generation, epoch, position } => format!("{generation}: {epoch} before {position}"),
                LogReport::Raised { generation, position } => format!("{generation} before {position}"),
            });
        });
        order = after.unwrap().or_else(|| orders.next());
    }
    told
}

fn new_log() -> impl Log {
    let mut log = MemoryDisk::default().open().unwrap();
    genesis(&mut log, Some(4), Timestamp(5), 7).unwrap();
    log
}

#[test]
fn the_first_record_is_written_once() {
    let disk = MemoryDisk::default();
    let found = |partitions, now, seed| genesis(&mut disk.open().unwrap(), partitions, Timestamp(now), seed).unwrap();
    let written = found(Some(4), 5, 7);
    assert_eq!(written, Genesis { seed: 7, partitions: 4, created: Timestamp(5) });
    assert_eq!(found(None, 6, 8), written);
    assert_eq!(
        genesis(&mut MemoryDisk::default().open().unwrap(), None, Timestamp(5), 7).unwrap().partitions,
        Layout::PARTITIONS_DEFAULT
    );
}

#[test]
fn a_log_without_its_beginning_is_refused() {
    let mut log = MemoryDisk::default().open().unwrap();
    append(&mut log, &Record::Generation(Generation(1))).unwrap();
    let refused = |log: &mut dyn Log| genesis(log, None, Timestamp(5), 7).unwrap_err().to_string();
    assert!(refused(&mut log).contains("another program's directory"));
    log.trim(1).unwrap();
    assert!(refused(&mut log).contains("starts at record 1"));
}

#[test]
fn appends_of_a_generation_share_a_sync_and_what_comes_after_them_waits_for_it() {
    let orders = vec![
        append_order(1, 1),
        append_order(1, 2),
        append_order(2, 2),
        LogOrder::Raise(Generation(3)),
        LogOrder::Trim(LogPosition(2)),
        append_order(3, 3),
    ];
    let mut log = new_log();
    assert_eq!(all(&mut log, orders), ["1: 2 before 3", "2: 2 before 4", "3 before 5", "3: 3 before 6"]);
    assert_eq!((log.first(), log.durable()), (2, 6));
}

#[test]
fn a_reader_gets_later_epochs_from_a_position_on_until_it_wants_no_more() {
    let mut log = new_log();
    let mut orders: Vec<_> = (1..=5).map(|epoch| append_order(1, epoch)).collect();
    orders.insert(3, LogOrder::Raise(Generation(1)));
    all(&mut log, orders);
    let mut read = |from, after, most| {
        let (records, reader) = std::sync::mpsc::channel();
        let mut left = most;
        let records = Box::new(move |record: Arc<EpochRecord>| {
            records.send(record.epoch.0).unwrap();
            left -= 1;
            left > 0
        });
        all(&mut log, vec![LogOrder::Read { from: LogPosition(from), after: Epoch(after), records }]);
        reader.iter().collect::<Vec<_>>()
    };
    assert_eq!(read(0, 0, 9), [1, 2, 3, 4, 5]);
    assert_eq!(read(0, 3, 9), [4, 5]);
    assert_eq!(read(3, 0, 9), [3, 4, 5]);
    assert_eq!(read(0, 0, 2), [1, 2]);
}

#[test]
fn a_survey_knows_the_highest_generation_whether_it_has_cut_or_not() {
    let mut log = new_log();
    all(&mut log, vec![append_order(2, 1), LogOrder::Raise(Generation(4)), append_order(3, 2)]);
    let found = |log: &mut dyn Log, from| survey(log, LogPosition(from)).unwrap().generation;
    assert_eq!(
        (found(&mut log, 1), found(&mut log, 3), found(&mut log, 4)),
        (Generation(4), Generation(3), Generation(0))
    );
}

#[test]
fn a_log_that_fails_tells_nothing() {
    let disk = MemoryDisk::default();
    let mut log = disk.open().unwrap();
    genesis(&mut log, None, Timestamp(5), 7).unwrap();
    disk.fail_next_sync();
    let served = serve(&mut log, append_order(1, 1), &mut || None, &mut |report| panic!("{report:?}"));
    assert!(served.is_err());
}
