//! Strict serializability: the claimed order never puts behind what had ended before it was asked.
//!
//! A transaction's rank is its epoch, and its place in the epoch's claimed order. A query's rank is
//! the start of the epoch in whose batch it runs. If a client was told A's end before another
//! client first submitted B, then A must rank before B.

use styx_protocol::ids::Tid;

use super::{Checked, Failure};

/// An operation as clients saw it.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    /// Epoch, place in it, and among queries the order in which they ran.
    pub rank: (u64, u64, u64),
    /// When it was first submitted.
    pub submitted: u64,
    /// When its end was first told to a client, if it was.
    pub told: Option<u64>,
    /// The transaction; 0 for a query.
    pub tid: Tid,
}

/// Checks the claimed order against real time.
///
/// # Errors
/// An operation ranks behind one that was submitted only after its end was told.
pub fn real_time(mut intervals: Vec<Interval>) -> Checked {
    intervals.sort_unstable_by_key(|interval| interval.rank);
    let mut latest: Option<Interval> = None;
    for interval in intervals {
        if let (Some(before), Some(told)) = (latest, interval.told)
            && before.submitted > told
        {
            let message = format!("{before:?} was submitted after {interval:?} was told, and ranks before it");
            return Err(Failure::new("real time", message).about(&[before.tid, interval.tid]));
        }
        if latest.is_none_or(|latest| latest.submitted < interval.submitted) {
            latest = Some(interval);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(rank: u64, submitted: u64, told: u64) -> Interval {
        Interval { rank: (rank, 0, 0), submitted, told: Some(told), tid: Tid(rank) }
    }

    #[test]
    fn overlapping_operations_may_rank_either_way_and_others_may_not() {
        assert!(real_time(vec![interval(1, 5, 20), interval(2, 0, 10)]).is_ok());
        assert!(real_time(vec![interval(1, 11, 20), interval(2, 0, 10)]).is_err());
        let unknown = Interval { told: None, ..interval(2, 0, 0) };
        assert!(real_time(vec![interval(1, 11, 20), unknown]).is_ok());
    }
}
