//! The allocator of a component: short pieces come from lists of pieces of their size that were freed before.
//!
//! A function allocates a dozen short texts and vectors, and frees them when it ends; the allocator of the standard library
//! searches and joins for each, which is a third of what a short function costs. What is longer goes there. Pieces are
//! never given back to it: an instance keeps as many of a size as it once had in use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;

/// Sizes differ by so much, and pieces are aligned to it.
const STEP: usize = 16;

/// The longest piece that has a list.
const LONGEST: usize = 256;

/// What is taken at once, to be cut into pieces.
const CHUNK: usize = 4096;

pub struct Pieces(UnsafeCell<Lists>);

struct Lists {
    /// The first free piece of each size; it has the place of the next one in it.
    free: [*mut u8; LONGEST / STEP],
    /// What is left of the last chunk.
    rest: *mut u8,
    rest_bytes: usize,
}

// SAFETY: a component has one thread; a test takes one for each of its threads.
unsafe impl Sync for Pieces {}

impl Pieces {
    pub const fn new() -> Self {
        Pieces(UnsafeCell::new(Lists { free: [null_mut(); LONGEST / STEP], rest: null_mut(), rest_bytes: 0 }))
    }
}

/// The list for a layout, if it has one.
fn list(layout: Layout) -> Option<usize> {
    (layout.size() <= LONGEST && layout.align() <= STEP).then(|| layout.size().saturating_sub(1) / STEP)
}

impl Lists {
    /// A new piece for a list.
    #[cold]
    fn cut(&mut self, list: usize) -> *mut u8 {
        let bytes = (list + 1) * STEP;
        if self.rest_bytes < bytes {
            // What is left of the chunk before is a piece, too.
            if self.rest_bytes > 0 {
                let last = self.rest_bytes / STEP - 1;
                // SAFETY: nobody has it.
                unsafe { self.push(last, self.rest) };
            }
            self.rest_bytes = 0;
            // SAFETY: the size is not 0.
            self.rest = unsafe { System.alloc(Layout::from_size_align_unchecked(CHUNK, STEP)) };
            if self.rest.is_null() {
                return null_mut();
            }
            self.rest_bytes = CHUNK;
        }
        let piece = self.rest;
        self.rest = self.rest.wrapping_add(bytes);
        self.rest_bytes -= bytes;
        piece
    }

    /// # Safety
    /// Nobody uses the piece, which is of the list's size.
    unsafe fn push(&mut self, list: usize, piece: *mut u8) {
        // SAFETY: each is long enough, and aligned.
        unsafe { piece.cast::<*mut u8>().write(self.free[list]) };
        self.free[list] = piece;
    }
}

// SAFETY: each piece is given to one at a time, is as long as its list says, and aligned as all are.
unsafe impl GlobalAlloc for Pieces {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(list) = list(layout) else { return unsafe { System.alloc(layout) } };
        let lists = unsafe { &mut *self.0.get() };
        let first = lists.free[list];
        if first.is_null() {
            return lists.cut(list);
        }
        lists.free[list] = unsafe { first.cast::<*mut u8>().read() };
        first
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        match list(layout) {
            Some(list) => unsafe { (*self.0.get()).push(list, piece) },
            None => unsafe { System.dealloc(piece, layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if list(layout).is_none() {
            return unsafe { System.alloc_zeroed(layout) };
        }
        let piece = unsafe { self.alloc(layout) };
        if !piece.is_null() {
            unsafe { piece.write_bytes(0, layout.size()) };
        }
        piece
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (list(layout), list(new)) {
            (None, None) => unsafe { System.realloc(piece, layout, size) },
            (before, after) if before == after => piece,
            _ => {
                let moved = unsafe { self.alloc(new) };
                if !moved.is_null() {
                    unsafe { moved.copy_from_nonoverlapping(piece, layout.size().min(size)) };
                    unsafe { self.dealloc(piece, layout) };
                }
                moved
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A piece, and the byte that all of it was filled with.
    struct Held {
        piece: *mut u8,
        layout: Layout,
        filled: u8,
    }

    impl Held {
        fn check(&self) {
            let bytes = unsafe { std::slice::from_raw_parts(self.piece, self.layout.size()) };
            assert!(bytes.iter().all(|byte| *byte == self.filled), "{:?} was written by another", self.layout);
            assert_eq!(self.piece.addr() % self.layout.align(), 0);
        }
    }

    #[test]
    fn pieces_do_not_overlap_and_keep_what_is_in_them() {
        let pieces = Pieces::new();
        let mut held: Vec<Held> = Vec::new();
        let mut seed = 1u64;
        let mut roll = |sides: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % sides
        };
        for round in 0..200_000 {
            let filled = round as u8;
            let layout = Layout::from_size_align(1 + roll(400), 1 << roll(6)).unwrap();
            match roll(5) {
                0 | 1 => {
                    let piece = unsafe { pieces.alloc(layout) };
                    unsafe { piece.write_bytes(filled, layout.size()) };
                    held.push(Held { piece, layout, filled });
                }
                2 => {
                    let piece = unsafe { pieces.alloc_zeroed(layout) };
                    held.push(Held { piece, layout, filled: 0 });
                    held.last().unwrap().check();
                }
                3 if !held.is_empty() => {
                    let at = roll(held.len());
                    let one = &mut held[at];
                    let kept = one.layout.size().min(layout.size());
                    one.piece = unsafe { pieces.realloc(one.piece, one.layout, layout.size()) };
                    one.layout = Layout::from_size_align(kept, one.layout.align()).unwrap();
                    one.check();
                    one.layout = Layout::from_size_align(layout.size(), one.layout.align()).unwrap();
                    unsafe { one.piece.write_bytes(one.filled, layout.size()) };
                }
                _ if !held.is_empty() => {
                    let one = held.swap_remove(roll(held.len()));
                    one.check();
                    unsafe { pieces.dealloc(one.piece, one.layout) };
                }
                _ => {}
            }
        }
        for one in held {
            one.check();
            unsafe { pieces.dealloc(one.piece, one.layout) };
        }
    }

    #[test]
    fn what_was_freed_is_given_again() {
        let pieces = Pieces::new();
        let layout = Layout::from_size_align(20, 4).unwrap();
        let first = unsafe { pieces.alloc(layout) };
        unsafe { pieces.dealloc(first, layout) };
        assert_eq!(unsafe { pieces.alloc(Layout::from_size_align(32, 16).unwrap()) }, first);
    }
}
