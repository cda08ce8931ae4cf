//! The time limit of a request: `--request-timeout`, or less if the query asks for less (upstream:
//! `filters.WithRequestDeadline`).

use std::future::Future;
use std::time::Duration;

use pintle_registry::ApiError;
use tokio::time::{Instant, timeout_at};

use super::info::RequestInfo;
use super::query::Query;

/// The time by which a request has to be answered. Long-running requests have no deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestDeadline(Option<Instant>);

/// The deadline has passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeadlineExceeded;

impl RequestDeadline {
    /// No deadline.
    pub(crate) const NEVER: Self = Self(None);

    /// The deadline of a request that began at `started`. The request has the time `maximum`, or the time of the
    /// parameter `timeout` if that is shorter. A timeout of zero or less has no effect.
    ///
    /// # Errors
    /// The parameter is not a duration.
    pub(crate) fn of(info: &RequestInfo, query: &Query, started: Instant, maximum: Duration) -> Result<Self, ApiError> {
        if info.is_long_running() {
            return Ok(Self::NEVER);
        }
        let timeout = match query.get("timeout").unwrap_or_default() {
            "" => maximum,
            text => {
                let pintle_value::time::Duration(nanoseconds) =
                    pintle_value::time::Duration::parse(text).map_err(|error| {
                        ApiError::BadRequest(format!("invalid timeout specified in the request URL - {error}"))
                    })?;
                let requested = u64::try_from(nanoseconds).ok().filter(|nanoseconds| *nanoseconds > 0);
                requested.map_or(maximum, |nanoseconds| Duration::from_nanos(nanoseconds).min(maximum))
            }
        };
        Ok(Self(started.checked_add(timeout)))
    }

    /// The time of the deadline; `None` for no deadline.
    pub(crate) fn instant(self) -> Option<Instant> {
        self.0
    }

    /// The earlier of this deadline and another deadline.
    pub(crate) fn min(self, other: Instant) -> Instant {
        self.0.map_or(other, |own| own.min(other))
    }

    /// Runs a future until the deadline. The future is dropped at the deadline.
    ///
    /// # Errors
    /// The deadline came first.
    pub(crate) async fn run<T>(self, future: impl Future<Output = T>) -> Result<T, DeadlineExceeded> {
        match self.0 {
            Some(deadline) => timeout_at(deadline, future).await.map_err(|_| DeadlineExceeded),
            None => Ok(future.await),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn the_query_can_only_shorten_the_time_limit() {
        let maximum = Duration::from_secs(60);
        let check = |path: &str, expect: Result<Option<Duration>, &str>| {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let query = Query::parse(query);
            let started = Instant::now();
            let deadline = RequestDeadline::of(&RequestInfo::of(&Method::GET, path, &query), &query, started, maximum);
            let found = deadline
                .map(|deadline| deadline.instant().map(|instant| instant - started))
                .map_err(|error| error.to_string());
            assert_eq!(found, expect.map_err(str::to_owned), "{path}?{query:?}");
        };
        check("/api/v1/pods", Ok(Some(maximum)));
        check("/api/v1/pods?timeout=", Ok(Some(maximum)));
        check("/api/v1/pods?timeout=1500ms", Ok(Some(Duration::from_millis(1500))));
        check("/api/v1/pods?timeout=0", Ok(Some(maximum)));
        check("/api/v1/pods?timeout=-1s", Ok(Some(maximum)));
        check("/api/v1/pods?timeout=2h", Ok(Some(maximum)));
        check("/version?timeout=1s", Ok(Some(Duration::from_secs(1))));
        check(
            "/api/v1/pods?timeout=x",
            Err("invalid timeout specified in the request URL - time: invalid duration \"x\""),
        );
        for long_running in ["/api/v1/pods?watch=1&timeout=x", "/api/v1/namespaces/a/pods/b/log?timeout=1s"] {
            check(long_running, Ok(None));
        }
    }
}
