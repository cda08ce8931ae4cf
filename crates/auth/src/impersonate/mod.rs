//! Impersonation: an authorized user acts as another user (upstream: `endpoints/filters/impersonation`).
//!
//! A user may act as another user in one of several modes (KEP-5284). In a constrained mode the sender needs the verb
//! `impersonate:MODE` on the other user. It also needs `impersonate-on:MODE:VERB` on the target of the request. In the
//! legacy mode the verb `impersonate` on the other user is enough.

mod headers;
mod modes;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use http::HeaderMap;
use pintle_locks::Mutex;
use pintle_value::Str;

use self::modes::{ModeCheck, ModeError};
use crate::{AuthorizationAttributes, Authorizer, ForbiddenError, UserInfo};

/// The number of users whose mode is remembered, as in upstream.
const MAX_REMEMBERED: usize = 10_000;

/// Why a user cannot act as another user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImpersonationError {
    /// The headers name groups, a uid or extra attributes, but no user.
    WithoutUser {
        /// The groups, uid and extra attributes, as upstream prints them.
        requested: String,
    },
    /// The value of a header is not UTF-8.
    Malformed {
        /// The header.
        header: String,
    },
    /// The sender is not authorized.
    Forbidden(ForbiddenError),
}

/// How a user may act as another user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImpersonationMode {
    /// A service account acts as the node that its pod runs on.
    AssociatedNode,
    /// A user acts as a node.
    ArbitraryNode,
    /// A user acts as a service account.
    ServiceAccount,
    /// A user acts as a user who is neither a node nor a service account.
    UserInfo,
    /// A user acts as any other user, in every request.
    Legacy,
}

impl ImpersonationMode {
    /// All modes, in the order in which they are tried: the most constrained first.
    pub const ALL: [ImpersonationMode; 5] =
        [Self::AssociatedNode, Self::ArbitraryNode, Self::ServiceAccount, Self::UserInfo, Self::Legacy];

    /// The name, as in verbs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "legacy",
        }
    }

    /// The verb that the sender needs on the other user.
    #[must_use]
    pub fn verb(self) -> &'static str {
        match self {
            Self::AssociatedNode => "impersonate:associated-node",
            Self::ArbitraryNode => "impersonate:arbitrary-node",
            Self::ServiceAccount => "impersonate:serviceaccount",
            Self::UserInfo => "impersonate:user-info",
            Self::Legacy => "impersonate",
        }
    }

    /// True if the sender also needs a permission for the request's own action.
    #[must_use]
    pub fn is_constrained(self) -> bool {
        self != Self::Legacy
    }
}

/// The user that a request acts as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonation {
    /// The user.
    pub user: UserInfo,
    /// The mode that allows it.
    pub mode: ImpersonationMode,
}

/// Observes the decisions of the authorizer.
pub trait ImpersonationObserver: Sync {
    /// A mode has asked the authorizer. `allowed` is the answer, and `took` the duration.
    fn authorized(&self, mode: ImpersonationMode, allowed: bool, took: Duration);
}

/// Observes nothing.
impl ImpersonationObserver for () {
    fn authorized(&self, _: ImpersonationMode, _: bool, _: Duration) {}
}

/// Decides whether a user may act as another user.
#[derive(Debug)]
pub struct Impersonator {
    /// Whether the constrained modes exist beside the legacy mode (the feature gate `ConstrainedImpersonation`).
    constrained: bool,
    hasher: RandomState,
    /// The mode that last allowed an impersonation to a user, by the hash of the user's name. It is tried first,
    /// because most users need one mode only. An error is the error of the first mode that was tried.
    last_modes: Mutex<HashMap<u64, ImpersonationMode>>,
}

impl Impersonator {
    /// An impersonator with all modes, or with the legacy mode only.
    #[must_use]
    pub fn new(constrained: bool) -> Self {
        Self { constrained, hasher: RandomState::new(), last_modes: Mutex::default() }
    }

