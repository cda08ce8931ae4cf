//! The chain of authorizers, and the authorizers without a configuration (upstream: `authorization/union`,
//! `authorization/authorizerfactory`).

use std::borrow::Cow;

use pintle_gates::{Change, Gates};
use pintle_value::Str;

use crate::rbac::aggregate;
use crate::{AuthFuture, Authorization, AuthorizationAttributes, Authorizer, Decision, RulesReview, UserInfo};

/// Asks several authorizers in order. The first authorizer that allows or denies decides. If none does, the reasons and
/// errors of all are reported.
pub struct UnionAuthorizer {
    authorizers: Vec<(Str, Box<dyn Authorizer>)>,
    /// Whether reasons begin with the names of the authorizers.
    names_authorizers: bool,
}

/// The reasons and errors of the authorizers so far, which did not decide.
#[derive(Default)]
struct Undecided {
    reasons: Vec<Cow<'static, str>>,
    errors: Vec<String>,
}

impl Undecided {
    /// Returns the decision, if the authorizer has decided. The reason of an authorizer with a name begins with it.
    fn add(&mut self, name: Option<&Str>, authorization: Authorization) -> Option<Authorization> {
        match authorization.decision {
            Decision::Allow | Decision::Deny => Some(authorization),
            Decision::NoOpinion => {
                let reason = Some(authorization.reason).filter(|reason| !reason.is_empty());
                self.reasons.extend(reason.map(|reason| match name {
                    Some(name) => format!("{name}: {reason}").into(),
                    None => reason,
                }));
                self.errors.extend(authorization.error);
                None
            }
        }
    }

    fn into_authorization(self) -> Authorization {
        let mut reasons = self.reasons;
        let reason = match reasons.len() {
            0 | 1 => reasons.pop().unwrap_or_default(),
            _ => reasons.join("\n").into(),
        };
        Authorization { decision: Decision::NoOpinion, reason, error: aggregate(self.errors) }
    }
}

impl UnionAuthorizer {
    /// Creates a union of authorizers with these names.
    #[must_use]
    pub fn new(gates: &Gates, authorizers: Vec<(Str, Box<dyn Authorizer>)>) -> Self {
        Self { authorizers, names_authorizers: gates.has(Change::REASONS_NAME_AUTHORIZERS) }
    }

    /// The name of an authorizer in reasons.
    fn shown<'a>(&self, name: &'a Str) -> Option<&'a Str> {
        Some(name).filter(|_| self.names_authorizers)
    }

    /// Asks the authorizers from index `first` on.
    async fn authorize_from(
        &self,
        first: usize,
        mut undecided: Undecided,
        user: &UserInfo,
        attributes: &AuthorizationAttributes<'_>,
    ) -> Authorization {
        for (name, authorizer) in self.authorizers.get(first..).unwrap_or_default() {
            if let Some(decided) = undecided.add(self.shown(name), authorizer.authorize(user, attributes).await) {
                return decided;
            }
        }
        undecided.into_authorization()
    }
}

impl Authorizer for UnionAuthorizer {
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a AuthorizationAttributes<'a>,
    ) -> AuthFuture<'a, Authorization> {
        // Nothing is allocated as long as the authorizers decide immediately.
        let mut undecided = Undecided::default();
        for (index, (name, authorizer)) in self.authorizers.iter().enumerate() {
            let name = self.shown(name);
            match authorizer.authorize(user, attributes) {
                AuthFuture::Ready(authorization) => {
                    let decided = authorization.and_then(|authorization| undecided.add(name, authorization));
                    if let Some(decided) = decided {
                        return AuthFuture::ready(decided);
                    }
                }
                AuthFuture::Boxed(pending) => {
                    return AuthFuture::boxed(async move {
                        match undecided.add(name, pending.await) {
                            Some(decided) => decided,
                            None => self.authorize_from(index + 1, undecided, user, attributes).await,
                        }
                    });
                }
            }
        }
        AuthFuture::ready(undecided.into_authorization())
    }

    fn rules<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> AuthFuture<'a, RulesReview> {
        AuthFuture::boxed(async move {
            let mut all = RulesReview::default();
            let mut errors = Vec::new();
            for (_, authorizer) in &self.authorizers {
                let RulesReview { resource_rules, non_resource_rules, incomplete, error } =
                    authorizer.rules(user, namespace).await;
                all.resource_rules.extend(resource_rules);
                all.non_resource_rules.extend(non_resource_rules);
                all.incomplete |= incomplete;
                errors.extend(error);
            }
            all.error = aggregate(errors);
            all
        })
    }
}

/// Allows the members of a group everything. It lists no rules.
#[derive(Clone, Copy, Debug)]
pub struct PrivilegedGroup(pub &'static str);

impl Authorizer for PrivilegedGroup {
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        _: &'a AuthorizationAttributes<'a>,
    ) -> AuthFuture<'a, Authorization> {
        let is_member = user.groups.iter().any(|group| group == self.0);
        AuthFuture::ready(if is_member { Authorization::ALLOW } else { Authorization::NO_OPINION })
    }

    fn rules<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> AuthFuture<'a, RulesReview> {
        AuthFuture::ready(RulesReview::default())
    }
}

