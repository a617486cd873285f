//! Any bytes at all, in pieces of any size: never a panic, never memory for a length that was only
//! claimed, and never a frame that was not sent.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use styx_transport::Refusal;
use styx_transport::frame::{COMPRESSED, Frame, FrameDecoder, HEADER_BYTES, Header, Kind, ReadError, encode, seal};
use tokio_util::codec::Decoder;

const BODY_BYTES_MAX: usize = 64 << 10;

/// Feeds bytes in pieces of these sizes, in turn, up to the first refusal or the end. Checks what is held at every step.
fn decode(bytes: &[u8], pieces: &[usize]) -> (Vec<Frame>, Result<(), Refusal>) {
    let mut decoder = FrameDecoder::new(BODY_BYTES_MAX, Default::default());
    let (mut decoded, mut buffer) = (Vec::new(), BytesMut::new());
    let refused = |error| match error {
        ReadError::Refused(refusal) => refusal,
        ReadError::Io(error) => panic!("{error}"),
    };
    let (mut rest, mut fed) = (bytes, 0);
    for size in pieces.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at((*size).clamp(1, rest.len()));
        buffer.extend_from_slice(piece);
        fed += piece.len();
        rest = after;
        loop {
            match decoder.decode(&mut buffer) {
                Ok(Some(frame)) => decoded.push(frame),
                Ok(None) => break,
                Err(error) => return (decoded, Err(refused(error))),
            }
        }
        let held = buffer.capacity();
        assert!(held <= 4 * fed + (256 << 10), "{held} bytes held of {fed}");
    }
    let end = decoder.decode_eof(&mut buffer).map_err(refused);
    (decoded, end.map(|frame| assert_eq!(frame, None, "all were taken before")))
}

fn frame() -> impl Strategy<Value = (Header, Vec<u8>)> {
    let kind = prop_oneof![Just(Kind::Data), Just(Kind::Control), Just(Kind::Hello), Just(Kind::Refused)];
    let body = prop_oneof![
        8 => vec(any::<u8>(), 0..100),
        1 => (any::<u8>(), 0..50_000usize).prop_map(|(byte, size)| vec![byte; size]),
    ];
    (kind, any::<(u64, u64)>(), 1..u64::MAX, body, any::<bool>()).prop_map(
        |(kind, (generation, ack), number, body, compress)| {
            let payload = matches!(kind, Kind::Data | Kind::Control);
            let flags = if payload && compress { COMPRESSED } else { 0 };
            (Header { kind, flags, generation, number, ack }, body)
        },
    )
}

fn encoded((header, body): &(Header, Vec<u8>)) -> Vec<u8> {
    match header.flags {
        COMPRESSED => encode(header, &zstd::bulk::compress(body, 1).unwrap()),
        _ => encode(header, body),
    }
}

fn read((header, body): &(Header, Vec<u8>)) -> Frame {
    Frame { header: Header { flags: 0, ..*header }, body: body.clone().into() }
}

/// Something that happens to bytes on their way.
#[derive(Clone, Debug)]
enum Mutation {
    Flip(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    Cut(prop::sample::Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        (place(), 0..8u8).prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        (place(), vec(any::<u8>(), 1..80)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        (place(), 1..80usize).prop_map(|(at, count)| Mutation::Remove(at, count)),
        place().prop_map(Mutation::Cut),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutation: &Mutation) {
    if bytes.is_empty() {
        return;
    }
    match mutation {
        Mutation::Flip(at, bit) => {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        Mutation::Insert(at, more) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, more.iter().copied());
        }
        Mutation::Remove(at, count) => {
            let at = at.index(bytes.len());
            bytes.drain(at..(at + count).min(bytes.len()));
        }
        Mutation::Cut(at) => bytes.truncate(at.index(bytes.len())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn frames_come_out_as_they_went_in(frames in vec(frame(), 0..8), pieces in vec(1..5000usize, 1..20)) {
        let bytes: Vec<u8> = frames.iter().flat_map(encoded).collect();
        let (decoded, end) = decode(&bytes, &pieces);
        prop_assert_eq!(end, Ok(()));
        prop_assert_eq!(decoded, frames.iter().map(read).collect::<Vec<_>>());
    }

    #[test]
    fn damaged_frames_are_refused_or_as_they_were(
        frames in vec(frame(), 1..6),
        mutations in vec(mutation(), 1..4),
        pieces in vec(1..5000usize, 1..20),
    ) {
        let mut bytes: Vec<u8> = frames.iter().flat_map(encoded).collect();
        mutations.iter().for_each(|mutation| mutate(&mut bytes, mutation));
        let (decoded, _) = decode(&bytes, &pieces);
        let sent: Vec<Frame> = frames.iter().map(read).collect();
        for frame in decoded {
            prop_assert!(sent.contains(&frame), "never sent: {:?}", frame.header);
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in vec(any::<u8>(), 0..2000), pieces in vec(1..300usize, 1..20), magic in any::<bool>()) {
        let bytes = if magic { [b"STYX".as_slice(), &bytes].concat() } else { bytes };
        let (decoded, _) = decode(&bytes, &pieces);
        prop_assert_eq!(decoded, []);
    }

    /// A header that is right in itself may still claim anything.
    #[test]
    fn any_claims_are_survived(
        head in any::<[u8; HEADER_BYTES]>(),
        version in prop_oneof![Just(2u8), any::<u8>()],
        kind in 0..8u8,
        flags in 0..3u8,
        body in vec(any::<u8>(), 0..3000),
        pieces in vec(1..300usize, 1..20),
    ) {
        let mut head = head;
        head[..8].copy_from_slice(&[b'S', b'T', b'Y', b'X', version, kind, flags, 0]);
        let claimed = u32::from_le_bytes(head[8..12].try_into().unwrap()) as usize;
        seal(&mut head, &body[..claimed.min(body.len())]);
        decode(&[head.as_slice(), &body].concat(), &pieces).1.ok();
    }
}
