//! Bytes on their way out: many small frames in one piece, large bodies without a copy.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt};

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

    /// Writes as many bytes as `stream` takes at once, and returns how many that were. May be cancelled.
    pub(super) async fn write(&mut self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<usize> {
        self.seal();
        let mut slices = [IoSlice::new(&[]); PIECES_MAX];
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            *slice = IoSlice::new(piece);
            count += 1;
        }
        let taken = stream.write_vectored(&slices[..count]).await?;
        if taken == 0 && self.length > 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
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
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use super::*;

    /// Takes so many bytes at once.
    struct Narrow {
        step: usize,
        taken: Vec<u8>,
    }

    impl AsyncWrite for Narrow {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let count = self.step.min(bytes.len());
            self.taken.extend_from_slice(&bytes[..count]);
            Poll::Ready(Ok(count))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let mut left = self.step;
            for slice in slices {
                let count = left.min(slice.len());
                self.taken.extend_from_slice(&slice[..count]);
                left -= count;
            }
            Poll::Ready(Ok(self.step - left))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn bytes_leave_in_order_whatever_is_taken_at_once() {
        for step in [1, 7, 1000, 40_000, usize::MAX] {
            let (mut outgoing, mut expected) = (Outgoing::default(), Vec::new());
            let mut stream = Narrow { step, taken: Vec::new() };
            for round in 0..20u8 {
                let size = if round % 3 == 0 { LARGE_BYTES + usize::from(round) } else { usize::from(round) };
                let body = Bytes::from(vec![round; size]);
                outgoing.push(&[0xff; 5], &body);
                expected.extend_from_slice(&[0xff; 5]);
                expected.extend_from_slice(&body);
                outgoing.write(&mut stream).await.unwrap();
                assert_eq!(stream.taken.len() + outgoing.len(), expected.len());
            }
            while outgoing.len() > 0 {
                outgoing.write(&mut stream).await.unwrap();
            }
            assert!(stream.taken == expected, "in steps of {step}");
        }
    }

    #[test]
    fn large_bodies_are_not_copied() {
        let body = Bytes::from(vec![1; LARGE_BYTES]);
        let mut outgoing = Outgoing::default();
        outgoing.push(&[2; 4], &body);
        outgoing.push(&[3; 4], &Bytes::from_static(b"x"));
        outgoing.seal();
        assert_eq!(outgoing.pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [4, LARGE_BYTES, 5]);
        assert_eq!(outgoing.pieces[1].as_ptr(), body.as_ptr());
    }
}