    /// The user that a request with these headers acts as; `None` for its sender. `request` has the attributes of the
    /// request's own action.
    ///
    /// # Errors
    /// The headers are incomplete or malformed, or the sender may not act as the user that they name.
    pub async fn impersonate(
        &self,
        headers: &HeaderMap,
        sender: &UserInfo,
        request: &AuthorizationAttributes<'_>,
        authorizer: &dyn Authorizer,
        observer: &dyn ImpersonationObserver,
    ) -> Result<Option<Impersonation>, ImpersonationError> {
        let Some(wanted) = headers::requested_user(headers)? else { return Ok(None) };
        let authorizer = Observed { authorizer, observer, constrained: self.constrained };
        let check = ModeCheck { wanted: &wanted, sender, request, authorizer: &authorizer };
        let last = self.last_mode(&sender.name);
        let others = ImpersonationMode::ALL.into_iter().filter(|mode| Some(*mode) != last);
        let mut first_error = None;
        for mode in last.into_iter().chain(others).filter(|mode| self.constrained || !mode.is_constrained()) {
            match check.run(mode).await {
                Ok(user) => {
                    self.remember(&sender.name, mode);
                    return Ok(Some(Impersonation { user, mode }));
                }
                Err(ModeError::NotApplicable) => {}
                Err(ModeError::Forbidden(error)) => first_error = first_error.or(Some(error)),
            }
        }
        // The legacy mode applies to everybody, so there is an error.
        Err(ImpersonationError::Forbidden(first_error.unwrap_or_default()))
    }

    fn last_mode(&self, user: &Str) -> Option<ImpersonationMode> {
        self.last_modes.lock().get(&self.hasher.hash_one(user)).copied()
    }

    fn remember(&self, user: &Str, mode: ImpersonationMode) {
        let key = self.hasher.hash_one(user);
        let mut modes = self.last_modes.lock();
        if modes.len() >= MAX_REMEMBERED && !modes.contains_key(&key) {
            modes.clear();
        }
        modes.insert(key, mode);
    }
}

/// An authorizer whose decisions are observed.
struct Observed<'a> {
    authorizer: &'a dyn Authorizer,
    observer: &'a dyn ImpersonationObserver,
    /// The same flag as in [`Impersonator`].
    constrained: bool,
}

