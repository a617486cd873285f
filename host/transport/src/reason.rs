//! Why a frame or a connection was refused, under names that stay, and how often.

use std::sync::atomic::{AtomicU64, Ordering};

use styx_protocol::link::Rejected;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Why something that came in from another node was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[$doc])* $variant,)*
        }

        impl Reason {
            /// All of them.
            pub const ALL: &'static [Reason] = &[$(Reason::$variant),*];

            /// The name in metrics and on the wire; it never changes.
            pub fn name(self) -> &'static str {
                match self {
                    $(Reason::$variant => $name,)*
                }
            }
        }
    };
}

reasons! {
    /// The bytes are not a frame: something else speaks on this port.
    BadMagic = "bad_magic",
    /// A frame of another version of the protocol.
    UnknownVersion = "unknown_version",
    /// A kind of frame that this version does not have.
    UnknownKind = "unknown_kind",
    /// Flags that this version does not have.
    UnknownFlags = "unknown_flags",
    /// A frame longer than frames may be.
    TooLong = "too_long",
    /// A frame whose length does not fit its kind.
    BadLength = "bad_length",
    /// A frame that is not what was sent.
    BadChecksum = "bad_checksum",
    /// A body that cannot be decompressed.
    BadCompression = "bad_compression",
    /// A body that decompresses to more than bodies may have.
    InflatesTooFar = "inflates_too_far",
    /// The connection ended inside a frame.
    Truncated = "truncated",
    /// A frame before the greeting.
    NotGreeted = "not_greeted",
    /// No greeting came in time.
    HelloTimeout = "hello_timeout",
    /// A greeting that cannot be read.
    BadHello = "bad_hello",
    /// A second greeting.
    UnexpectedHello = "unexpected_hello",
    /// Another node answered than the one that was dialed, or a node greets itself.
    WrongNode = "wrong_node",
    /// Another process that has the same id is connected, and lives.
    NodeTaken = "node_taken",
    /// A certificate that this cluster's authority has not signed, or that is not valid now; or no TLS at all.
    BadCertificate = "bad_certificate",
    /// A node does not speak TLS, and this one speaks nothing else.
    NotEncrypted = "not_encrypted",
    /// A certificate for another node than the one that has greeted.
    OtherCertificate = "other_certificate",
    /// The other node runs another engine, or the same with other options.
    OtherEngine = "other_engine",
    /// The other node has other apps deployed.
    OtherDeployment = "other_deployment",
    /// This node does not want the other one.
    NotAdmitted = "not_admitted",
    /// This node may lead the cluster some time, and does not now.
    Standby = "standby",
    /// Two connections of one pair; the other one stays.
    DuplicateConnection = "duplicate_connection",
    /// Too many connections that have not greeted.
    TooManyConnections = "too_many_connections",
    /// A frame of an earlier generation.
    OldGeneration = "old_generation",
    /// A frame of a later generation than this node's.
    FutureGeneration = "future_generation",
    /// The other node has started anew; its messages of this generation have a gap.
    Restarted = "restarted",
    /// A message that had arrived before.
    Duplicate = "duplicate",
    /// A message that does not follow the one before it.
    Gap = "gap",
    /// An acknowledgement of what was never sent, or of less than before.
    ImpossibleAck = "impossible_ack",
}

impl Reason {
    /// The connection goes on after it; after any other it ends, and what was lost with it is sent again.
    pub fn goes_on(self) -> bool {
        matches!(self, Reason::Duplicate | Reason::OldGeneration | Reason::FutureGeneration | Reason::Restarted)
    }

    /// The two sides do not go on from the same links, as when somebody else has connected under the name of one of
    /// them in between: both begin with new ones.
    pub fn is_of_links(self) -> bool {
        self == Reason::ImpossibleAck
    }

    /// Happens when all is well: after a reconnection, while a new generation begins, and while somebody
    /// looks for the coordinator that leads.
    pub fn is_ordinary(self) -> bool {
        matches!(
            self,
            Reason::Duplicate
                | Reason::OldGeneration
                | Reason::FutureGeneration
                | Reason::DuplicateConnection
                | Reason::Standby
        )
    }

    /// The two processes do not run the same: connecting again changes nothing until one of them is
    /// another program, or the same with other options.
    pub fn is_of_build(self) -> bool {
        matches!(self, Reason::UnknownVersion | Reason::OtherEngine)
    }

    /// The reason of this name.
    pub fn named(name: &str) -> Option<Reason> {
        Reason::ALL.iter().copied().find(|reason| reason.name() == name)
    }

    pub(super) fn bit(self) -> u32 {
        1 << self as u32
    }
}

impl From<Rejected> for Reason {
    fn from(rejected: Rejected) -> Reason {
        match rejected {
            Rejected::OldGeneration => Reason::OldGeneration,
            Rejected::FutureGeneration => Reason::FutureGeneration,
            Rejected::Duplicate => Reason::Duplicate,
            Rejected::Gap => Reason::Gap,
            Rejected::ImpossibleAck => Reason::ImpossibleAck,
        }
    }
}

/// A refusal as people and the other node read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// What is wrong and what to do, in one line.
    pub message: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Refusal { reason, message: message.into() }
    }
}

/// What the transport of this node has done since it began.
#[derive(Debug, Default)]
pub struct Counters {
    refused: [AtomicU64; Reason::ALL.len()],
    /// Frames written, repetitions and acknowledgements included.
    pub frames_sent: AtomicU64,
    /// Frames read and believed.
    pub frames_received: AtomicU64,
    /// Bytes written.
    pub bytes_sent: AtomicU64,
    /// Bytes read.
    pub bytes_received: AtomicU64,
    /// Writes; many frames share one.
    pub writes: AtomicU64,
    /// Messages sent again, or late because the peer was not there.
    pub repeated: AtomicU64,
    /// Connections greeted and admitted.
    pub connections: AtomicU64,
    /// Bytes that compression has saved.
    pub bytes_saved: AtomicU64,
    /// Refusals that other nodes have sent to this one.
    pub told: AtomicU64,
}

impl Counters {
    /// How often something was refused for this reason.
    pub fn refused(&self, reason: Reason) -> u64 {
        self.refused[reason as usize].load(Ordering::Relaxed)
    }

    pub(super) fn refuse(&self, reason: Reason) {
        add(&self.refused[reason as usize], 1);
    }
}

pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

const _: () = assert!(Reason::ALL.len() <= u32::BITS as usize, "Reason::bit has one bit for each");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_names_and_bits_of_their_own() {
        let names: std::collections::BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        assert!(Reason::ALL.iter().all(|reason| Reason::named(reason.name()) == Some(*reason)));
        assert_eq!(
            Reason::ALL.iter().map(|reason| reason.bit()).fold(0, |all, bit| all | bit).count_ones() as usize,
            names.len()
        );
    }
}
