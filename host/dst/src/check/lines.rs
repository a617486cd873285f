//! Log lines of guests: what is shown of a transaction is what the attempt that counted has said, each line once in every
//! run of its epoch, whichever workers say it.
//!
//! Of one that was stopped, it is open how much its functions said afterwards.

use std::collections::BTreeMap;

use styx_protocol::attempt::LogLine;
use styx_protocol::ids::{Generation, Tid};

use super::oracle::line;
use super::{Checked, Failure};

/// See the module. Lines of a transaction are kept as a sum of hashes.
#[derive(Debug, Default)]
pub struct Lines {
    expected: BTreeMap<Tid, u64>,
    shown: BTreeMap<(Generation, Tid), u64>,
}

impl Lines {
    /// A transaction says this, where it stands.
    pub fn expect(&mut self, tid: Tid, said: u64) {
        self.expected.insert(tid, said);
    }

    /// A worker of a generation shows these.
    pub fn shown(&mut self, generation: Generation, tid: Tid, lines: &[LogLine]) {
        // A query is executed once more wherever it is asked once more.
        if tid == Tid(0) {
            return;
        }
        let shown = self.shown.entry((generation, tid)).or_default();
        for LogLine { operator, message, .. } in lines {
            *shown = shown.wrapping_add(line(operator.0, message.parse().unwrap_or_default()));
        }
    }

    /// A generation has run an epoch, in which these ended by themselves and those were stopped.
    ///
    /// # Errors
    /// Something else was shown than what they say.
    pub fn ended<'a>(&mut self, generation: Generation, ended: impl Iterator<Item = (&'a Tid, bool)>) -> Checked {
        let first = (generation, Tid(0));
        let mut shown = self.shown.split_off(&first);
        self.shown.append(&mut shown.split_off(&(Generation(generation.0 + 1), Tid(0))));
        for (tid, by_itself) in ended {
            let said = shown.remove(&(generation, *tid)).unwrap_or_default();
            if by_itself && self.expected.get(tid) != Some(&said) {
                let message =
                    format!("other lines of transaction {tid} are shown in generation {generation} than it says");
                return Err(Failure::new("lines", message).about(&[*tid]));
            }
        }
        shown.first_key_value().map_or(Ok(()), |((_, tid), _)| {
            let message =
                format!("lines of transaction {tid} are shown in generation {generation}, where it does not end");
            Err(Failure::new("lines", message).about(&[*tid]))
        })
    }
}
