//! How transactions and epochs end, and whether they end as they did before or as they must.

use std::collections::BTreeMap;
use std::sync::Arc;

use styx_protocol::abort::{Abort, Code};
use styx_protocol::entity::Value;
use styx_protocol::ids::{Epoch, Tid, Timestamp};
use styx_protocol::machine::{EpochSummary, Rank};
use styx_protocol::record::Chain;
use styx_protocol::transaction::Request;

use super::oracle::{NOTHING, Touch};
use super::{Checked, Failure};

/// Outcome of a transaction.
pub type Outcome = Result<Value, Abort>;

/// A transaction of the log.
#[derive(Debug)]
pub struct Sequenced {
    pub request: Arc<Request>,
    /// The logged time of its first epoch.
    pub time: Timestamp,
    /// Its first epoch.
    pub epoch: Epoch,
    pub end: Option<End>,
    /// Entities that it accessed, if histories are kept.
    pub touched: Vec<Touch>,
}

/// The end of a transaction.
#[derive(Debug)]
pub struct End {
    pub epoch: Epoch,
    /// Its place in the epoch's claimed order, from 1.
    pub rank: usize,
    pub outcome: Outcome,
}

/// Claimed result of an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// The claimed order.
    pub order: Vec<Rank>,
    /// The outcome of each transaction.
    pub outcomes: BTreeMap<Tid, Outcome>,
    /// Number of transactions that were moved to the next epoch.
    pub rescheduled: usize,
    /// The hash chain.
    pub chain: Chain,
}

impl Ended {
    /// Puts together the workers' summaries and the coordinator's chain.
    pub fn of(workers: impl IntoIterator<Item = EpochSummary>, chain: Chain) -> Self {
        let mut ended = Ended { chain, ..Ended::default() };
        for summary in workers {
            ended.order.extend(summary.order);
            ended.outcomes.extend(summary.outcomes);
            ended.rescheduled += summary.counts.rescheduled as usize;
        }
        ended.order.sort_unstable();
        ended
    }
}

/// An epoch that has ended before ends again.
pub fn again(epoch: Epoch, first: &Ended, now: &Ended) -> Checked {
    if first == now {
        return Ok(());
    }
    let differs = first.outcomes.iter().find(|(tid, outcome)| now.outcomes.get(tid) != Some(outcome));
    let message = match differs {
        Some((tid, outcome)) => format!(
            "transaction {tid} in epoch {epoch} came to {}, and in a replay to {}",
            show(outcome),
            now.outcomes.get(tid).map_or("nothing".into(), show)
        ),
        None if first.order != now.order => {
            format!("epoch {epoch} claimed {:?}, and in a replay {:?}", first.order, now.order)
        }
        None if first.chain != now.chain => {
            format!("the chain after epoch {epoch} is {}, and in a replay {}", first.chain, now.chain)
        }
        None => format!("epoch {epoch} came to {first:?}, and in a replay to {now:?}"),
    };
    let tids: Vec<Tid> = differs.map(|(tid, _)| *tid).into_iter().collect();
    Err(Failure::new("replay", message).about(&tids))
}

/// An outcome for people.
pub fn show(outcome: &Outcome) -> String {
    match outcome {
        Ok(value) => format!("{:x}", value.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte))),
        Err(abort) => format!("{abort:?}"),
    }
}

/// Whether an outcome is the expected one. Messages of the host about refused calls are not compared;
/// what a function says when it aborts is not.
pub fn same(expected: &Result<u64, Abort>, outcome: &Outcome) -> bool {
    match (expected, outcome) {
        (Ok(NOTHING), Ok(value)) => value.is_empty(),
        (Ok(expected), Ok(value)) => value[..8] == expected.to_le_bytes(),
        (Err(expected), Err(abort)) => {
            expected.code == abort.code && (abort.code != Code::Aborted || expected.message == abort.message)
        }
        _ => false,
    }
}
