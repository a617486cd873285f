//! Pieces of packs: what stands near each other in an object is asked for at once, however many parts it is.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::super::error::SnapshotError;
use super::super::manifest::PartRef;
use super::super::objects::{Objects, Pending};

/// The most bytes of a piece. A part that is longer is read by itself, window by window.
const PIECE_BYTES: u64 = 4 << 20;

/// Bytes between two parts that are rather read, too, than asked for in two requests.
const GAP_BYTES: u64 = 64 << 10;

/// Parts that are to be read, each once, by any number of threads.
pub(crate) struct Pieces {
    objects: Objects,
    /// By the object, and where in it a part begins; none for parts that are read by themselves.
    of_parts: HashMap<(String, u64), Arc<Piece>>,
}

/// Several parts beside each other in one object.
pub(crate) struct Piece {
    object: String,
    /// Its expected size, bytes.
    object_bytes: u64,
    range: Range<u64>,
    state: Mutex<State>,
}

struct State {
    content: Content,
    /// Parts in it that were not read to their end.
    left: usize,
}

enum Content {
    /// Nobody has asked for it, or what was asked for has failed.
    Unasked,
    UnderWay(Pending<Result<(Bytes, u64), SnapshotError>>),
    Here(Bytes),
}

impl Pieces {
    /// How these parts are best read.
    pub(crate) fn of<'a>(objects: &Objects, parts: impl IntoIterator<Item = &'a PartRef>) -> Self {
        let mut ranges: BTreeMap<(&str, u64), &PartRef> = BTreeMap::new();
        for part in parts.into_iter().filter(|part| part.bytes <= PIECE_BYTES) {
            ranges.insert((&part.object, part.offset), part);
        }
        let mut of_parts = HashMap::with_capacity(ranges.len());
        let mut run: Vec<&PartRef> = Vec::new();
        for part in ranges.into_values() {
            let fits = |run: &[&PartRef]| {
                let (first, last) = (run.first()?, run.last()?);
                let is_near = first.object == part.object
                    && part.offset <= last.range().end + GAP_BYTES
                    && part.range().end <= first.offset + PIECE_BYTES;
                is_near.then_some(())
            };
            if fits(&run).is_none() {
                Piece::add(&std::mem::take(&mut run), &mut of_parts);
            }
            run.push(part);
        }
        Piece::add(&run, &mut of_parts);
        Self { objects: objects.clone(), of_parts }
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The piece that a part is in, which is asked for now if nobody has.
    pub(crate) fn ask(&self, part: &PartRef) -> Option<Arc<Piece>> {
        let piece = self.of_parts.get(&(part.object.clone(), part.offset))?;
        piece.ask(&self.objects, &mut piece.state());
        Some(piece.clone())
    }
}

impl Piece {
    fn add(run: &[&PartRef], of_parts: &mut HashMap<(String, u64), Arc<Piece>>) {
        let Some(first) = run.first() else { return };
        let end = run.iter().map(|part| part.range().end).max().unwrap_or_default();
        let piece = Arc::new(Piece {
            object: first.object.clone(),
            object_bytes: first.object_bytes,
            range: first.offset..end,
            state: Mutex::new(State { content: Content::Unasked, left: run.len() }),
        });
        of_parts.extend(run.iter().map(|part| ((part.object.clone(), part.offset), piece.clone())));
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, objects: &Objects, state: &mut State) {
        if matches!(state.content, Content::Unasked) {
            state.content = Content::UnderWay(objects.get_range(&self.object, self.range.clone()));
        }
    }

    /// The bytes of a part in it; waits for them.
    pub(crate) fn read(&self, objects: &Objects, range: Range<u64>) -> Result<Bytes, SnapshotError> {
        let mut state = self.state();
        self.ask(objects, &mut state);
        if let Content::UnderWay(_) = &state.content {
            let Content::UnderWay(pending) = std::mem::replace(&mut state.content, Content::Unasked) else {
                unreachable!("just seen")
            };
            let (bytes, whole) = pending.wait()?;
            SnapshotError::check_size(&self.object, whole, self.object_bytes)?;
            state.content = Content::Here(bytes);
        }
        let Content::Here(bytes) = &state.content else { unreachable!("it was waited for") };
        let at = |at: u64| usize::try_from(at - self.range.start).expect("pieces are small");
        let (from, to) = (at(range.start), at(range.end));
        if to > bytes.len() {
            let end = self.range.start + bytes.len() as u64;
            return Err(SnapshotError::damaged(&self.object, end, "the store returned less than was asked for"));
        }
        Ok(bytes.slice(from..to))
    }

