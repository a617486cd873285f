//! Everything that happens in a world: hashed, to prove that a seed gives one run; and kept as moments, when somebody
//! wants to read them.

use std::collections::BTreeMap;

use styx_protocol::ids::NodeId;

/// The trace of a world.
#[derive(Debug, Default)]
pub struct Trace {
    hashed: styx_sim::trace::Trace,
    moments: Option<Vec<Moment>>,
    /// The moments at which messages were sent that have not arrived.
    under_way: BTreeMap<Parcel, usize>,
}

/// Something that happened.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Moment {
    /// Virtual time, µs.
    pub time: u64,
    pub kind: Kind,
    /// The node, unless it happened to the world or to clients.
    pub node: Option<usize>,
    pub text: String,
    /// Of a message: where it came to, and when; nowhere, if it was lost.
    pub arrival: Option<(usize, u64)>,
}

/// What a moment is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Fault,
    Process,
    Generation,
    Epoch,
    Log,
    Snapshot,
    Client,
    Message,
    /// What a process has told people.
    Diagnostic,
}

impl Kind {
    /// That of an event by the number that stands for it in the hash.
    fn of(event: u64) -> Self {
        match event {
            7 | 16 | 20 | 35 => Kind::Fault,
            0 | 8 => Kind::Process,
            11 | 13 | 14 | 15 | 26 => Kind::Generation,
            1 | 6 | 36 => Kind::Epoch,
            19 | 25 => Kind::Log,
            17 | 18 | 22 | 23 => Kind::Snapshot,
            2 | 9 | 27..=30 => Kind::Client,
            24 => Kind::Message,
            _ => Kind::Diagnostic,
        }
    }
}

/// A message between processes: who sent it, to whom, and the generation (0: none) and number on their link.
pub type Parcel = (usize, NodeId, u64, u64);

impl Trace {
    /// Nothing has happened yet. With `notes`, moments are kept.
    pub fn new(notes: bool) -> Self {
        Trace { moments: notes.then(Vec::new), ..Trace::default() }
    }

    /// Whether moments are kept.
    pub fn is_kept(&self) -> bool {
        self.moments.is_some()
    }

    /// Something happened: what it was, as numbers, and how to tell it. The node is the one that the line begins with.
    pub fn event<const N: usize>(&mut self, now: u64, what: [u64; N], line: impl FnOnce() -> String) {
        self.hashed.event(now, what, String::new);
        if let Some(moments) = &mut self.moments {
            let (text, kind) = (line(), Kind::of(what[0]));
            moments.push(Moment { time: now, kind, node: node_of(&text), text, arrival: None });
        }
    }

    /// The message of the last event is on its way.
    pub fn is_sent(&mut self, parcel: Parcel) {
        if let Some(moments) = &self.moments {
            self.under_way.insert(parcel, moments.len() - 1);
        }
    }

    /// A message arrives.
    pub fn arrives(&mut self, parcel: Parcel, node: usize, now: u64) {
        if let (Some(moments), Some(at)) = (&mut self.moments, self.under_way.remove(&parcel)) {
            moments[at].arrival = Some((node, now));
        }
    }

    /// What has happened so far, where it was kept, in order.
    pub fn moments(&self) -> Vec<Moment> {
        let mut moments = self.moments.clone().unwrap_or_default();
        // A driver's thread is ahead of the world while it works.
        moments.sort_by_key(|moment| moment.time);
        moments
    }

    /// The hash of all events so far.
    pub fn hash(&self) -> u64 {
        self.hashed.hash()
    }
}

/// The node of a line that begins with a life of it, such as `n2.1`.
fn node_of(line: &str) -> Option<usize> {
    line.strip_prefix('n')?.split_once('.')?.0.parse().ok()
}
