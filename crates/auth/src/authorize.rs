//! Authorizers: the trait, its attributes and its decisions (upstream: `authorization/authorizer`).

use std::borrow::Cow;

use pintle_value::Str;

use crate::{AuthFuture, UserInfo};

/// The action that a user wants to do (`authorizer.Attributes`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizationAttributes<'a> {
    /// `get`, `list`, `create`, …; for non-resource paths, the lower-case HTTP method.
    pub verb: &'a str,
    /// The group of the resource.
    pub group: &'a str,
    /// The version of the resource.
    pub version: &'a str,
    /// The plural name of the resource, or empty for a non-resource path.
    pub resource: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace, or empty.
    pub namespace: &'a str,
    /// The object's name, or empty.
    pub name: &'a str,
    /// The path.
    pub path: &'a str,
    /// The field selector of a list, watch or deletecollection, as the client wrote it; or empty.
    pub field_selector: &'a str,
    /// The label selector of a list, watch or deletecollection, as the client wrote it; or empty.
    pub label_selector: &'a str,
}

impl AuthorizationAttributes<'_> {
    /// Returns whether the request is about a resource and not about a path. Access reviews may leave out the resource.
    /// As in upstream, only rules for all resources match then.
    #[must_use]
    pub const fn is_resource_request(&self) -> bool {
        !self.resource.is_empty() || self.path.is_empty()
    }
}

/// An authorizer's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed.
    Allow,
    /// The request is denied, whatever other authorizers decide.
    Deny,
    /// This authorizer does not decide; another authorizer may.
    NoOpinion,
}

/// A decision with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    /// The decision.
    pub decision: Decision,
    /// The reason, as access reviews and forbidden requests report it; may be empty.
    pub reason: Cow<'static, str>,
    /// The error during the evaluation, as access reviews report it (`evaluationError`).
    pub error: Option<String>,
}

impl Authorization {
    /// Allows, without a reason.
    pub const ALLOW: Authorization =
        Authorization { decision: Decision::Allow, reason: Cow::Borrowed(""), error: None };

    /// No opinion, without a reason.
    pub const NO_OPINION: Authorization = Authorization { decision: Decision::NoOpinion, ..Self::ALLOW };

    /// True if the request is allowed. An authorizer may allow a request although a part of its evaluation has failed.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.decision == Decision::Allow
    }
}

/// Decides which actions users may do.
pub trait Authorizer: Send + Sync {
    /// Decides whether a user may do an action.
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a AuthorizationAttributes<'a>,
    ) -> AuthFuture<'a, Authorization>;

    /// The rules that allow actions to a user in a namespace, as far as they can be listed.
    fn rules<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> AuthFuture<'a, RulesReview>;
}

/// The rules of a user, as `SelfSubjectRulesReview` lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulesReview {
    /// Rules for resources.
    pub resource_rules: Vec<ResourceRule>,
    /// Rules for non-resource paths.
    pub non_resource_rules: Vec<NonResourceRule>,
    /// True if there are rules that cannot be listed.
    pub incomplete: bool,
    /// The error while listing the rules (`evaluationError`).
    pub error: Option<String>,
}

/// A rule for resources; `*` matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRule {
    /// The verbs.
    pub verbs: Vec<Str>,
    /// The groups.
    pub groups: Vec<Str>,
    /// The resources.
    pub resources: Vec<Str>,
    /// The object names; empty for all.
    pub names: Vec<Str>,
}

/// A rule for non-resource paths; `*` matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NonResourceRule {
    /// The verbs.
    pub verbs: Vec<Str>,
    /// The paths.
    pub paths: Vec<Str>,
}

/// Allows every request (`--authorization-mode=AlwaysAllow`).
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize<'a>(&'a self, _: &'a UserInfo, _: &'a AuthorizationAttributes<'a>) -> AuthFuture<'a, Authorization> {
        AuthFuture::ready(Authorization::ALLOW)
    }

    fn rules<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> AuthFuture<'a, RulesReview> {
        let any = || vec![Str::from("*")];
        let resources = ResourceRule { verbs: any(), groups: any(), resources: any(), names: Vec::new() };
        AuthFuture::ready(RulesReview {
            resource_rules: vec![resources],
            non_resource_rules: vec![NonResourceRule { verbs: any(), paths: any() }],
            incomplete: false,
            error: None,
        })
    }
}
