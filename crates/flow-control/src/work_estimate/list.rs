//! The estimates of lists and watches (upstream: `request/list_work_estimator.go` with `SizeBasedListCostEstimate`).

use super::{BYTES_PER_SEAT, MAXIMUM_LIST_SEATS, MINIMUM_SEATS, WorkEstimate, limit_seats};

/// The bytes that a list from the watch cache holds at most, because its response is streamed.
const MAX_STREAMED_BYTES: u64 = 1_000_000;
/// The size of an object of unknown size, in bytes: the largest request that etcd accepts.
const MAX_OBJECT_BYTES: u64 = 1_500_000;

/// The objects of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectStats {
    /// The number of objects.
    pub count: u64,
    /// The average size of an encoded object in bytes, or zero if it is not known.
    pub average_bytes: u64,
}

impl ObjectStats {
    /// The numbers of upstream for a resource whose numbers are out of date.
    pub const STALE: Self = Self { count: 1_000_000_000, average_bytes: MAX_OBJECT_BYTES };
}

/// The options of a list or watch that decide about its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListOptions<'r> {
    /// `limit`, or zero.
    pub limit: u64,
    /// `continue`, or empty.
    pub continue_token: &'r str,
    /// `resourceVersion`, or empty.
    pub resource_version: &'r str,
    /// `resourceVersionMatch`, or empty.
    pub resource_version_match: &'r str,
    /// True with a label selector or field selector.
    pub has_selector: bool,
    /// `sendInitialEvents`.
    pub send_initial_events: bool,
    /// True if the request is about the object of one name.
    pub is_of_one_object: bool,
}

impl ListOptions<'_> {
    /// Whether upstream reads the list from its watch cache.
    fn is_from_cache(&self) -> bool {
        match self.resource_version_match {
            "NotOlderThan" => true,
            "" => {
                let is_exact = self.limit > 0 && !matches!(self.resource_version, "" | "0");
                self.continue_token.is_empty() && !is_exact
            }
            _ => false,
        }
    }
}

/// The estimate of a list. `stats` is `None` for a resource that another API server serves. `max_seats` is the limit of
/// the priority level, or zero.
#[must_use]
pub fn list_estimate(options: &ListOptions<'_>, stats: Option<ObjectStats>, max_seats: u64) -> WorkEstimate {
    estimate(options, options.is_from_cache(), stats, max_seats)
}

/// The estimate of a watch, which occupies its seats until its initial events are sent.
#[must_use]
pub fn watch_estimate(options: &ListOptions<'_>, stats: Option<ObjectStats>, max_seats: u64) -> WorkEstimate {
    if !options.send_initial_events && !matches!(options.resource_version, "" | "0") {
        return WorkEstimate::seats(MINIMUM_SEATS);
    }
    estimate(options, true, stats, max_seats)
}

/// The estimate of a list or watch whose options cannot be read.
pub(crate) fn maximum_list_estimate(max_seats: u64) -> WorkEstimate {
    WorkEstimate::seats(limit_seats(max_seats, MAXIMUM_LIST_SEATS))
}

fn estimate(
    options: &ListOptions<'_>,
    is_from_cache: bool,
    stats: Option<ObjectStats>,
    max_seats: u64,
) -> WorkEstimate {
    let Some(ObjectStats { count, average_bytes }) = stats else { return WorkEstimate::seats(MINIMUM_SEATS) };
    let average_bytes = if average_bytes == 0 && count > 0 { MAX_OBJECT_BYTES } else { average_bytes };
    let limited = if options.limit > 0 { options.limit.min(count) } else { count };
    let objects = if options.is_of_one_object {
        1
    } else if !is_from_cache && options.has_selector {
        limited.max(count / 2)
    } else {
        limited
    };
    let bytes = objects.saturating_mul(average_bytes);
    let bytes = if is_from_cache { bytes.min(MAX_STREAMED_BYTES) } else { bytes };
    let seats = bytes.div_ceil(BYTES_PER_SEAT).max(MINIMUM_SEATS);
    WorkEstimate::seats(seats.min(maximum_list_estimate(max_seats).initial_seats))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: ListOptions<'_>, count: u64, average_bytes: u64, max_seats: u64, expect: [u64; 2]) {
        let stats = Some(ObjectStats { count, average_bytes });
        let seats = [list_estimate, watch_estimate].map(|estimate| estimate(&options, stats, max_seats).initial_seats);
        assert_eq!(seats, expect, "{options:?} {count} {average_bytes}");
    }

    #[test]
    fn seats_grow_with_the_bytes_up_to_the_limits() {
        let all = ListOptions::default();
        check(all, 0, 0, 0, [1, 1]);
        check(all, 250, 1000, 0, [3, 3]);
        check(all, 250, 1000, 2, [2, 2]);
        check(all, 100_000, 1000, 0, [10, 10]);
        check(all, 1, 0, 0, [10, 10]);
        check(ListOptions { limit: 100, ..all }, 100_000, 1000, 0, [1, 1]);
        check(ListOptions { is_of_one_object: true, ..all }, 100_000, 1000, 0, [1, 1]);
        assert_eq!(list_estimate(&all, None, 0), WorkEstimate::seats(1));
        assert_eq!(list_estimate(&all, Some(ObjectStats::STALE), 0), WorkEstimate::seats(10));
    }

    #[test]
    fn lists_from_the_store_take_more() {
        let all = ListOptions { limit: 500, continue_token: "c", ..ListOptions::default() };
        check(all, 100_000, 10_000, 0, [50, 10]);
        check(ListOptions { has_selector: true, ..all }, 100_000, 10_000, 0, [100, 10]);
        check(ListOptions { has_selector: true, ..all }, 1000, 10_000, 15, [15, 10]);
        let exact = ListOptions { limit: 500, resource_version: "7", ..ListOptions::default() };
        check(exact, 100_000, 10_000, 0, [50, 1]);
        check(ListOptions { resource_version_match: "NotOlderThan", ..exact }, 100_000, 10_000, 0, [10, 1]);
        check(ListOptions { resource_version_match: "Exact", ..exact }, 100_000, 10_000, 0, [50, 1]);
        check(ListOptions { send_initial_events: true, ..exact }, 100_000, 10_000, 0, [50, 10]);
    }
}