/// Allows nothing (`--authorization-mode=AlwaysDeny`).
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn authorize<'a>(&'a self, _: &'a UserInfo, _: &'a AuthorizationAttributes<'a>) -> AuthFuture<'a, Authorization> {
        let reason = Cow::Borrowed("Everything is forbidden.");
        AuthFuture::ready(Authorization { reason, ..Authorization::NO_OPINION })
    }

    fn rules<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> AuthFuture<'a, RulesReview> {
        AuthFuture::ready(RulesReview::default())
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use pintle_versions::{EffectiveVersion, Minor};

    use super::*;
    use crate::ResourceRule;

    /// Returns this decision: at once, or at the second poll if the flag is set.
    struct Fixed(Authorization, bool);

    impl Authorizer for Fixed {
        fn authorize<'a>(
            &'a self,
            _: &'a UserInfo,
            _: &'a AuthorizationAttributes<'a>,
        ) -> AuthFuture<'a, Authorization> {
            let authorization = self.0.clone();
            if !self.1 {
                return AuthFuture::ready(authorization);
            }
            let mut polled = false;
            AuthFuture::boxed(std::future::poll_fn(move |_| {
                if std::mem::replace(&mut polled, true) { Poll::Ready(authorization.clone()) } else { Poll::Pending }
            }))
        }

        fn rules<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> AuthFuture<'a, RulesReview> {
            let rule = ResourceRule { resources: vec![(&*self.0.reason).into()], ..ResourceRule::default() };
            AuthFuture::ready(RulesReview {
                resource_rules: vec![rule],
                non_resource_rules: Vec::new(),
                incomplete: self.1,
                error: self.0.error.clone(),
            })
        }
    }

    fn poll<T>(future: impl Future<Output = T>, polls: usize) -> T {
        let mut future = pin!(future);
        let mut cx = Context::from_waker(Waker::noop());
        let mut results = (0..=polls).filter_map(|_| match future.as_mut().poll(&mut cx) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        });
        results.next().expect("a result")
    }

    fn authorization(decision: Decision, reason: &'static str, error: &str) -> Authorization {
        let error = Some(error.to_owned()).filter(|error| !error.is_empty());
        Authorization { decision, reason: reason.into(), error }
    }

    fn union(gates: &Gates, authorizers: impl Iterator<Item = Fixed>) -> UnionAuthorizer {
        let named = authorizers
            .enumerate()
            .map(|(i, authorizer)| -> (Str, Box<dyn Authorizer>) { (format!("a{i}").into(), Box::new(authorizer)) });
        UnionAuthorizer::new(gates, named.collect())
    }

    fn check(authorizations: &[Authorization], expect: &Authorization) {
        check_in(36, authorizations, expect);
    }

    fn check_in(minor: u8, authorizations: &[Authorization], expect: &Authorization) {
        let gates = Gates::of(EffectiveVersion::of(Minor::new(minor)));
        let (user, attributes) = (UserInfo::default(), AuthorizationAttributes::default());
        // Every combination of immediate and delayed decisions gives the same outcome.
        for delayed in 0..1 << authorizations.len() {
            let authorizations = authorizations.iter().enumerate();
            let polls = authorizations.len();
            let fixed = authorizations.map(|(i, authorization)| Fixed(authorization.clone(), delayed >> i & 1 == 1));
            let union = union(&gates, fixed);
            let found = poll(union.authorize(&user, &attributes), polls);
            assert_eq!(found, *expect, "delayed: {delayed:b}");
        }
    }

    #[test]
    fn the_first_that_allows_or_denies_decides() {
        use Decision::{Allow, Deny, NoOpinion};
        let none = authorization(NoOpinion, "none", "failed");
        let (allow, deny) = (authorization(Allow, "yes", "partly"), authorization(Deny, "no", ""));
        check(&[none.clone(), allow.clone(), deny.clone()], &allow);
        check(&[none.clone(), deny.clone(), allow], &deny);
        check(&[], &Authorization::NO_OPINION);
        check(&[authorization(NoOpinion, "", ""), none.clone()], &none);
        let other = authorization(NoOpinion, "other", "broken");
        check(&[none.clone(), other], &authorization(NoOpinion, "none\nother", "[failed, broken]"));
        check(&[none.clone(), none.clone()], &authorization(NoOpinion, "none\nnone", "failed"));
    }

    #[test]
    fn reasons_without_a_decision_name_their_authorizers() {
        use Decision::{Allow, NoOpinion};
        let (none, silent) = (authorization(NoOpinion, "none", ""), authorization(NoOpinion, "", "failed"));
        check_in(37, &[silent.clone(), none.clone()], &authorization(NoOpinion, "a1: none", "failed"));
        check_in(37, &[none.clone(), silent, none.clone()], &authorization(NoOpinion, "a0: none\na2: none", "failed"));
        let allow = authorization(Allow, "yes", "");
        check_in(37, &[none, allow.clone()], &allow);
    }

    #[test]
    fn the_rules_of_all_authorizers_are_listed() {
        let fixed = |reason, error, incomplete| Fixed(authorization(Decision::NoOpinion, reason, error), incomplete);
        let authorizers = [fixed("a", "x", false), fixed("b", "", true), fixed("c", "y", false)];
        let union = union(&Gates::default(), authorizers.into_iter());
        let user = UserInfo::default();
        let RulesReview { resource_rules, incomplete, error, .. } = poll(union.rules(&user, "ns"), 1);
        let resources: Vec<_> = resource_rules.iter().flat_map(|rule| &rule.resources).collect();
        assert_eq!(resources, ["a", "b", "c"]);
        assert!(incomplete);
        assert_eq!(error.as_deref(), Some("[x, y]"));
    }

    #[test]
    fn only_members_of_the_privileged_group_are_allowed() {
        for (groups, expect) in [(&["a", "g"][..], Authorization::ALLOW), (&["a"], Authorization::NO_OPINION)] {
            let groups = groups.iter().map(|group| (*group).into()).collect();
            let user = UserInfo { name: "g".into(), groups, ..UserInfo::default() };
            let found = poll(PrivilegedGroup("g").authorize(&user, &AuthorizationAttributes::default()), 0);
            assert_eq!(found, expect);
        }
    }
}
