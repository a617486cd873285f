//! Who stands by, in the store beside the lease: whoever leads has no connection to them.
//!
//! Each writes an object of its own again and again. As with the lease, nobody compares clocks: one that is written anew
//! since somebody looked last is of a process that lives; what it says is for people, and nothing depends on it.

use std::collections::BTreeMap;

use super::envelope;
use super::error::SnapshotError;
use super::objects::{Objects, Pending};

const FOLDER: &str = "standbys";
const MAGIC: &[u8; 8] = b"STYXSTBY";
const VERSION: u16 = 1;
/// Most objects that are read when somebody looks: there are a few coordinators.
const READ_MAX: usize = 32;

/// What one of them has written: a number that tells this writing from all others, then what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    nonce: u128,
    report: Vec<u8>,
}

impl Record {
    fn encode(&self) -> Vec<u8> {
        envelope::wrap(MAGIC, VERSION, &[&self.nonce.to_le_bytes()[..], &self.report].concat())
    }

    fn decode(name: &str, bytes: &[u8]) -> Result<Self, SnapshotError> {
        let (_, body) = envelope::unwrap(MAGIC, VERSION, name, bytes)?;
        let Some((nonce, report)) = body.split_first_chunk() else {
            return Err(SnapshotError::damaged(name, bytes.len() as u64, "its body is too short"));
        };
        Ok(Record { nonce: u128::from_le_bytes(*nonce), report: report.to_vec() })
    }
}

/// What one of them says of itself, in its own object.
#[derive(Debug)]
pub struct Presence {
    objects: Objects,
    node: u64,
    /// The writing that is under way.
    pending: Option<Pending<Result<(), SnapshotError>>>,
}

impl Presence {
    pub(super) fn new(objects: Objects, node: u64) -> Self {
        Presence { objects, node, pending: None }
    }

    /// Says that it is there. Waits for nothing: what does not get through is made up for by the next.
    pub fn say(&mut self, report: Vec<u8>) {
        let record = Record { nonce: self.objects.runtime().nonce(), report };
        self.pending = Some(self.objects.start_put(&name(self.node), record.encode()));
    }

    /// Is there no more.
    ///
    /// # Errors
    /// The store does not answer.
    pub fn end(self) -> Result<(), SnapshotError> {
        if let Some(pending) = self.pending {
            // Otherwise it might get through afterwards.
            let _ = pending.wait();
        }
        self.objects.delete(&[name(self.node)])
    }
}

/// Those who stand by, as somebody sees them who looks now and then.
#[derive(Debug)]
pub struct Standbys {
    objects: Objects,
    /// What was seen last of each: which writing, and since how many looks.
    seen: BTreeMap<u64, (u128, u32)>,
}

/// One that has written since somebody looked last.
#[derive(Debug, PartialEq, Eq)]
pub struct Present {
    pub node: u64,
    pub report: Vec<u8>,
}

/// What has come of a look.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Look {
    pub present: Vec<Present>,
    /// Those that have ended as they were told, or lead by now.
    pub ended: Vec<u64>,
}

impl Standbys {
    pub(super) fn new(objects: Objects) -> Self {
        Standbys { objects, seen: BTreeMap::new() }
    }

    /// Looks: who has written since the last look, and who is there no more. Deletes what nobody has written for so many
    /// looks, and that of `own`, who leads.
    ///
    /// # Errors
    /// The store does not answer.
    pub fn look(&mut self, own: u64, looks: u32) -> Result<Look, SnapshotError> {
        let (mut look, mut forgotten, mut found) = (Look::default(), Vec::new(), BTreeMap::new());
        for listed in self.objects.list(FOLDER, None)?.into_iter().take(READ_MAX) {
            let Some(node) = node_of(&listed.name) else { continue };
            if node == own {
                forgotten.push(listed.name);
                continue;
            }
            let Some(fetched) = self.objects.get(&listed.name)? else { continue };
            // What cannot be read, of another release perhaps, says nothing.
            let (nonce, report) = match Record::decode(&listed.name, &fetched.bytes) {
                Ok(Record { nonce, report }) => (nonce, Some(report)),
                Err(_) => (0, None),
            };
            let since = match self.seen.get(&node) {
                Some((before, since)) if *before == nonce => since + 1,
                Some(_) => {
                    look.present.extend(report.map(|report| Present { node, report }));
                    0
                }
                None => 0,
            };
            if since >= looks {
                forgotten.push(listed.name);
            } else {
                found.insert(node, (nonce, since));
            }
        }
        look.ended = self.seen.keys().filter(|node| !found.contains_key(node)).copied().collect();
        self.seen = found;
        self.objects.delete(&forgotten)?;
        Ok(look)
    }
}

