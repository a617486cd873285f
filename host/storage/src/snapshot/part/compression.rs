//! zstd with contexts that are used again: one is hundreds of kilobytes, and most deltas are a few.

use std::cell::RefCell;
use std::io;

use zstd::bulk::{Compressor, Decompressor};

/// Fast, and about half the size for state that is text.
const LEVEL: i32 = 1;

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Compresses a block.
///
/// # Errors
/// There is no memory for a context.
pub(super) fn compress(raw: &[u8]) -> io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|context| match context {
        Some(context) => context.compress(raw),
        None => context.insert(Compressor::new(LEVEL)?).compress(raw),
    })
}

/// Unpacks a block, and gives its length.
///
/// # Errors
/// It was not compressed, or does not fit; or there is no memory for a context.
pub(super) fn decompress(stored: &[u8], raw: &mut [u8]) -> io::Result<usize> {
    DECOMPRESSOR.with_borrow_mut(|context| match context {
        Some(context) => context.decompress_to_buffer(stored, raw),
        None => context.insert(Decompressor::new()?).decompress_to_buffer(stored, raw),
    })
}
