//! Determinism check: compares what a warm instance does with what a fresh one does.
//!
//! A guest that keeps something in a global answers differently when its instance has served other
//! calls. The check makes an attempt a second time, in fresh instances, and compares outcome, RW
//! set and calls. Log lines and fuel are not compared: they decide nothing.

use styx_protocol::attempt::Execution;
use styx_protocol::ids::Tid;

/// Choice of the attempts that are made twice and compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Determinism {
    /// None.
    #[default]
    Off,
    /// One in so many, chosen by TID, so that every replay chooses the same. The fresh attempt
    /// counts; a difference is logged.
    Sample(u32),
    /// All, for tests: each attempt is made in fresh instances and once more in the same ones, and
    /// a difference aborts the transaction. Nothing of other transactions enters the verdict.
    All,
}

impl Determinism {
    /// Whether this transaction is checked.
    pub(crate) fn samples(self, tid: Tid) -> bool {
        match self {
            Determinism::Off => false,
            Determinism::All => true,
            // Mixed: TIDs of one sequencer are an arithmetic sequence.
            Determinism::Sample(every) => {
                let mut z = tid.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
                z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                (z ^ (z >> 31)).is_multiple_of(u64::from(every.max(1)))
            }
        }
    }
}

/// Describes how two attempts at one transaction differ, in a few words.
pub(crate) fn difference(warm: &Execution, fresh: &Execution) -> Option<&'static str> {
    if warm.drifted != fresh.drifted {
        return Some("only one of them drifts");
    }
    if warm.drifted {
        return None;
    }
    if warm.outcome != fresh.outcome {
        return Some("the outcome differs");
    }
    if !warm.issued_same_calls(fresh) {
        return Some("the calls differ");
    }
    let (a, b) = (&warm.footprint, &fresh.footprint);
    let same = a.accesses.len() == b.accesses.len() && a.accesses.iter().eq(b.accesses.iter()) && a.ranges == b.ranges;
    if same { None } else { Some("the entities read or written differ") }
}
