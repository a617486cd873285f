//! Reports: what part of a graph has come to, to be told to whoever waits for it.

use super::Usage;
use crate::archive::{AsFlags, Flagged};
use crate::cluster::worker_set::WorkerSet;
use crate::ids::WorkerId;

/// Something that has happened in a graph, and may decide whether its outcome counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Finding {
    /// Something was written.
    Wrote,
    /// A function read or wrote state of its operator on another worker.
    Reached,
    /// Asynchronous calls ran beside each other.
    Branched,
    /// A branch touched a key before another that precedes it in the serial order.
    Overtaken,
    /// A part ended without effect.
    Doomed,
    /// In the fallback: a part left its cached RW set or call graph.
    Drifted,
    /// An outcome may be due to the past of an instance.
    Suspect,
    /// A worker had no room for another suspended instance.
    Refused,
    /// A part needs more fuel than an epoch has for one transaction, or what has not arrived at its worker.
    Postponed,
    /// It is postponed because an entity has not arrived.
    Lacks,
    /// Of a query: functions have logged something on a worker that is not its root's.
    Logged,
}

impl Finding {
    /// In the order in which they are sent.
    const ALL: [Finding; 11] = [
        Finding::Wrote,
        Finding::Reached,
        Finding::Branched,
        Finding::Overtaken,
        Finding::Doomed,
        Finding::Drifted,
        Finding::Suspect,
        Finding::Refused,
        Finding::Postponed,
        Finding::Lacks,
        Finding::Logged,
    ];
}

/// A set of findings; a flag for each when it is sent.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Findings(u16);

impl Findings {
    fn bit(finding: Finding) -> u16 {
        1 << finding as u8
    }

    fn contains(self, finding: Finding) -> bool {
        self.0 & Self::bit(finding) != 0
    }
}

impl Flagged for Findings {
    type Flags = [bool; 11];

    fn flags(self) -> [bool; 11] {
        Finding::ALL.map(|finding| self.contains(finding))
    }

    fn of(flags: &[bool; 11]) -> Self {
        let found = Finding::ALL.into_iter().zip(flags).filter(|(_, found)| **found);
        Findings(found.fold(0, |bits, (finding, _)| bits | Self::bit(finding)))
    }
}

impl std::fmt::Debug for Findings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(Finding::ALL.into_iter().filter(|finding| self.contains(*finding))).finish()
    }
}

/// What part of a graph has come to. Reports add up: that of the root, when its ack shares are
/// complete, is that of the whole graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Report {
    /// What was used.
    pub usage: Usage,
    /// Workers that took part.
    pub workers: WorkerSet,
    #[rkyv(with = AsFlags)]
    findings: Findings,
}

impl Report {
    /// That a worker took part, and nothing else.
    pub fn of(worker: WorkerId) -> Self {
        Report { workers: WorkerSet::only(worker), ..Report::default() }
    }

    /// Whether something has happened in some part.
    pub fn has(&self, finding: Finding) -> bool {
        self.findings.contains(finding)
    }

    /// Adds a finding.
    pub fn add(&mut self, finding: Finding) {
        self.findings.0 |= Findings::bit(finding);
    }

    /// The same report with one finding more.
    #[must_use]
    pub fn with(mut self, finding: Finding) -> Self {
        self.add(finding);
        self
    }

    /// Adds another part's report.
    pub fn merge(&mut self, other: Report) {
        self.usage.add(other.usage);
        self.workers.merge(&other.workers);
        self.findings.0 |= other.findings.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_sent_as_flags_in_their_order() {
        for (at, finding) in Finding::ALL.into_iter().enumerate() {
            let report = Report::default().with(finding);
            let bytes = rkyv::to_bytes::<rkyv::rancor::Error>(&report).unwrap();
            let flags: Vec<u8> = (0..11).map(|other| u8::from(other == at)).collect();
            // They stand at the end, up to what fills it.
            assert_eq!(bytes[bytes.len() - 16..][..11], flags);
            assert_eq!(rkyv::from_bytes::<Report, rkyv::rancor::Error>(&bytes).unwrap(), report);
            assert!(report.has(finding) && report != Report::default());
        }
    }
}
