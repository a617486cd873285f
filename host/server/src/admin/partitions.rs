//! The partitions: where they are, what they hold and what they have been asked to do.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use styx_driver::wire::PartitionStats;
use utoipa::{IntoParams, ToSchema};

use super::cluster::number;
use super::queries::Queries;
use crate::http::{ApiError, Options};

/// Partitions of one page.
const LIMIT_MAX: usize = 1 << 16;
const LIMIT_DEFAULT: usize = 1024;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PartitionsQuery {
    /// What they are ordered by: their number, or what they have most of first.
    #[serde(default)]
    #[param(inline)]
    sort: Sort,
    /// Only partitions after this one; only where they are ordered by number.
    after: Option<u16>,
    /// Most partitions [default: 1024; at most 65536].
    limit: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    #[default]
    Partition,
    Entities,
    Bytes,
    Calls,
    Fuel,
}

#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub struct PartitionList {
    partitions: Vec<PartitionView>,
    /// There are more: ask for those after this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u16>,
    /// How many there are in all.
    total: usize,
    /// How many have anything, or have been asked for anything.
    used: usize,
}

#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub struct PartitionView {
    partition: u64,
    /// Number of the worker that has it, from 1.
    worker: u32,
    entities: u64,
    /// Of keys and values.
    bytes: u64,
    /// Functions called on its entities, since its worker has it.
    calls: u64,
    /// Fuel of what was called there, likewise: of a graph of calls, as far as it ran on this worker, at the first of them.
    fuel: u64,
    /// Number of the worker that is to have it, if it is on its way.
    #[serde(skip_serializing_if = "Option::is_none")]
    moves_to: Option<u32>,
}

/// The partitions: where they are, what they hold and what they have been asked to do
///
/// Counters of calls and fuel begin with 0 when a worker gets a partition.
#[utoipa::path(
    get,
    path = "/v1/partitions",
    params(PartitionsQuery),
    responses((status = 200, body = PartitionList))
)]
pub async fn partitions(
    State(queries): State<Queries>,
    Options(query): Options<PartitionsQuery>,
) -> Result<Json<PartitionList>, ApiError> {
    if query.after.is_some() && query.sort != Sort::Partition {
        return Err(ApiError::bad_request("only partitions that are ordered by number have pages")
            .hint("leave out after, or sort"));
    }
    let limit = query.limit.unwrap_or(LIMIT_DEFAULT);
    if limit == 0 || limit > LIMIT_MAX {
        return Err(ApiError::bad_request(format!("limit must be at least 1 and at most {LIMIT_MAX}")));
    }
    Ok(Json(list(queries.partition_stats().await?, query.sort, query.after, limit)))
}

fn list(mut stats: Vec<PartitionStats>, sort: Sort, after: Option<u16>, limit: usize) -> PartitionList {
    let total = stats.len();
    let used = stats.iter().filter(|one| one.entities > 0 || one.calls > 0).count();
    stats.retain(|one| after.is_none_or(|after| one.partition > after));
    let of: fn(&PartitionStats) -> u64 = match sort {
        Sort::Partition => |_| 0,
        Sort::Entities => |one| one.entities,
        Sort::Bytes => |one| one.bytes,
        Sort::Calls => |one| one.calls,
        Sort::Fuel => |one| one.fuel,
    };
    stats.sort_unstable_by_key(|one| (std::cmp::Reverse(of(one)), one.partition));
    let more = stats.len() > limit && sort == Sort::Partition;
    stats.truncate(limit);
    let view = |one: &PartitionStats| PartitionView {
        partition: one.partition.into(),
        worker: number(one.worker),
        entities: one.entities,
        bytes: one.bytes,
        calls: one.calls,
        fuel: one.fuel,
        moves_to: one.moves_to.map(number),
    };
    let next = stats.last().filter(|_| more).map(|last| last.partition);
    PartitionList { partitions: stats.iter().map(view).collect(), next, total, used }
}

#[cfg(test)]
mod tests {
    use styx_protocol::ids::WorkerId;

    use super::*;

    fn stats() -> Vec<PartitionStats> {
        let one = |partition: u16| PartitionStats {
            partition,
            worker: WorkerId(partition % 2),
            entities: u64::from(partition % 4),
            bytes: u64::from(partition) * 10,
            calls: u64::from(partition % 3),
            fuel: 0,
            moves_to: (partition == 1).then_some(WorkerId(0)),
        };
        (0..8).map(one).collect()
    }

    fn numbers(list: &PartitionList) -> Vec<u64> {
        list.partitions.iter().map(|one| one.partition).collect()
    }

    #[test]
    fn pages_follow_each_other_and_the_first_of_an_order_come_first() {
        let first = list(stats(), Sort::Partition, None, 5);
        assert_eq!((numbers(&first), first.next, first.total), ((0..5).collect(), Some(4), 8));
        assert_eq!((first.partitions[1].worker, first.partitions[1].moves_to), (2, Some(1)));
        let second = list(stats(), Sort::Partition, first.next, 5);
        assert_eq!((numbers(&second), second.next), ((5..8).collect(), None));
        let by_calls = list(stats(), Sort::Calls, None, 3);
        assert_eq!((numbers(&by_calls), by_calls.next), (vec![2, 5, 1], None));
        assert_eq!(numbers(&list(stats(), Sort::Bytes, None, 2)), [7, 6]);
        assert_eq!(by_calls.used, 7, "nobody has asked the first for anything");
    }
}
