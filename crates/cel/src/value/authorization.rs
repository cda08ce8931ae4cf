//! The values of the authorizer library: an authorizer, checks and decisions (upstream:
//! `apiserver/pkg/cel/library/authz.go`).

use std::fmt;
use std::sync::Arc;

use super::{EvalResult, Value};
use crate::types::Type;

pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub(crate) const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
pub(crate) const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
pub(crate) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
pub(crate) const DECISION: &str = "kubernetes.authorization.Decision";

/// Answers the checks of expressions. The caller of an evaluation implements it.
pub trait AccessChecker: Sync {
    /// Decides a check. Blocks until the decision is made.
    fn check(&self, check: &AccessCheck<'_>) -> AccessDecision;
}

/// A check of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessCheck<'c> {
    /// The subject whose access is checked.
    pub subject: &'c AccessSubject,
    /// The target of the access.
    pub target: AccessTarget<'c>,
    /// The verb.
    pub verb: &'c str,
}

/// The subject whose access is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessSubject {
    /// The user who sends the request.
    Requester,
    /// A service account.
    ServiceAccount {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// The target of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessTarget<'c> {
    /// A non-resource path.
    Path(&'c str),
    /// A resource.
    Resource(&'c ResourceTarget),
}

/// A resource of a check. Fields that the expression did not set are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget {
    /// The API group.
    pub group: String,
    /// The plural name of the resource.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The field selector, as in the expression.
    pub field_selector: String,
    /// The label selector, as in the expression.
    pub label_selector: String,
}

/// The decision of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessDecision {
    /// True if the access is allowed.
    pub allowed: bool,
    /// The reason; may be empty.
    pub reason: String,
    /// The error during the check.
    pub error: Option<String>,
}

/// A value of one of the types of the authorizer library.
#[derive(Clone)]
pub struct AuthorizationValue<'a> {
    checker: &'a dyn AccessChecker,
    pub(crate) kind: AuthorizationKind,
}

/// The content of an authorization value.
#[derive(Clone, Debug)]
pub(crate) enum AuthorizationKind {
    Authorizer(AccessSubject),
    PathCheck(AccessSubject, String),
    GroupCheck(AccessSubject, String),
    ResourceCheck(AccessSubject, ResourceTarget),
    Decision(AccessDecision),
}

impl fmt::Debug for AuthorizationValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl<'a> AuthorizationValue<'a> {
    /// `authorizer`: checks the access of the user who sends the request.
    #[must_use]
    pub fn authorizer(checker: &'a dyn AccessChecker) -> Value<'a> {
        Self { checker, kind: AuthorizationKind::Authorizer(AccessSubject::Requester) }.into_value()
    }

    /// `authorizer.requestResource`: checks the access of the same user to the resource of the request.
    #[must_use]
    pub fn resource_check(checker: &'a dyn AccessChecker, target: ResourceTarget) -> Value<'a> {
        Self { checker, kind: AuthorizationKind::ResourceCheck(AccessSubject::Requester, target) }.into_value()
    }

    /// The type of `authorizer`.
    #[must_use]
    pub fn authorizer_type() -> Type {
        Type::object(AUTHORIZER)
    }

    /// The type of `authorizer.requestResource`.
    #[must_use]
    pub fn resource_check_type() -> Type {
        Type::object(RESOURCE_CHECK)
    }

    /// The name of the value's type.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self.kind {
            AuthorizationKind::Authorizer(_) => AUTHORIZER,
            AuthorizationKind::PathCheck(..) => PATH_CHECK,
            AuthorizationKind::GroupCheck(..) => GROUP_CHECK,
            AuthorizationKind::ResourceCheck(..) => RESOURCE_CHECK,
            AuthorizationKind::Decision(_) => DECISION,
        }
    }

    fn into_value(self) -> Value<'a> {
        Value::Authorization(Arc::new(self))
    }

    /// Another value of the same checker.
    pub(crate) fn with(&self, kind: AuthorizationKind) -> EvalResult<Value<'a>> {
        Ok(Self { checker: self.checker, kind }.into_value())
    }

    /// The decision of a check.
    pub(crate) fn decide(
        &self,
        subject: &AccessSubject,
        target: AccessTarget<'_>,
        verb: &str,
    ) -> EvalResult<Value<'a>> {
        self.with(AuthorizationKind::Decision(self.checker.check(&AccessCheck { subject, target, verb })))
    }
}
