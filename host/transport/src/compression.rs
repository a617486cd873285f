//! zstd for bodies above a threshold, with bounds on what decompression may take.

use std::io::Read;

use bytes::Bytes;
use zstd::bulk::Compressor as Bulk;
use zstd::stream::read::Decoder;
use zstd::zstd_safe::{DCtx, ResetDirective};

/// Level 1: the network between workers is fast, and the processor has other work.
const LEVEL: i32 = 1;
/// Largest window that a body may ask for; the level uses far less.
const WINDOW_LOG_MAX: u32 = 23;
/// Limit of the first piece of a decompressed body.
const FIRST_BYTES: usize = 256 << 10;
/// From this size on, other tasks of the thread move elsewhere meanwhile.
const HEAVY_BYTES: usize = 1 << 20;

/// Compresses bodies of one sender.
pub struct Compressor {
    bulk: Bulk<'static>,
    above: usize,
}

impl Compressor {
    /// Bodies of more bytes than `above` are compressed, where that makes them smaller.
    pub fn new(above: usize) -> Self {
        Compressor { bulk: Bulk::new(LEVEL).expect("zstd has this level"), above }
    }

    /// The body, compressed, if that is worth it.
    pub fn compress(&mut self, body: &[u8]) -> Option<Bytes> {
        if body.len() <= self.above {
            return None;
        }
        let compressed = heavy(body.len(), || self.bulk.compress(body)).ok()?;
        // The buffer was made for the worst case; this one may be kept for a while.
        (compressed.len() < body.len()).then(|| Bytes::from(compressed.into_boxed_slice()))
    }
}

/// Why a body could not be decompressed.
#[derive(Debug, PartialEq, Eq)]
pub enum InflateError {
    /// It has more bytes than bodies may have.
    TooFar,
    /// It is not what a compressor made.
    Broken(String),
}

/// Decompresses bodies of one connection.
#[derive(Default)]
pub struct Decompressor(Option<DCtx<'static>>);

impl Decompressor {
    /// A body of at most `most` bytes. Memory grows with what comes out, whatever the compressed bytes announce.
    ///
    /// # Errors
    /// The bytes are not one compressed body, or it is too large.
    pub fn decompress(&mut self, compressed: &[u8], most: usize) -> Result<Vec<u8>, InflateError> {
        let broken = |error: std::io::Error| InflateError::Broken(error.to_string());
        if compressed.is_empty() {
            return Err(InflateError::Broken("there is nothing".into()));
        }
        // A context costs as much as a small body; what was left in it belongs to the one before.
        let context = self.0.get_or_insert_with(DCtx::create);
        if context.reset(ResetDirective::SessionOnly).is_err() {
            *context = DCtx::create();
        }
        heavy(compressed.len(), || {
            let mut decoder = Decoder::with_context(compressed, context).single_frame();
            decoder.window_log_max(WINDOW_LOG_MAX).map_err(broken)?;
            let mut body = Vec::with_capacity(compressed.len().saturating_mul(4).clamp(1, FIRST_BYTES).min(most + 1));
            // One byte above the bound tells that there is more.
            (&mut decoder).take(most as u64 + 1).read_to_end(&mut body).map_err(broken)?;
            if body.len() > most {
                return Err(InflateError::TooFar);
            }
            if !decoder.finish().is_empty() {
                return Err(InflateError::Broken("bytes follow its end".into()));
            }
            Ok(body)
        })
    }
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decompressor")
    }
}

/// Runs what takes long; where the runtime has other threads, they take this one's tasks.
fn heavy<R>(bytes: usize, run: impl FnOnce() -> R) -> R {
    use tokio::runtime::{Handle, RuntimeFlavor};
    let other_threads =
        || Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes >= HEAVY_BYTES && other_threads() { tokio::task::block_in_place(run) } else { run() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|i| b"transaction"[i % 11] ^ (i / 4096) as u8).collect()
    }

    #[test]
    fn what_is_compressed_comes_back() {
        let mut compressor = Compressor::new(64);
        let mut decompressor = Decompressor::default();
        for bytes in [65, 5000, 300_000, 3 << 20] {
            let body = text(bytes);
            let Some(compressed) = compressor.compress(&body) else { panic!("{bytes} bytes of text compress") };
            for most in [bytes, bytes + 1, 16 << 20] {
                assert_eq!(decompressor.decompress(&compressed, most).as_ref(), Ok(&body));
            }
            for most in [bytes - 1, bytes / 2, 0] {
                assert_eq!(decompressor.decompress(&compressed, most), Err(InflateError::TooFar), "{bytes} in {most}");
            }
            for end in [0, 1, compressed.len() / 2, compressed.len() - 1] {
                let cut = decompressor.decompress(&compressed[..end], 16 << 20);
                assert!(matches!(cut, Err(InflateError::Broken(_))), "{end} of {}", compressed.len());
            }
            let longer = [compressed.as_ref(), b"x"].concat();
            assert!(matches!(decompressor.decompress(&longer, 16 << 20), Err(InflateError::Broken(_))));
        }
    }

    #[test]
    fn small_and_incompressible_bodies_stay_as_they_are() {
        let mut compressor = Compressor::new(4096);
        assert_eq!(compressor.compress(&text(4096)), None);
        assert!(compressor.compress(&text(4097)).is_some());
        let noise: Vec<u8> =
            (0..1250u64).flat_map(|i| xxhash_rust::xxh3::xxh3_64(&i.to_le_bytes()).to_le_bytes()).collect();
        assert_eq!(compressor.compress(&noise), None);
    }

    #[test]
    fn a_bomb_takes_no_more_than_the_bound() {
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 19).unwrap();
        assert!(bomb.len() < 16 << 10);
        assert_eq!(Decompressor::default().decompress(&bomb, 1 << 20), Err(InflateError::TooFar));
    }

    #[test]
    fn a_window_larger_than_any_sender_uses_is_refused() {
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(27).unwrap();
        std::io::Write::write_all(&mut encoder, &text(1000)).unwrap();
        let compressed = encoder.finish().unwrap();
        assert!(matches!(Decompressor::default().decompress(&compressed, 1 << 20), Err(InflateError::Broken(_))));
    }
}
