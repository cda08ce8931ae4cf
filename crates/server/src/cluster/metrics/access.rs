//! The metrics of the filters of the handler chain: authentication, impersonation and authorization (upstream:
//! `endpoints/filters/metrics.go`, `endpoints/filterlatency`).

use std::time::Duration;

use pintle_auth::{Authorization, Decision, ImpersonationMode, ImpersonationObserver};
use pintle_gates::{Feature, Gates};
use pintle_metrics::{Buckets, Counter, Exposition, Histogram, Kind, Stability};

/// The buckets of all histograms in this file.
const RECORDED: Buckets = Buckets::seconds(&[
    0.0001, 0.0003, 0.001, 0.002, 0.003, 0.004, 0.008, 0.01, 0.016, 0.03, 0.032, 0.064, 0.1, 0.128, 0.256, 0.3, 0.512,
    1.0, 1.024, 2.048, 4.096, 5.0, 8.192, 10.0, 15.0, 16.384, 30.0,
]);
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
    /// An authorizer denied it.
    Denied,
    /// No authorizer allowed it.
    NoOpinion,
    /// The authorizers could not decide.
    Error,
}

impl AuthorizationResult {
    /// The result of an authorization.
    pub(crate) fn of(authorization: &Authorization) -> Self {
        match (authorization.decision, &authorization.error) {
            (Decision::Allow, _) => Self::Allowed,
            (_, Some(_)) => Self::Error,
            (Decision::Deny, None) => Self::Denied,
            (Decision::NoOpinion, None) => Self::NoOpinion,
        }
    }
}

/// The count and the durations of an operation, for each of its results.
#[derive(Debug)]
struct Results<const N: usize>([Histogram; N]);

impl<const N: usize> Results<N> {
    fn new() -> Self {
        Self([(); N].map(|()| Histogram::new(RECORDED)))
    }

    /// The results that have occurred.
    fn shown<'s>(&'s self, names: &'s [&'static str; N]) -> impl Iterator<Item = (&'static str, &'s Histogram)> {
        names.iter().copied().zip(&self.0).filter(|(_, histogram)| histogram.count() > 0)
    }
}

const AUTHENTICATION_RESULTS: [&str; 3] = ["success", "failure", "error"];
const AUTHORIZATION_RESULTS: [&str; 4] = ["allowed", "denied", "no-opinion", "error"];

/// The decisions about an impersonation or one of its authorizations.
const DECISIONS: [&str; 2] = ["denied", "allowed"];

/// Durations by mode and decision.
type ByMode = [Results<2>; ImpersonationMode::ALL.len()];

/// The categories of user names (upstream: `compressUsername`), except the category of all other names.
const USER_NAMES: [&str; 6] =
    ["admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default", "email_id"];

/// The metrics of access control.
#[derive(Debug)]
pub(crate) struct AccessMetrics {
    /// Whether impersonations have modes, which the metrics show.
    has_constrained_impersonation: bool,
    authentication: Results<3>,
    /// Impersonations that were allowed, by mode.
    impersonations: [Histogram; ImpersonationMode::ALL.len()],
    /// Impersonations that no mode allowed.
    denied_impersonations: Histogram,
    impersonation_authorizations: ByMode,
    authorization: Results<4>,
    users: [Counter; USER_NAMES.len()],
}

impl AccessMetrics {
    /// Creates the metrics of a cluster with these feature gates.
    pub(super) fn new(gates: &Gates) -> Self {
        Self {
            has_constrained_impersonation: gates.is_enabled(Feature::CONSTRAINED_IMPERSONATION),
            authentication: Results::new(),
            impersonations: ImpersonationMode::ALL.map(|_| Histogram::new(RECORDED)),
            denied_impersonations: Histogram::new(RECORDED),
            impersonation_authorizations: ImpersonationMode::ALL.map(|_| Results::new()),
            authorization: Results::new(),
            users: Default::default(),
        }
    }

    /// Records an authentication and, if it succeeded, the name of the user.
    pub(crate) fn record_authentication(&self, result: AuthenticationResult, user: &str, took: Duration) {
        self.authentication.0[result as usize].observe(took);
        if result == AuthenticationResult::Success {
            let category = USER_NAMES.iter().position(|name| *name == user).or(user.contains('@').then_some(5));
            if let Some(category) = category {
                self.users[category].inc();
            }
        }
    }

    /// Records the impersonation of a user, in the mode that allowed it.
    pub(crate) fn record_impersonation(&self, mode: Option<ImpersonationMode>, took: Duration) {
        match mode {
            Some(mode) => self.impersonations[mode as usize].observe(took),
            None => self.denied_impersonations.observe(took),
        }
    }