impl Observed<'_> {
    /// Asks the authorizer for a mode.
    async fn authorize(
        &self,
        mode: ImpersonationMode,
        user: &UserInfo,
        attributes: &AuthorizationAttributes<'_>,
    ) -> Result<(), ForbiddenError> {
        let started = Instant::now();
        let authorization = self.authorizer.authorize(user, attributes).await;
        // Without the constrained modes, an error forbids the impersonation even if the authorizer allows it. The error
        // is not shown, as in upstream.
        let allowed = authorization.is_allowed() && (self.constrained || authorization.error.is_none());
        self.observer.authorized(mode, allowed, started.elapsed());
        if allowed {
            return Ok(());
        }
        let why = match (authorization.error.filter(|_| self.constrained), &*authorization.reason) {
            (None, reason) => reason.to_owned(),
            (Some(error), "") => error,
            (Some(error), reason) => format!("{error}: {reason}"),
        };
        Err(ForbiddenError::new(user, attributes, &why))
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use http::{HeaderName, HeaderValue};

    use super::headers::{GROUP, UID, USER};
    use super::*;
    use crate::user::{ALL_AUTHENTICATED as AUTHENTICATED, ALL_UNAUTHENTICATED as UNAUTHENTICATED, ANONYMOUS};
    use crate::{AlwaysAllow, AuthFuture, Authorization, Decision, RulesReview};

    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("these authorizers decide at once"),
        }
    }

    fn check(headers: &[(&str, &str)], expect: Result<Option<(&str, &[&str])>, ImpersonationError>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            map.append(name.parse::<HeaderName>().unwrap(), value);
        }
        assert_eq!(run(&map), expect.map(expected), "{headers:?}");
    }

    type NameAndGroups = (Str, Vec<Str>);

    fn expected(user: Option<(&str, &[&str])>) -> Option<NameAndGroups> {
        user.map(|(name, groups)| (Str::from(name), groups.iter().map(|g| Str::from(*g)).collect()))
    }

    fn run(headers: &HeaderMap) -> Result<Option<NameAndGroups>, ImpersonationError> {
        let (sender, request) = (UserInfo::default(), AuthorizationAttributes::default());
        let impersonator = Impersonator::new(false);
        let result = now(impersonator.impersonate(headers, &sender, &request, &AlwaysAllow, &()));
        result.map(|found| found.map(|found| (found.user.name, found.user.groups)))
    }

    #[test]
    fn headers_name_the_impersonated_user() {
        check(&[("accept", "*/*")], Ok(None));
        check(&[(USER, "bob")], Ok(Some(("bob", &[AUTHENTICATED]))));
        check(&[(USER, "jürgen")], Ok(Some(("jürgen", &[AUTHENTICATED]))));
        check(&[(USER, "bob"), (GROUP, "dev"), (GROUP, "ops")], Ok(Some(("bob", &["dev", "ops", AUTHENTICATED]))));
        check(
            &[(USER, "system:serviceaccount:ns:sa")],
            Ok(Some((
                "system:serviceaccount:ns:sa",
                &["system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED],
            ))),
        );
        check(&[(USER, ANONYMOUS)], Ok(Some((ANONYMOUS, &[UNAUTHENTICATED]))));
        check(&[(USER, "bob"), (GROUP, UNAUTHENTICATED)], Ok(Some(("bob", &[UNAUTHENTICATED]))));
        check(&[(USER, "bob"), (USER, "eve")], Ok(Some(("bob", &[AUTHENTICATED]))));
        // The namespace and the name have to be valid, and nothing may follow them.
        for user in ["system:serviceaccount:Ns:sa", "system:serviceaccount:ns:", "system:serviceaccount:ns:sa:x"] {
            check(&[(USER, user)], Ok(Some((user, &[AUTHENTICATED]))));
        }
    }

    #[test]
    fn headers_without_a_user_are_refused() {
        for (headers, expect) in [
            (&[(GROUP, "dev")][..], r#"Name:"", UID:"", Groups:[]string{"dev"}, Extra:map[string][]string(nil)"#),
            (&[(USER, ""), (UID, "1")], r#"Name:"", UID:"1", Groups:[]string(nil), Extra:map[string][]string(nil)"#),
            (
                &[("impersonate-extra-b", "1"), ("impersonate-extra-a%2fb", "2"), ("impersonate-extra-b", "3")],
                r#"Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"a/b":[]string{"2"}, "b":[]string{"1", "3"}}"#,
            ),
        ] {
            let requested = format!("&user.DefaultInfo{{{expect}}}");
            check(headers, Err(ImpersonationError::WithoutUser { requested }));
        }
    }

    #[test]
    fn a_header_that_is_not_utf8_refuses_the_request() {
        let mut headers = HeaderMap::new();
        headers.insert(USER, HeaderValue::from_bytes(b"b\xffb").unwrap());
        assert_eq!(run(&headers), Err(ImpersonationError::Malformed { header: USER.to_owned() }));
    }

    /// Allows the listed questions, in the form `VERB GROUP/RESOURCE/SUBRESOURCE NAMESPACE/NAME`, and records all
    /// questions.
    #[derive(Default)]
    struct Allowed {
        allowed: Vec<&'static str>,
        asked: Mutex<Vec<String>>,
    }

    impl Authorizer for Allowed {
        fn authorize<'a>(
            &'a self,
            user: &'a UserInfo,
            attributes: &'a AuthorizationAttributes<'a>,
        ) -> AuthFuture<'a, Authorization> {
            let AuthorizationAttributes { verb, group, resource, subresource, namespace, name, .. } = *attributes;
            let question = format!("{verb} {group}/{resource}/{subresource} {namespace}/{name}");
            let is_allowed = self.allowed.contains(&&*question);
            let extra: String = user.extra.iter().map(|(key, values)| format!(" {key}={values:?}")).collect();
            self.asked.lock().push(format!("{question}{extra}"));
            let decision = if is_allowed { Decision::Allow } else { Decision::NoOpinion };
            AuthFuture::ready(Authorization { decision, ..Authorization::ALLOW })
        }

        fn rules<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> AuthFuture<'a, RulesReview> {
            AuthFuture::ready(RulesReview::default())
        }
    }

    const LIST_PODS: AuthorizationAttributes<'_> = AuthorizationAttributes {
        verb: "list",
        group: "",
        version: "v1",
        resource: "pods",
        subresource: "",
        namespace: "ns",
        name: "",
        path: "/api/v1/namespaces/ns/pods",
        field_selector: "",
        label_selector: "",
    };

    fn agent() -> UserInfo {
        let on_node = ("authentication.kubernetes.io/node-name".into(), vec!["n1".into()]);
        UserInfo { name: "system:serviceaccount:ns:agent".into(), extra: vec![on_node], ..UserInfo::default() }
    }

    type ModeAndGroups = Result<(ImpersonationMode, Vec<Str>), String>;

    /// Sends a list of pods with these headers as the agent. Returns the mode and the groups, or the error's text.
    fn list_as(
        impersonator: &Impersonator,
        headers: &[(&str, &str)],
        allowed: &[&'static str],
    ) -> (ModeAndGroups, Vec<String>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let authorizer = Allowed { allowed: allowed.to_vec(), asked: Mutex::default() };
        let result = now(impersonator.impersonate(&map, &agent(), &LIST_PODS, &authorizer, &()));
        let result = match result {
            Ok(found) => found.map(|found| (found.mode, found.user.groups)).ok_or_else(String::new),
            Err(ImpersonationError::Forbidden(error)) => Err(error.why),
            Err(error) => Err(format!("{error:?}")),
        };
        (result, authorizer.asked.into_inner())
    }

    #[test]
    fn a_constrained_mode_needs_two_permissions() {
        let nodes = || vec!["system:nodes".into(), AUTHENTICATED.into()];
        let account = || vec!["system:serviceaccounts".into(), "system:serviceaccounts:x".into(), AUTHENTICATED.into()];
        use ImpersonationMode::{ArbitraryNode, AssociatedNode, Legacy, ServiceAccount, UserInfo};
        for (user, on, permission, mode, groups) in [
            (
                "system:node:n1",
                "impersonate-on:associated-node:list /pods/ ns/",
                "impersonate:associated-node authentication.k8s.io/nodes/ /*",
                AssociatedNode,
                nodes(),
            ),
            (
                "system:node:n2",
                "impersonate-on:arbitrary-node:list /pods/ ns/",
                "impersonate:arbitrary-node authentication.k8s.io/nodes/ /n2",
                ArbitraryNode,
                nodes(),
            ),
            (
                "system:serviceaccount:x:y",
                "impersonate-on:serviceaccount:list /pods/ ns/",
                "impersonate:serviceaccount authentication.k8s.io/serviceaccounts/ x/y",
                ServiceAccount,
                account(),
            ),
            (
                "bob",
                "impersonate-on:user-info:list /pods/ ns/",
                "impersonate:user-info authentication.k8s.io/users/ /bob",
                UserInfo,
                vec![AUTHENTICATED.into()],
            ),
            ("bob", "", "impersonate /users/ /bob", Legacy, vec![AUTHENTICATED.into()]),
            // In the legacy mode, the user name of a node is an ordinary user name.
            ("system:node:n1", "", "impersonate /users/ /system:node:n1", Legacy, vec![AUTHENTICATED.into()]),
        ] {
            let headers = [(USER, user)];
            let run = |allowed: &[&'static str]| list_as(&Impersonator::new(true), &headers, allowed).0;
            assert_eq!(run(&[on, permission]), Ok((mode, groups)), "{user}");
            if mode.is_constrained() {
                assert!(run(&[permission]).is_err(), "{user}");
                assert!(list_as(&Impersonator::new(false), &headers, &[on, permission]).0.is_err(), "{user}");
            }
            assert!(run(&[on]).is_err(), "{user}");
        }
    }

    #[test]
    fn a_service_account_acts_as_its_node_without_telling_which() {
        let allowed = ["impersonate-on:associated-node:list /pods/ ns/"];
        let (_, asked) = list_as(&Impersonator::new(true), &[(USER, "system:node:n1")], &allowed);
        let keys = r#" authentication.kubernetes.io/associated-node-keys=["authentication.kubernetes.io/node-name"]"#;
        assert_eq!(asked[0], format!("impersonate-on:associated-node:list /pods/ ns/{keys}"));
        assert_eq!(asked[1], format!("impersonate:associated-node authentication.k8s.io/nodes/ /*{keys}"));
        assert!(asked.iter().skip(2).all(|question| !question.contains("associated")), "{asked:?}");
    }

    #[test]
    fn the_constrained_modes_refuse_some_groups_and_extra_attributes() {
        let allowed = &[
            "impersonate-on:user-info:list /pods/ ns/",
            "impersonate:user-info authentication.k8s.io/users/ /bob",
            "impersonate:user-info authentication.k8s.io/groups/ /*",
            "impersonate:user-info authentication.k8s.io/userextras/* /*",
        ];
        let key = "impersonate-extra-example.com%2fk";
        for (headers, why) in [
            (
                vec![(GROUP, "")],
                Some(
                    r#"groups" in API group "authentication.k8s.io" at the cluster scope: impersonating the empty string group is not allowed"#,
                ),
            ),
            (vec![(GROUP, "system:masters")], Some("impersonating the system:masters group is not allowed")),
            (vec![(GROUP, "a"), (GROUP, "b"), (GROUP, "c")], Some(r#"cannot impersonate:user-info resource "groups""#)),
            // From four groups or extra attributes on, the permission for all of them is enough.
            (vec![(GROUP, "a"), (GROUP, "b"), (GROUP, "c"), (GROUP, "d")], None),
            (vec![(key, "1"), (key, "2"), (key, "3"), (key, "4")], None),
            (vec![(key, "1")], Some(r#"cannot impersonate:user-info resource "userextras/example.com/k""#)),
            (vec![(key, "")], Some("impersonating the empty string value in extra is not allowed")),
            (
                vec![("impersonate-extra-scopes", "1")],
                Some(
                    "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: \"scopes\": must be a domain-prefixed path",
                ),
            ),
        ] {
            let headers: Vec<_> = [(USER, "bob")].into_iter().chain(headers).collect();
            let (result, asked) = list_as(&Impersonator::new(true), &headers, allowed);
            match (why, result) {
                (None, result) => {
                    assert_eq!(result.map(|(mode, _)| mode), Ok(ImpersonationMode::UserInfo), "{asked:?}")
                }
                (Some(why), Err(error)) => assert!(error.contains(why), "{error}"),
                (Some(why), Ok(found)) => panic!("{why}: {found:?}"),
            }
        }
    }

    #[test]
    fn the_mode_that_was_used_last_is_tried_first() {
        let impersonator = Impersonator::new(true);
        let cannot = |error: ModeAndGroups, verb: &str| {
            let error = error.unwrap_err();
            assert!(error.contains(&format!("cannot {verb} ")), "{error}");
        };
        let bob = [(USER, "bob")];
        cannot(list_as(&impersonator, &bob, &[]).0, "impersonate-on:user-info:list");
        assert!(list_as(&impersonator, &bob, &["impersonate /users/ /bob"]).0.is_ok());
        let (refused, asked) = list_as(&impersonator, &bob, &[]);
        cannot(refused, "impersonate");
        assert_eq!(asked.len(), 2, "{asked:?}");
    }
}
