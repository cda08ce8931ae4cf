//! The metrics of the filters of the handler chain: authentication, impersonation and authorization (upstream:
//! `endpoints/filters/metrics.go`, `endpoints/filterlatency`).

use std::time::Duration;

use pintle_metrics::{Buckets, Counter, Exposition, Histogram, Kind, Stability};

const DURATIONS: Buckets = Buckets::seconds(&[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
]);
const FILTER_DURATIONS: Buckets =
    Buckets::seconds(&[0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 10.0, 15.0, 30.0]);

/// The result of authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthenticationResult {
    /// The user is known.
    Success,
    /// No authenticator recognised the sender.
    Failure,
    /// An authenticator rejected the credentials.
    Error,
}

/// The result of authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthorizationResult {
    /// The request is allowed.
    Allowed,
    /// No authorizer allowed it.
    NoOpinion,
}

/// A filter of the handler chain whose latency is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    Authentication,
    Impersonation,
    Authorization,
}

/// How often something had one of several results, and how long it took.
#[derive(Debug)]
struct Results<const N: usize>([Histogram; N]);

impl<const N: usize> Results<N> {
    fn new(buckets: Buckets) -> Self {
        Self([(); N].map(|()| Histogram::new(buckets)))
    }

    /// The results that have occurred.
    fn shown<'s>(&'s self, names: &'s [&'static str; N]) -> impl Iterator<Item = (&'static str, &'s Histogram)> {
        names.iter().copied().zip(&self.0).filter(|(_, histogram)| histogram.count() > 0)
    }
}

const AUTHENTICATION_RESULTS: [&str; 3] = ["success", "failure", "error"];
const AUTHORIZATION_RESULTS: [&str; 2] = ["allowed", "no-opinion"];
const FILTERS: [&str; 3] = ["authentication", "impersonation", "authorization"];

/// The categories of user names (upstream: `compressUsername`). The last two are for those that are not in the list.
const USER_NAMES: [&str; 7] =
    ["admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default", "email_id", "other"];

/// The metrics of access control.
#[derive(Debug)]
pub(crate) struct AccessMetrics {
    authentication: Results<3>,
    authorization: Results<2>,
    filters: Results<3>,
    users: [Counter; USER_NAMES.len()],
}

impl Default for AccessMetrics {
    fn default() -> Self {
        Self {
            authentication: Results::new(DURATIONS),
            authorization: Results::new(DURATIONS),
            filters: Results::new(FILTER_DURATIONS),
            users: Default::default(),
        }
    }
}

impl AccessMetrics {
    /// Records an authentication and, if it succeeded, the name of the user.
    pub(crate) fn record_authentication(&self, result: AuthenticationResult, user: &str, took: Duration) {
        self.authentication.0[result as usize].observe(took);
        self.record_filter(Filter::Authentication, took);
        if result == AuthenticationResult::Success {
            let category = match USER_NAMES[..5].iter().position(|name| *name == user) {
                Some(known) => known,
                None if user.contains('@') => 5,
                None => 6,
            };
            self.users[category].inc();
        }
    }

    /// Records an authorization.
    pub(crate) fn record_authorization(&self, result: AuthorizationResult, took: Duration) {
        self.authorization.0[result as usize].observe(took);
        self.record_filter(Filter::Authorization, took);
    }

    /// Records how long a filter took.
    pub(crate) fn record_filter(&self, filter: Filter, took: Duration) {
        self.filters.0[filter as usize].observe(took);
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        for (result, durations) in self.authentication.shown(&AUTHENTICATION_RESULTS) {
            out.family("authentication_attempts", Kind::Counter, Stability::Alpha, "Authentications by result.")
                .value(&[("result", result)], durations.count() as f64);
            let help = "Authentication latency in seconds, by result.";
            out.family("authentication_duration_seconds", Kind::Histogram, Stability::Alpha, help)
                .histogram(&[("result", result)], durations);
        }
        for (name, requests) in USER_NAMES.into_iter().zip(&self.users).filter(|(_, requests)| requests.get() > 0) {
            let help = "Authenticated requests by category of the user name.";
            out.family("authenticated_user_requests", Kind::Counter, Stability::Alpha, help)
                .value(&[("username", name)], requests.get() as f64);
        }
        for (result, durations) in self.authorization.shown(&AUTHORIZATION_RESULTS) {
            out.family("authorization_attempts_total", Kind::Counter, Stability::Alpha, "Authorizations by result.")
                .value(&[("result", result)], durations.count() as f64);
            let help = "Authorization latency in seconds, by result.";
            out.family("authorization_duration_seconds", Kind::Histogram, Stability::Alpha, help)
                .histogram(&[("result", result)], durations);
        }
        for (filter, durations) in self.filters.shown(&FILTERS) {
            let help = "Latency of the filters of the handler chain in seconds.";
            out.family("apiserver_request_filter_duration_seconds", Kind::Histogram, Stability::Alpha, help)
                .histogram(&[("filter", filter)], durations);
        }
    }
}