    /// A part in it was read, or is given up.
    pub(crate) fn is_read(&self) {
        let mut state = self.state();
        state.left = state.left.saturating_sub(1);
        if state.left == 0 {
            state.content = Content::Unasked;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::location::{RetryPolicy, StoreLocation};
    use super::super::super::manifest::PartKind;
    use super::*;

    #[derive(Debug)]
    struct Nowhere;

    impl super::super::super::runtime::Environment for Nowhere {
        fn nonce(&self) -> u128 {
            1
        }

        fn pause(&self, _: std::time::Duration) {}
    }

    fn part(object: &str, offset: u64, bytes: u64) -> PartRef {
        PartRef {
            object: object.to_owned(),
            object_bytes: 1 << 40,
            offset,
            kind: PartKind::Base,
            partition: 0,
            name: String::new(),
            epoch: 1,
            bytes,
            raw_bytes: 0,
            entries: 0,
            deletes: 0,
            checksum: 0,
        }
    }

    #[test]
    fn what_is_near_is_one_piece_up_to_a_size() {
        let runtime = super::super::super::runtime::Runtime::Inline(Arc::new(Nowhere));
        let objects = Objects::open(&StoreLocation::new("memory:"), RetryPolicy::Opening, runtime).unwrap();
        let pieces = |parts: &[PartRef]| {
            let pieces = Pieces::of(&objects, parts);
            let range = |part: &PartRef| {
                let piece = pieces.of_parts.get(&(part.object.clone(), part.offset))?;
                Some((piece.range.clone(), piece.state().left))
            };
            parts.iter().map(range).collect::<Vec<_>>()
        };
        let (whole, gap) = (PIECE_BYTES, GAP_BYTES);
        assert_eq!(pieces(&[part("a", 0, 5), part("a", 5, 7)]), [Some((0..12, 2)), Some((0..12, 2))]);
        assert_eq!(pieces(&[part("a", 9, 7), part("a", 0, 5)]), [Some((0..16, 2)), Some((0..16, 2))]);
        assert_eq!(pieces(&[part("a", 0, 5), part("b", 5, 7)]), [Some((0..5, 1)), Some((5..12, 1))]);
        assert_eq!(pieces(&[part("a", 0, 5), part("a", gap + 5, 7)])[0], Some((0..gap + 12, 2)));
        assert_eq!(pieces(&[part("a", 0, 5), part("a", gap + 6, 7)])[0], Some((0..5, 1)));
        // Of a size; and what is longer is read by itself.
        assert_eq!(pieces(&[part("a", 1, 5), part("a", 6, whole - 5)])[0], Some((1..whole + 1, 2)));
        assert_eq!(pieces(&[part("a", 1, 5), part("a", 6, whole - 4)])[1], Some((6..whole + 2, 1)));
        assert_eq!(pieces(&[part("a", 0, 5), part("a", 5, whole + 1)]), [Some((0..5, 1)), None]);
    }

    #[test]
    fn a_piece_is_held_until_its_parts_are_read_and_read_again_for_who_is_late() {
        let memory = super::super::super::location::Memory::default();
        let runtime = super::super::super::runtime::Runtime::Inline(Arc::new(Nowhere));
        let objects = Objects::open(&StoreLocation::in_memory(&memory), RetryPolicy::Opening, runtime).unwrap();
        objects.start_put("a", (0..20).collect()).wait().unwrap();
        let parts = [(0, 5), (5, 7)].map(|(at, bytes)| PartRef { object_bytes: 20, ..part("a", at, bytes) });
        let pieces = Pieces::of(&objects, &parts);
        let held = |piece: &Piece| match &piece.state().content {
            Content::Unasked => 0,
            Content::UnderWay(_) => 1,
            Content::Here(bytes) => bytes.len(),
        };
        let piece = pieces.ask(&parts[0]).unwrap();
        assert_eq!(held(&piece), 1);
        assert_eq!(piece.read(&objects, 0..5).unwrap()[..], [0, 1, 2, 3, 4]);
        piece.is_read();
        assert_eq!(held(&piece), 12);
        assert_eq!(pieces.ask(&parts[1]).unwrap().read(&objects, 5..12).unwrap()[..], [5, 6, 7, 8, 9, 10, 11]);
        piece.is_read();
        assert_eq!(held(&piece), 0);
        assert_eq!(piece.read(&objects, 11..12).unwrap()[..], [11]);

        // Another object than the one that is meant.
        let other = Pieces::of(&objects, [&part("a", 0, 5)]);
        let damaged = other.ask(&part("a", 0, 5)).unwrap().read(&objects, 0..5);
        assert!(matches!(&damaged, Err(SnapshotError::Damaged { offset: 20, .. })), "{damaged:?}");

        // A part whose end the store leaves out; what is before it is there.
        let short = [(10, 4), (14, 9)].map(|(at, bytes)| PartRef { object_bytes: 20, ..part("a", at, bytes) });
        let pieces = Pieces::of(&objects, &short);
        let read = |part: &PartRef| pieces.ask(part).unwrap().read(&objects, part.range());
        let damaged = read(&short[1]);
        assert!(matches!(&damaged, Err(SnapshotError::Damaged { offset: 20, .. })), "{damaged:?}");
        assert_eq!(read(&short[0]).unwrap()[..], [10, 11, 12, 13]);
    }
}
