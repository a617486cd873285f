//! What other nodes send.

use std::sync::Arc;

use bytes::BytesMut;
use styx_driver::wire::Envelope;
use styx_protocol::message::Message;
use styx_transport::Counters;
use styx_transport::frame::{COMPRESSED, FrameDecoder, Header, Kind, encode};
use tokio_util::codec::Decoder;

use super::files;
use crate::seal;

/// A connection's bytes, in two pieces.
pub fn frames(bytes: &[u8]) -> bool {
    let Some((cut, bytes)) = bytes.split_first() else { return false };
    let mut bytes = bytes.to_vec();
    seal::frame(&mut bytes);
    let (first, second) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    let mut decoder = FrameDecoder::new(1 << 16, Arc::<Counters>::default());
    let mut buffer = BytesMut::from(first);
    let mut found = false;
    for end in [false, true] {
        loop {
            match if end { decoder.decode_eof(&mut buffer) } else { decoder.decode(&mut buffer) } {
                Ok(Some(frame)) => {
                    assert!(frame.body.len() <= 1 << 16, "{} bytes were inflated", frame.body.len());
                    found = true;
                }
                Ok(None) => break,
                Err(_) => return found,
            }
        }
        if !end {
            buffer.extend_from_slice(second);
        }
    }
    found
}

pub fn all_frames() -> Vec<Vec<u8>> {
    let frame = |kind, flags, number, body: &[u8]| {
        [&[20][..], &encode(&Header { kind, flags, generation: 3, number, ack: 1 }, body)].concat()
    };
    // A body of 64 zeros, as zstd says it.
    let compressed = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x40, 0x4d, 0, 0, 0x10, 0, 0, 1, 0, 0x3b, 0xe5, 0x2b];
    vec![
        frame(
            Kind::Hello,
            0,
            0,
            br#"{"version":2,"kind":"worker","node":7,"name":"w","engine":1,"generation":0,"session":9}"#,
        ),
        frame(Kind::Refused, 0, 0, br#"{"reason":"bad_hello","message":"no"}"#),
        frame(Kind::Resume, 0, 0, b""),
        frame(Kind::Data, 0, 1, b"a message"),
        frame(Kind::Data, COMPRESSED, 1, &compressed),
        [frame(Kind::Control, 0, 0, b""), frame(Kind::Control, 0, 2, b"another")[1..].to_vec()].concat(),
    ]
}

pub fn message(bytes: &[u8]) -> bool {
    let Ok(message) = Message::decode(bytes) else { return false };
    assert_eq!(Message::decode(&message.encode()).expect("what was read can be written"), message);
    true
}

pub fn control_message(bytes: &[u8]) -> bool {
    let Ok(message) = Envelope::decode(bytes) else { return false };
    assert_eq!(Envelope::decode(&message.encode()).expect("what was read can be written"), message);
    true
}

/// The messages of the fixtures, each with its length before it.
pub fn control_messages() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for fixture in files("driver/fixtures") {
        let mut rest = &fixture[..];
        while let Some((length, after)) = rest.split_first_chunk() {
            let (message, after) = after.split_at(u32::from_le_bytes(*length) as usize);
            all.push(message.to_vec());
            rest = after;
        }
    }
    all
}
