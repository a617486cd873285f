//! What stands in logs: on disks that damage bytes, in topics that others can write to.

use std::path::Path;

use styx_protocol::record::Record;
use styx_storage::files::{FileSystem, MemoryFileSystem, Opening};
use styx_storage::log::shared::{Broker, KafkaProblem, Kind, SharedLog, Stamp, Visitor};
use styx_storage::log::{EmbeddedLog, EmbeddedOptions, Log, LogError, Stall};

use super::files;
use crate::choices::Choices;
use crate::seal;

pub fn record(bytes: &[u8]) -> bool {
    let Ok(record) = Record::decode(bytes) else { return false };
    assert_eq!(Record::decode(&record.encode()).expect("what was read can be written"), record);
    true
}

pub fn records() -> Vec<Vec<u8>> {
    files("protocol/tests/formats")
}

/// The files of a log, the newest segment replaced. The first byte says which checksums are made to fit.
pub fn segment(bytes: &[u8]) -> bool {
    const DIRECTORY: &str = "/log";
    let Some((choice, bytes)) = bytes.split_first() else { return false };
    let mut newest = bytes.to_vec();
    if choice & 1 == 0 {
        seal::segment(&mut newest);
    }
    let disk = MemoryFileSystem::new(|_| Ok(()));
    disk.create_directory(Path::new(DIRECTORY)).expect("nothing fails here");
    let write = |name: &str, bytes: &[u8]| {
        let file = disk.open(&Path::new(DIRECTORY).join(name), Opening::Empty).expect("nothing fails here");
        file.write_all_at(bytes, 0).expect("nothing fails here");
    };
    write("log.mark", include_bytes!("../../../storage/tests/log/formats/v2/log.mark"));
    let first = include_bytes!("../../../storage/tests/log/formats/v2/00000000000000000000.log");
    if choice & 2 == 0 {
        write("00000000000000000000.log", first);
        write("00000000000000000009.log", &newest);
    } else {
        write("00000000000000000000.log", &newest);
    }
    let options = EmbeddedOptions { segment_bytes: 4096, group_bytes_max: 4096 };
    let needed = u64::from(choice >> 4);
    let Ok(mut log) = EmbeddedLog::open_on(disk.clone(), Path::new(DIRECTORY), options, needed, 7) else {
        return false;
    };
    let (first, next) = (log.first(), log.next());
    let mut expected = first;
    let read = log.replay(first, &mut |sequence, _| {
        assert_eq!(sequence, expected, "records stand in order");
        expected += 1;
        Ok(())
    });
    read.expect("a log that was opened can be read");
    assert_eq!(expected, next, "all of them");
    // It goes on, and what was found is found again.
    assert_eq!(log.append(b"one more").expect("it fits"), next);
    log.sync().expect("nothing fails here");
    drop(log);
    let log = EmbeddedLog::open_on(disk, Path::new(DIRECTORY), options, needed, 7).expect("it was sound");
    assert_eq!((log.first(), log.next()), (first, next + 1));
    true
}

pub fn segments() -> Vec<Vec<u8>> {
    let newest = include_bytes!("../../../storage/tests/log/formats/v2/00000000000000000009.log");
    let first = include_bytes!("../../../storage/tests/log/formats/v2/00000000000000000000.log");
    vec![[&[0][..], newest].concat(), [&[2][..], first].concat()]
}

/// A topic whose messages are chosen, opened, read and written to.
pub fn topic(bytes: &[u8]) -> bool {
    let mut choices = Choices::new(bytes);
    let low = choices.below(4) as i64;
    let mut messages = Vec::new();
    while !choices.is_empty() && messages.len() < 64 {
        messages.push(stamp(&mut choices));
    }
    let Ok(mut log) = SharedLog::on(Topic { low, messages, confirmed: Vec::new() }, CLUSTER, None) else {
        return false;
    };
    let (first, next) = (log.first(), log.next());
    if log.replay(first, &mut |_, _| Ok(())).is_err() {
        return false;
    }
    log.append(b"one more").expect("it is short");
    if log.sync().is_ok() {
        assert_eq!(log.durable(), next + 1);
        let _ = log.trim(next);
    }
    true
}

const CLUSTER: u128 = 1;

fn stamp(choices: &mut Choices<'_>) -> Option<Stamp> {
    let kind = match choices.below(8) {
        0 => return None,
        1 | 2 => Kind::Fence,
        3 => Kind::Trim { sequence: choices.number(), first: choices.number(), from: choices.number() as i64 },
        _ => Kind::Record { sequence: choices.number() },
    };
    let cluster = if choices.below(16) == 15 { 2 } else { CLUSTER };
    Some(Stamp { cluster, generation: choices.number(), writer: choices.number(), kind })
}

pub fn topics() -> Vec<Vec<u8>> {
    // A fence of generation 1 and three records; the same with a trim, read from the second message.
    let fence = [1, 0, 1, 5];
    let record = |sequence| [4, sequence, 0, 1, 5];
    let trim = [3, 3, 1, 2, 0, 1, 5];
    vec![
        [&[0][..], &fence, &record(0), &record(1), &record(2)].concat(),
        [&[1][..], &fence, &record(0), &record(1), &record(2), &trim].concat(),
    ]
}

/// Brokers that keep everything.
struct Topic {
    low: i64,
    messages: Vec<Option<Stamp>>,
    confirmed: Vec<i64>,
}

impl Broker for Topic {
    fn topic(&self) -> &str {
        "log"
    }

    fn record_bytes_max(&self) -> usize {
        1 << 10
    }

    fn nonce(&mut self) -> u64 {
        0xA1
    }

    fn stall(&self) -> Stall {
        Stall::default()
    }

    fn opened(&mut self) {}

    fn bounds(&mut self) -> Result<(i64, i64), KafkaProblem> {
        Ok((self.low, self.low + self.messages.len() as i64))
    }

    fn read(&mut self, from: i64, until: i64, visit: &mut Visitor<'_>) -> Result<(), LogError> {
        for offset in from..until {
            let at = usize::try_from(offset - self.low).expect("nobody reads before the beginning");
            visit(offset, self.messages[at], b"")?;
        }
        Ok(())
    }

    fn send(&mut self, stamp: &Stamp, _: &[u8]) -> Result<(), KafkaProblem> {
        let (_, end) = self.bounds()?;
        self.confirmed.push(end);
        self.messages.push(Some(*stamp));
        Ok(())
    }

    fn confirmed(&mut self, count: usize) -> Result<Vec<i64>, KafkaProblem> {
        Ok(self.confirmed.drain(..count).collect())
    }

    fn delete_below(&mut self, _: i64) {}
}
