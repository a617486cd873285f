//! Frames out of a stream of bytes that comes in pieces of any size.
//!
//! Nothing that the bytes claim is believed: memory is taken for bytes that have come, never for a
//! length that was announced; every bad frame has a [`Reason`], and where its end is known the
//! stream goes on behind it.

use super::compression::{Decompressor, InflateError};
use super::frame::{COMPRESSED, Frame, HEADER_BYTES, Header, Kind, Raw, VERSION, checksum};
use super::reason::{Reason, Refusal};

/// Longest greeting or refusal.
pub const NOTICE_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
enum State {
    /// Some bytes of a header.
    Header { bytes: [u8; HEADER_BYTES], filled: usize },
    /// Some bytes of a body.
    Body { header: Header, length: usize, checksum: u64, body: Vec<u8> },
    /// Inside a frame that was refused.
    Skip { remaining: usize },
    /// The stream cannot be read on.
    Dead,
}

const BETWEEN: State = State::Header { bytes: [0; HEADER_BYTES], filled: 0 };

/// Reads one stream.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    body_bytes_max: usize,
    decompressor: Decompressor,
}

impl Decoder {
    /// A decoder at the beginning of a stream. No body may have more bytes than this, as it
    /// travels or decompressed.
    pub fn new(body_bytes_max: usize) -> Self {
        Decoder { state: BETWEEN, body_bytes_max, decompressor: Decompressor::new() }
    }

    /// Takes bytes from the front of `input` up to the end of one frame. None: all was taken, and
    /// the frame goes on.
    pub fn next(&mut self, input: &mut &[u8]) -> Option<Result<Frame, Refusal>> {
        loop {
            match &mut self.state {
                State::Dead => {
                    *input = &[];
                    return None;
                }
                State::Skip { remaining } => {
                    *remaining -= take(input, *remaining).len();
                    if *remaining > 0 {
                        return None;
                    }
                    self.state = BETWEEN;
                }
                State::Header { bytes, filled } => {
                    let piece = take(input, HEADER_BYTES - *filled);
                    bytes[*filled..*filled + piece.len()].copy_from_slice(piece);
                    *filled += piece.len();
                    if *filled < HEADER_BYTES {
                        // Something that is not a frame may be shorter than a header.
                        let prefix = (*filled).min(4);
                        let foreign = bytes[..prefix] != b"STYX"[..prefix];
                        return foreign.then(|| Err(self.dead(Reason::BadMagic, foreign_bytes())));
                    }
                    let bytes = *bytes;
                    if let Err(refusal) = self.begin(Raw(&bytes)) {
                        return Some(Err(refusal));
                    }
                }
                State::Body { length, body, .. } => {
                    let piece = take(input, *length - body.len());
                    extend(body, piece, *length);
                    if body.len() < *length {
                        return None;
                    }
                    return Some(self.complete());
                }
            }
        }
    }

    /// The stream has ended: was it inside a frame?
    pub fn finish(&self) -> Result<(), Refusal> {
        let (have, of) = match &self.state {
            State::Dead | State::Header { filled: 0, .. } => return Ok(()),
            State::Header { filled, .. } => (*filled, HEADER_BYTES),
            State::Body { length, body, .. } => (body.len(), *length),
            State::Skip { remaining } => (0, *remaining),
        };
        Err(Refusal::new(Reason::Truncated, format!("the connection ended inside a frame, after {have} of {of} bytes")))
    }

    /// A header is complete.
    fn begin(&mut self, raw: Raw<'_>) -> Result<(), Refusal> {
        if !raw.has_magic() {
            return Err(self.dead(Reason::BadMagic, foreign_bytes()));
        }
        if !raw.is_intact() {
            return Err(self.dead(Reason::BadHeader, "a frame's header is damaged; connect again".into()));
        }
        let length = raw.length() as usize;
        match self.check(raw, length) {
            Ok(kind) => {
                let header = raw.header(kind);
                self.state = State::Body { header, length, checksum: raw.checksum(), body: Vec::new() };
                Ok(())
            }
            Err(refusal) => {
                self.state = State::Skip { remaining: length };
                Err(refusal)
            }
        }
    }

    fn check(&self, raw: Raw<'_>, length: usize) -> Result<Kind, Refusal> {
        let refuse = |reason, message: String| Err(Refusal::new(reason, message));
        if raw.version() != VERSION {
            let message =
                format!("protocol version: mine {VERSION}, yours {}; run the same release on all nodes", raw.version());
            return refuse(Reason::UnknownVersion, message);
        }
        let Some(kind) = raw.kind() else {
            return refuse(Reason::UnknownKind, format!("there is no kind {} of frames", raw.kind_byte()));
        };
        let payload = matches!(kind, Kind::Data | Kind::Control);
        if raw.flags() & !(if payload { COMPRESSED } else { 0 }) != 0 || raw.reserved() != 0 {
            let message = format!("{kind:?} frames have no flags {:#x}, {:#x}", raw.flags(), raw.reserved());
            return refuse(Reason::UnknownFlags, message);
        }
        let most = if payload { self.body_bytes_max } else { NOTICE_BYTES_MAX };
        if length > most {
            return refuse(Reason::TooLong, format!("a body of {length} bytes; {kind:?} frames have at most {most}"));
        }
        let bare = kind == Kind::Resume || payload && raw.header(kind).number == 0;
        if bare && (length > 0 || raw.flags() != 0) {
            return refuse(
                Reason::BadLength,
                format!("{kind:?} frames without a payload have no body, not {length} bytes"),
            );
        }
        Ok(kind)
    }

    /// A body is complete.
    fn complete(&mut self) -> Result<Frame, Refusal> {
        let State::Body { mut header, checksum: expected, body, .. } = std::mem::replace(&mut self.state, BETWEEN)
        else {
            unreachable!("only called in this state")
        };
        if checksum(&body) != expected {
            return Err(Refusal::new(
                Reason::BadChecksum,
                "a body is not what its checksum says; it must be sent again",
            ));
        }
        if header.flags & COMPRESSED == 0 {
            return Ok(Frame { header, body: body.into() });
        }
        header.flags &= !COMPRESSED;
        match self.decompressor.decompress(&body, self.body_bytes_max) {
            Ok(body) => Ok(Frame { header, body: body.into() }),
            Err(InflateError::TooFar) => {
                let most = self.body_bytes_max;
                Err(Refusal::new(Reason::InflatesTooFar, format!("a body decompresses to more than {most} bytes")))
            }
            Err(InflateError::Broken(what)) => {
                Err(Refusal::new(Reason::BadCompression, format!("a body cannot be decompressed: {what}")))
            }
        }
    }

    fn dead(&mut self, reason: Reason, message: String) -> Refusal {
        self.state = State::Dead;
        Refusal::new(reason, message)
    }

    /// Memory held for the frame under way.
    pub fn held_bytes(&self) -> usize {
        match &self.state {
            State::Body { body, .. } => body.capacity(),
            _ => 0,
        }
    }
}

fn foreign_bytes() -> String {
    "these are not frames of Styx nodes; does the address belong to something else?".into()
}

/// Up to `most` bytes from the front.
fn take<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (piece, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    piece
}

/// Appends, growing by doubling and never beyond what the body needs.
fn extend(body: &mut Vec<u8>, piece: &[u8], length: usize) {
    let needed = body.len() + piece.len();
    if needed > body.capacity() {
        let capacity = needed.max(body.capacity() * 2).min(length);
        body.reserve_exact(capacity - body.len());
    }
    body.extend_from_slice(piece);
}
