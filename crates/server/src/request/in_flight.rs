//! Limits how many requests are handled at the same time (upstream: `filters.WithMaxInFlightLimit`).

use std::sync::Arc;

use pintle_auth::UserInfo;
use pintle_auth::user::SYSTEM_PRIVILEGED_GROUP;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::info::RequestInfo;

/// The limits for requests that read and for requests that write.
#[derive(Debug)]
pub(crate) struct InFlightLimits {
    reading: Option<Arc<Semaphore>>,
    mutating: Option<Arc<Semaphore>>,
}

/// A request in flight. Dropping this ends it.
#[derive(Debug, Default)]
pub(crate) struct InFlightRequest(
    #[expect(dead_code, reason = "held until it is dropped")] Option<OwnedSemaphorePermit>,
);

/// The kind of a request that counts as in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InFlightKind {
    Reading,
    Mutating,
}

impl InFlightKind {
    /// The kind of a request; `None` for long-running requests, which do not count.
    pub(crate) fn of(info: &RequestInfo) -> Option<Self> {
        if info.is_long_running() {
            return None;
        }
        Some(if matches!(info.verb.as_str(), "get" | "list" | "watch") { Self::Reading } else { Self::Mutating })
    }
}

/// Too many requests are in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooManyInFlight;

impl InFlightLimits {
    /// Creates limits. Zero means no limit.
    pub(crate) fn new(reading: usize, mutating: usize) -> Self {
        let limit = |limit: usize| (limit > 0).then(|| Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS))));
        Self { reading: limit(reading), mutating: limit(mutating) }
    }

    /// Counts a request, unless it is long-running.
    ///
    /// # Errors
    /// The maximum number of requests is in flight, and the user is not privileged.
    pub(crate) fn begin(&self, info: &RequestInfo, user: &UserInfo) -> Result<InFlightRequest, TooManyInFlight> {
        let limit = match InFlightKind::of(info) {
            Some(InFlightKind::Reading) => &self.reading,
            Some(InFlightKind::Mutating) => &self.mutating,
            None => &None,
        };
        let Some(limit) = limit else { return Ok(InFlightRequest(None)) };
        match limit.clone().try_acquire_owned() {
            Ok(permit) => Ok(InFlightRequest(Some(permit))),
            Err(_) if user.groups.iter().any(|group| group == SYSTEM_PRIVILEGED_GROUP) => Ok(InFlightRequest(None)),
            Err(_) => Err(TooManyInFlight),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::request::query::Query;

    #[test]
    fn requests_beyond_the_limit_are_refused_by_sort() {
        let limits = InFlightLimits::new(1, 2);
        let user = UserInfo::default();
        let admin = UserInfo { groups: vec![SYSTEM_PRIVILEGED_GROUP.into()], ..UserInfo::default() };
        let begin = |method: Method, path: &str, user: &UserInfo| {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            limits.begin(&RequestInfo::of(&method, path, &Query::parse(query)), user).ok()
        };
        let read = begin(Method::GET, "/api/v1/pods", &user);
        assert!(read.is_some());
        assert!(begin(Method::GET, "/version", &user).is_none());
        assert!(begin(Method::GET, "/version", &admin).is_some());
        assert!(begin(Method::GET, "/api/v1/pods?watch=1", &user).is_some());
        let writes = [(); 2].map(|()| begin(Method::POST, "/api/v1/pods", &user));
        assert!(writes.iter().all(Option::is_some));
        assert!(begin(Method::DELETE, "/api/v1/pods", &user).is_none());
        drop(read);
        assert!(begin(Method::GET, "/version", &user).is_some());
        drop(writes);
        assert!(begin(Method::DELETE, "/api/v1/pods", &user).is_some());
        let unlimited = InFlightLimits::new(0, 0);
        let held: Vec<_> = (0..1000).map(|_| unlimited.begin(&RequestInfo::default(), &user)).collect();
        assert!(held.iter().all(Result::is_ok));
    }
}
