//! A vector that is empty in most executions: one pointer wide, and no memory until something is in it.

use std::ops::{Deref, DerefMut};

use smallvec::SmallVec;

/// A list that most transactions leave empty. Thousands of executions are kept until their epoch ends, and
/// moved on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThinVec<T>(Option<Box<List<T>>>);

/// The first item lies beside the length: it takes no memory of its own.
type List<T> = SmallVec<[T; 1]>;

impl<T> ThinVec<T> {
    /// Appends an item.
    pub fn push(&mut self, item: T) {
        self.0.get_or_insert_default().push(item);
    }
}

impl<T> Default for ThinVec<T> {
    fn default() -> Self {
        ThinVec(None)
    }
}

impl<T> Deref for ThinVec<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |list| list)
    }
}

impl<T> DerefMut for ThinVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.0.as_mut().map_or(&mut [], |list| list)
    }
}

impl<T> From<Vec<T>> for ThinVec<T> {
    fn from(items: Vec<T>) -> Self {
        ThinVec((!items.is_empty()).then(|| Box::new(items.into())))
    }
}

impl<T> From<ThinVec<T>> for Vec<T> {
    fn from(items: ThinVec<T>) -> Self {
        items.0.map_or_else(Vec::new, |list| list.into_vec())
    }
}

impl<'a, T> IntoIterator for &'a ThinVec<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_pointer_and_a_list() {
        assert_eq!(size_of::<ThinVec<[u64; 9]>>(), size_of::<usize>());
        for items in 0..4u64 {
            let mut list = ThinVec::default();
            (0..items).for_each(|item| list.push(item));
            list.iter_mut().for_each(|item| *item += 1);
            assert!(list.iter().copied().eq(1..=items) && list.len() == items as usize);
            assert_eq!(ThinVec::from(Vec::from(list.clone())), list);
        }
    }
}
