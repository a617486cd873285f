//! Long lists in pieces, none of which is longer than what travels at once.

/// Bytes of writes that one message tells, about.
pub const PIECE_BYTES: usize = 128 << 10;

/// Hands a list on in pieces of at most `most` items that weigh at most `bytes` together; a heavier item travels alone.
pub fn in_pieces<T>(
    list: Vec<T>,
    most: usize,
    bytes: usize,
    weigh: impl Fn(&T) -> usize,
    mut piece: impl FnMut(Vec<T>),
) {
    let mut rest = list.into_iter().peekable();
    while let Some(first) = rest.next() {
        let mut room = bytes.saturating_sub(weigh(&first));
        let mut gathered = Vec::with_capacity(most.min(1 + rest.len()));
        gathered.push(first);
        while gathered.len() < most
            && let Some(next) = rest.next_if(|next| weigh(next) <= room)
        {
            room -= weigh(&next);
            gathered.push(next);
        }
        piece(gathered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_bounded_by_count_and_by_weight_and_hold_everything_in_order() {
        let pieces = |most, bytes| {
            let mut pieces = Vec::new();
            in_pieces(vec![1, 2, 3, 9, 1, 1, 1], most, bytes, |weight| *weight, |piece| pieces.push(piece));
            pieces
        };
        assert_eq!(pieces(7, 100), [vec![1, 2, 3, 9, 1, 1, 1]]);
        assert_eq!(pieces(2, 100), [vec![1, 2], vec![3, 9], vec![1, 1], vec![1]]);
        assert_eq!(pieces(7, 5), [vec![1, 2], vec![3], vec![9], vec![1, 1, 1]]);
        assert_eq!(pieces(7, 0).len(), 7);
    }
}
