//! Events of the transport in the words of the drivers: bytes become messages, or the reason why they are
//! none.

use styx_driver::network::{NetworkEvent, Refusal};
use styx_driver::wire::Envelope;
use styx_protocol::ids::Generation;
use styx_protocol::message::Message;
use styx_transport::{Incoming, Reason};

/// Reads what has come, where it comes: connections have several threads, and their driver one.
pub(super) fn read(incoming: Incoming) -> NetworkEvent {
    match incoming {
        Incoming::Message { peer, generation, body } => NetworkEvent::Message {
            from: peer,
            generation: Generation(generation),
            message: Message::decode(&body).map(Box::new).map_err(|error| error.to_string()),
        },
        Incoming::Control { peer, body, .. } => {
            NetworkEvent::Control { from: peer, message: Envelope::decode(&body).map(Box::new) }
        }
        Incoming::Connected { peer, restarted, .. } => NetworkEvent::Connected { peer, restarted },
        Incoming::Lost { peer, why } => NetworkEvent::Lost { peer, why },
        Incoming::Unreached { peer, gone, why } => NetworkEvent::Unreached { peer, gone, why },
        Incoming::Broken { peer, generation, why } => {
            NetworkEvent::Broken { peer, generation: Generation(generation), why }
        }
        Incoming::Refused { peer, reason, message } => {
            let refusal = match Reason::named(&reason) {
                Some(Reason::Standby) => Refusal::Standby,
                Some(known) if known.is_of_build() => Refusal::Build,
                _ => Refusal::Other,
            };
            NetworkEvent::Refused { peer, refusal, reason, message }
        }
    }
}
