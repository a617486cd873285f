//! What a log comes to: one worker alone replays it, every message arriving at once.

use std::collections::VecDeque;

use crate::coordinator::Coordinator;
use crate::message::{Members, Record, To};
use crate::program::Values;
use crate::scenario::Protocol;
use crate::worker::Worker;

/// What all keys hold after these records, by the protocol without a mistake.
pub fn replay(protocol: &Protocol, records: &[Record]) -> Values {
    let protocol = Protocol { mistake: None, ..*protocol };
    let (initial, alone) = (protocol.scenario.initial, Members::NONE.with(0));
    let mut coordinator = Coordinator::new(0, alone, records, initial);
    let mut worker = Worker::new(0, 0, alone, &initial);
    while !coordinator.is_idle() {
        let mut out = Vec::new();
        let requests = coordinator.openings(&protocol).swap_remove(0);
        coordinator.open(&requests, &mut out);
        let mut network = VecDeque::from(out);
        while let Some(message) = network.pop_front() {
            let mut out = Vec::new();
            match message.to {
                To::Worker(_) => _ = worker.receive(&protocol, &message, &mut out),
                To::Coordinator => _ = coordinator.receive(&protocol, &message, &mut out),
            }
            network.extend(out);
            while let Some(at) = worker.granted(&protocol).first() {
                let mut out = Vec::new();
                worker.run_again(&protocol, *at, &mut out);
                network.extend(out);
            }
        }
    }
    worker.values
}