    /// Records an authorization.
    pub(crate) fn record_authorization(&self, result: AuthorizationResult, took: Duration) {
        self.authorization.0[result as usize].observe(took);
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        for (result, durations) in self.authentication.shown(&AUTHENTICATION_RESULTS) {
            out.family("authentication_attempts", Kind::Counter, Stability::Alpha, "Authentications by result.")
                .value(&[("result", result)], durations.count() as f64);
            let help = "Authentication latency in seconds, by result.";
            out.family("authentication_duration_seconds", Kind::Histogram, Stability::Alpha, help).merged(
                &[("result", result)],
                &[durations],
                DURATIONS,
            );
        }
        let known = USER_NAMES.into_iter().zip(self.users.iter().map(Counter::get));
        let others = self.authentication.0[AuthenticationResult::Success as usize].count();
        let others = others.saturating_sub(self.users.iter().map(Counter::get).sum());
        for (name, requests) in known.chain([("other", others)]).filter(|(_, requests)| *requests > 0) {
            let help = "Authenticated requests by category of the user name.";
            out.family("authenticated_user_requests", Kind::Counter, Stability::Alpha, help)
                .value(&[("username", name)], requests as f64);
        }
        for (result, durations) in self.authorization.shown(&AUTHORIZATION_RESULTS) {
            out.family("authorization_attempts_total", Kind::Counter, Stability::Alpha, "Authorizations by result.")
                .value(&[("result", result)], durations.count() as f64);
            let help = "Authorization latency in seconds, by result.";
            out.family("authorization_duration_seconds", Kind::Histogram, Stability::Alpha, help).merged(
                &[("result", result)],
                &[durations],
                DURATIONS,
            );
        }
        self.write_impersonations(out);
        for (filter, results) in [
            ("authentication", self.authentication.0.iter().collect::<Vec<_>>()),
            (self.impersonation_filter(), self.impersonations.iter().collect()),
            ("authorization", self.authorization.0.iter().collect()),
        ] {
            let results: Vec<&Histogram> = results.into_iter().filter(|durations| durations.count() > 0).collect();
            if !results.is_empty() {
                let help = "Latency of the filters of the handler chain in seconds.";
                out.family("apiserver_request_filter_duration_seconds", Kind::Histogram, Stability::Alpha, help)
                    .merged(&[("filter", filter)], &results, FILTER_DURATIONS);
            }
        }
    }

    /// The name of the filter. It differs if there are more modes than the legacy mode.
    fn impersonation_filter(&self) -> &'static str {
        if self.has_constrained_impersonation { "constrainedimpersonation" } else { "impersonation" }
    }

    fn write_impersonations(&self, out: &mut Exposition) {
        if !self.has_constrained_impersonation {
            return;
        }
        let [denied, allowed] = DECISIONS;
        let names = ImpersonationMode::ALL.map(ImpersonationMode::name);
        let attempts = names.iter().zip(&self.impersonations).map(|(mode, durations)| (*mode, allowed, durations));
        let attempts = attempts.chain([("", denied, &self.denied_impersonations)]);
        write_decisions(
            out,
            ["apiserver_impersonation_attempts_total", "apiserver_impersonation_attempts_duration_seconds"],
            "Impersonations",
            attempts,
        );
        let authorizations = names.iter().zip(&self.impersonation_authorizations).flat_map(|(mode, results)| {
            results.shown(&DECISIONS).map(|(decision, durations)| (*mode, decision, durations))
        });
        let families = [
            "apiserver_impersonation_authorization_attempts_total",
            "apiserver_impersonation_authorization_attempts_duration_seconds",
        ];
        write_decisions(out, families, "Authorizations of impersonations", authorizations);
    }
}

impl ImpersonationObserver for AccessMetrics {
    fn authorized(&self, mode: ImpersonationMode, allowed: bool, took: Duration) {
        self.impersonation_authorizations[mode as usize].0[usize::from(allowed)].observe(took);
    }
}

/// Writes two families, of counts and of durations by mode and decision.
fn write_decisions<'h>(
    out: &mut Exposition,
    [counts, durations]: [&'static str; 2],
    what: &str,
    decisions: impl Iterator<Item = (&'static str, &'static str, &'h Histogram)>,
) {
    let decisions: Vec<_> = decisions.filter(|(.., durations)| durations.count() > 0).collect();
    for (mode, decision, histogram) in &decisions {
        out.family(counts, Kind::Counter, Stability::Alpha, &format!("{what} by mode and decision."))
            .value(&[("mode", mode), ("decision", decision)], histogram.count() as f64);
    }
    for (mode, decision, histogram) in &decisions {
        out.family(durations, Kind::Histogram, Stability::Alpha, &format!("{what} in seconds, by mode and decision."))
            .merged(&[("mode", mode), ("decision", decision)], &[*histogram], DURATIONS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shown_bound_is_recorded() {
        assert!(DURATIONS.is_part_of(RECORDED) && FILTER_DURATIONS.is_part_of(RECORDED));
    }
}
