//! Validation that depends on other objects, or on other permissions of the user.

use pintle_value::{Errors, Value};

use super::{BoxFuture, ObjectClient, StrategyContext};

/// The part of a validation that depends on the cluster (upstream: strategies that have a client or an authorizer). It
/// depends on other objects, or on other permissions of the user. Its errors come before the errors of the object.
pub trait ClusterValidation: Send + Sync {
    /// Validates a write after its preparation. This includes writes of the server itself.
    fn validate<'a>(&'a self, write: ValidatedWrite<'a>) -> BoxFuture<'a, Errors>;
}

/// A write for [`ClusterValidation`].
#[derive(Clone, Copy)]
pub struct ValidatedWrite<'a> {
    /// The facts about the request.
    pub context: &'a StrategyContext,
    /// The new object.
    pub object: &'a Value,
    /// The old object of an update.
    pub old: Option<&'a Value>,
    /// Access to the other objects.
    pub client: &'a dyn ObjectClient,
    /// The other permissions of the user.
    pub access: &'a dyn WriteAccess,
}

/// The permissions of a write's user in addition to the write. The server itself may do everything.
pub trait WriteAccess: Send + Sync {
    /// The verb of the request: `create`, `update` or `patch`.
    fn verb(&self) -> &str;

    /// Checks an access to the resource of the write. The error is upstream's message for a forbidden request.
    fn check<'a>(&'a self, access: RequiredAccess<'a>) -> BoxFuture<'a, Result<(), String>>;

    /// Checks an access to a virtual resource.
    fn allows_virtual<'a>(&'a self, access: VirtualAccess<'a>) -> BoxFuture<'a, bool>;
}

/// An access to a virtual resource, which exists only in permissions (`signers`). It is cluster-scoped, and in the
/// group of the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualAccess<'a> {
    /// The verb.
    pub verb: &'a str,
    /// The resource.
    pub resource: &'a str,
    /// The name.
    pub name: &'a str,
}

/// An access to the resource of a write. Verb and subresource need not be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequiredAccess<'a> {
    /// The verb.
    pub verb: &'a str,
    /// The subresource.
    pub subresource: &'a str,
    /// The namespace; empty for all namespaces.
    pub namespace: &'a str,
    /// The name; empty for all names.
    pub name: &'a str,
}

/// The check of a write of a kind that grants permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscalationCheck {
    /// A role: the user holds its rules, or may `escalate` the role.
    Role,
    /// A binding: the user holds the rules of its role, or may `bind` the role.
    Binding,
    /// An admission policy: the user can get all objects of its `paramKind`. Part of the validation.
    ParamKind,
    /// A binding of an admission policy: the user can read the objects of its `paramRef`. Part of the validation.
    ParamRef {
        /// The resource of the policy, in the group of the binding.
        policies: &'static str,
    },
}
