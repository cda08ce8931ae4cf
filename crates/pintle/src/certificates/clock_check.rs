//! Decides whether the clock can be believed when a certificate has to be issued. A certificate that was issued with a
//! wrong clock locks clients out once the clock is right.

use pintle_codec::json::{self, DecodeOptions};
use pintle_store::{Error, KeyInterval, Store};
use pintle_value::time::Time;
use time::{Duration, OffsetDateTime};

use super::issue::CLOCK_SKEW;
use super::rfc3339;

/// How long after the newest commit a starting server issues certificates without `--accept-clock`.
const MAX_DOWNTIME: Duration = Duration::days(365);
/// The maximum number of Leases that are read to learn the time of the newest commit of an etcd.
const MAX_LEASES: usize = 1000;

/// The time with which the clock is compared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClockBounds {
    /// Nothing is known.
    Unknown,
    /// The time of the newest commit in the store before the server started.
    NewestCommit(OffsetDateTime),
    /// The time at which this process started.
    ServerStart(OffsetDateTime),
}

impl ClockBounds {
    /// Why the time of the clock is doubtful; `None` if it is not.
    pub(super) fn doubt(self, now: OffsetDateTime) -> Option<String> {
        match self {
            Self::NewestCommit(commit) if now + CLOCK_SKEW < commit || now > commit + MAX_DOWNTIME => {
                Some(format!("but the newest commit in the store is from {}", rfc3339(commit)))
            }
            Self::ServerStart(start) if now + CLOCK_SKEW < start => {
                Some(format!("but the server was started at {}", rfc3339(start)))
            }
            _ => None,
        }
    }
}

/// The time of the newest commit in a store. An etcd does not record times. There the newest renewal of a Lease counts,
/// because servers renew Leases every few seconds.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn newest_commit(store: &dyn Store, key_prefix: &str) -> Result<ClockBounds, Error> {
    let mut newest = store.newest_commit_time().await?.map(|time| Time::from_seconds(seconds(time.0 / 1000)));
    if newest.is_none() {
        let leases = store.range(KeyInterval::prefix(&format!("{key_prefix}/leases/")), None, Some(MAX_LEASES)).await?;
        let renewals = leases.records.iter().filter_map(|lease| {
            let lease = json::decode(&lease.value, DecodeOptions::STORED).ok()?.value;
            lease.time_at(&["spec", "renewTime"])
        });
        newest = renewals.max();
    }
    let newest = newest.and_then(|time| OffsetDateTime::from_unix_timestamp(time.seconds).ok());
    Ok(newest.map_or(ClockBounds::Unknown, ClockBounds::NewestCommit))
}

fn seconds(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
