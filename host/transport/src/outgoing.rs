//! Bytes on their way out: many small frames in one piece, large bodies without a copy.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Bodies from this size on are not copied.
const LARGE_BYTES: usize = 32 << 10;
/// Pieces of one write.
const PIECES_MAX: usize = 32;

/// The bytes of one connection that the system has not taken yet.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pieces: VecDeque<Bytes>,
    tail: BytesMut,
    length: usize,
}

impl Outgoing {
    pub(super) fn push(&mut self, header: &[u8], body: &Bytes) {
        self.length += header.len() + body.len();
        self.tail.put_slice(header);
        if body.len() < LARGE_BYTES {
            self.tail.put_slice(body);
        } else {
            self.seal();
            self.pieces.push_back(body.clone());
        }
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push_back(self.tail.split().freeze());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Offers what is there to `write`, which says how much of it was taken.
    pub(super) fn write(&mut self, write: impl FnOnce(&[IoSlice<'_>]) -> io::Result<usize>) -> io::Result<usize> {
        self.seal();
        let mut slices = [IoSlice::new(&[]); PIECES_MAX];
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            *slice = IoSlice::new(piece);
            count += 1;
        }
        let taken = write(&slices[..count])?;
        self.advance(taken);
        Ok(taken)
    }

    fn advance(&mut self, mut taken: usize) {
        self.length -= taken;
        while taken > 0 {
            let front = self.pieces.front_mut().expect("no more is taken than was offered");
            let here = taken.min(front.len());
            front.advance(here);
            taken -= here;
            if front.is_empty() {
                self.pieces.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_order_whatever_is_taken_at_once() {
        for step in [1, 7, 1000, 40_000, usize::MAX] {
            let mut outgoing = Outgoing::default();
            let mut expected = Vec::new();
            let mut written = Vec::new();
            for round in 0..20u8 {
                let size = if round % 3 == 0 { LARGE_BYTES + usize::from(round) } else { usize::from(round) };
                let body = Bytes::from(vec![round; size]);
                outgoing.push(&[0xff; 5], &body);
                expected.extend_from_slice(&[0xff; 5]);
                expected.extend_from_slice(&body);
                let take = |slices: &[IoSlice<'_>], written: &mut Vec<u8>| {
                    let mut left = step;
                    for slice in slices {
                        let here = left.min(slice.len());
                        written.extend_from_slice(&slice[..here]);
                        left -= here;
                    }
                    Ok(if step == usize::MAX { usize::MAX - left } else { step - left })
                };
                outgoing.write(|slices| take(slices, &mut written)).unwrap();
                if round == 19 {
                    while !outgoing.is_empty() {
                        outgoing.write(|slices| take(slices, &mut written)).unwrap();
                    }
                }
                assert_eq!(written.len() + outgoing.len(), expected.len());
            }
            assert!(written == expected, "in steps of {step}");
        }
    }

    #[test]
    fn large_bodies_are_not_copied() {
        let body = Bytes::from(vec![1; LARGE_BYTES]);
        let mut outgoing = Outgoing::default();
        outgoing.push(&[2; 4], &body);
        outgoing.push(&[3; 4], &Bytes::from_static(b"x"));
        let write = |slices: &[IoSlice<'_>]| {
            assert_eq!(slices.iter().map(|slice| slice.len()).collect::<Vec<_>>(), [4, LARGE_BYTES, 5]);
            assert_eq!(slices[1].as_ptr(), body.as_ptr());
            Ok(0)
        };
        outgoing.write(write).unwrap();
    }
}
