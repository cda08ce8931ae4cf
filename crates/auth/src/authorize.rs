//! May they? The attributes that are asked about, and the authorizers that decide.

use crate::Identity;

/// What someone wants to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// `get`, `list`, `create`, …; for paths that are no resource the lower-case HTTP method.
    pub verb: &'a str,
    /// The group of the resource.
    pub group: &'a str,
    /// The version of the resource.
    pub version: &'a str,
    /// The plural name of the resource, or empty for a path.
    pub resource: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace, or empty.
    pub namespace: &'a str,
    /// The object's name, or empty.
    pub name: &'a str,
    /// The path.
    pub path: &'a str,
}

/// An authorizer's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// They may.
    Allow,
    /// They may not, whatever others say.
    Deny(String),
    /// Nothing to say; someone else may allow it.
    NoOpinion(String),
}

/// One way to decide.
pub trait Authorizer: Send + Sync {
    /// Decides.
    fn authorize(&self, identity: &Identity, attributes: &Attributes<'_>) -> Decision;
}

/// Allows everything to everyone who is known (`--authorization-mode=AlwaysAllow`).
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

impl Authorizer for AllowAll {
    fn authorize(&self, _: &Identity, _: &Attributes<'_>) -> Decision {
        Decision::Allow
    }
}
