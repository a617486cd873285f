//! Where a call stands in its transaction's call graph.

use std::ops::Deref;
use std::sync::Arc;

use rkyv::Place;
use rkyv::rancor::Fallible;
use rkyv::ser::{Allocator, Writer};
use rkyv::vec::{ArchivedVec, VecResolver};
use rkyv::with::{ArchiveWith, DeserializeWith, SerializeWith};

use crate::archive::Plain;

/// Where a call stands in its transaction's call graph: one number per level, so that comparing
/// two paths compares when the calls ran. Kept only where several workers share a graph, for every
/// call and every access; most graphs are shallow, so short paths take no memory of their own.
#[derive(Clone)]
pub struct Path(Numbers);

/// Levels kept in place.
const SHORT: usize = 4;

#[derive(Clone)]
enum Numbers {
    Short(u8, [u32; SHORT]),
    Long(Arc<[u32]>),
}

/// In a [`Path`], asynchronous calls come after all synchronous ones of the same caller.
pub const ASYNC: u32 = 1 << 31;

impl Path {
    /// Of the call that the request asks for.
    pub const ROOT: Path = Path(Numbers::Short(0, [0; SHORT]));

    /// One level below.
    #[must_use]
    pub fn below(&self, number: u32) -> Path {
        match &self.0 {
            Numbers::Short(levels, numbers) if usize::from(*levels) < SHORT => {
                let mut numbers = *numbers;
                numbers[usize::from(*levels)] = number;
                Path(Numbers::Short(levels + 1, numbers))
            }
            _ => Path(Numbers::Long(self.iter().copied().chain([number]).collect())),
        }
    }
}

impl Deref for Path {
    type Target = [u32];
    fn deref(&self) -> &[u32] {
        match &self.0 {
            Numbers::Short(levels, numbers) => &numbers[..usize::from(*levels)],
            Numbers::Long(numbers) => numbers,
        }
    }
}

impl FromIterator<u32> for Path {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut numbers = numbers.into_iter();
        let mut path = Path::ROOT;
        while path.len() < SHORT {
            match numbers.next() {
                Some(number) => path = path.below(number),
                None => return path,
            }
        }
        match numbers.next() {
            None => path,
            Some(next) => Path(Numbers::Long(path.iter().copied().chain([next]).chain(numbers).collect())),
        }
    }
}

impl PartialEq for Path {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
impl Eq for Path {}
impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Path {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl std::fmt::Debug for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&**self).finish()
    }
}

impl ArchiveWith<Path> for Plain {
    type Archived = ArchivedVec<rkyv::Archived<u32>>;
    type Resolver = VecResolver;
    fn resolve_with(field: &Path, resolver: Self::Resolver, out: Place<Self::Archived>) {
        ArchivedVec::resolve_from_slice(field, resolver, out);
    }
}

impl<S: Fallible + Writer + Allocator + ?Sized> SerializeWith<Path, S> for Plain {
    fn serialize_with(field: &Path, serializer: &mut S) -> Result<Self::Resolver, S::Error> {
        ArchivedVec::<rkyv::Archived<u32>>::serialize_from_slice(field, serializer)
    }
}

impl<D: Fallible + ?Sized> DeserializeWith<ArchivedVec<rkyv::Archived<u32>>, Path, D> for Plain {
    fn deserialize_with(field: &ArchivedVec<rkyv::Archived<u32>>, _: &mut D) -> Result<Path, D::Error> {
        Ok(field.iter().map(|number| number.to_native()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_its_numbers_however_it_was_made() {
        for levels in 0..10u32 {
            let made = (0..levels).fold(Path::ROOT, |path, number| path.below(number));
            let collected: Path = (0..levels).collect();
            assert_eq!(made, collected);
            assert!(made.iter().copied().eq(0..levels), "{made:?}");
            assert!(made < made.below(0) && made.below(0) < made.below(1));
        }
    }
}