fn name(node: u64) -> String {
    format!("{FOLDER}/{node:016x}")
}

fn node_of(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix(FOLDER)?.strip_prefix('/')?, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::location::{Memory, RetryPolicy, StoreLocation};
    use super::super::runtime::{Numbered, Runtime};
    use super::*;

    fn objects(memory: &Memory) -> Objects {
        let location = StoreLocation::in_memory(memory);
        Objects::open(&location, RetryPolicy::Lease, Runtime::Inline(Arc::new(Numbered))).unwrap()
    }

    #[test]
    fn a_record_is_written_as_version_1_has_it() {
        const WRITTEN: &[u8; 50] = b"STYXSTBY\x01\0\0\0\x12\0\0\0\x83\xef8\x8b\x93\xfc\x11\x16\x8dp\xb3\xe8-\xc1/\xb1\
            \x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0{}";
        let record = Record { nonce: 7, report: b"{}".to_vec() };
        assert_eq!(record.encode(), WRITTEN);
        assert_eq!(Record::decode("standbys/7", WRITTEN).unwrap(), record);
        let short = envelope::wrap(MAGIC, VERSION, &[0; 15]);
        assert!(matches!(Record::decode("standbys/7", &short), Err(SnapshotError::Damaged { .. })));
        let newer = envelope::wrap(MAGIC, VERSION + 1, &[0; 16]);
        assert!(matches!(Record::decode("standbys/7", &newer), Err(SnapshotError::NewerFormat { .. })));
    }

    fn present(nodes: &[(u64, &str)]) -> Vec<Present> {
        nodes.iter().map(|(node, report)| Present { node: *node, report: report.as_bytes().to_vec() }).collect()
    }

    #[test]
    fn who_writes_is_there_and_who_has_ended_is_not() {
        let memory = Memory::default();
        let (mut two, mut three) = (Presence::new(objects(&memory), 2), Presence::new(objects(&memory), 3));
        let mut standbys = Standbys::new(objects(&memory));
        let mut look = || standbys.look(7, 5).unwrap();
        assert_eq!(look(), Look::default());
        // What is there when one looks first may be of long ago.
        two.say(b"a".to_vec());
        assert_eq!(look().present, present(&[]));
        two.say(b"a".to_vec());
        three.say(b"b".to_vec());
        assert_eq!(look().present, present(&[(2, "a")]));
        two.say(b"c".to_vec());
        three.say(b"b".to_vec());
        assert_eq!(look().present, present(&[(2, "c"), (3, "b")]));
        three.say(b"b".to_vec());
        two.end().unwrap();
        assert_eq!(look(), Look { present: present(&[(3, "b")]), ended: vec![2] });
        assert_eq!(look(), Look::default());
    }

    #[test]
    fn what_nobody_writes_any_more_is_deleted_and_so_is_that_of_who_leads() {
        let memory = Memory::default();
        let (mut own, mut gone) = (Presence::new(objects(&memory), 7), Presence::new(objects(&memory), 3));
        own.say(b"own".to_vec());
        gone.say(b"gone".to_vec());
        objects(&memory).put_new("standbys/nonsense", b"?".to_vec()).unwrap();
        objects(&memory).put_new(&name(9), b"of another release".to_vec()).unwrap();
        let mut standbys = Standbys::new(objects(&memory));
        let names = || objects(&memory).list(FOLDER, None).unwrap().into_iter().map(|listed| listed.name).collect();
        for _ in 0..3 {
            assert_eq!(standbys.look(7, 3).unwrap(), Look::default());
            let names: Vec<String> = names();
            assert_eq!(names, [name(3), name(9), "standbys/nonsense".into()]);
        }
        assert_eq!(standbys.look(7, 3).unwrap(), Look { present: Vec::new(), ended: vec![3, 9] });
        let names: Vec<String> = names();
        assert_eq!(names, ["standbys/nonsense"]);
    }
}
