//! May they? The attributes that are asked about, and the authorizers that decide.

use pintle_value::Str;

use crate::UserInfo;

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
    fn authorize(&self, user: &UserInfo, attributes: &Attributes<'_>) -> Decision;

    /// What someone may do in a namespace, as far as it can be listed.
    fn rules(&self, user: &UserInfo, namespace: &str) -> Rules;
}

/// What someone may do, as `SelfSubjectRulesReview` lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// To resources.
    pub resources: Vec<ResourceRule>,
    /// To paths that are no resources.
    pub paths: Vec<PathRule>,
    /// True if there is more that cannot be listed.
    pub incomplete: bool,
}

/// A rule about resources; `*` is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRule {
    /// The verbs.
    pub verbs: Vec<Str>,
    /// The groups.
    pub groups: Vec<Str>,
    /// The resources.
    pub resources: Vec<Str>,
    /// The names; empty for all.
    pub names: Vec<Str>,
}

/// A rule about paths; `*` is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathRule {
    /// The verbs.
    pub verbs: Vec<Str>,
    /// The paths.
    pub paths: Vec<Str>,
}

/// Allows everything to everyone who is known (`--authorization-mode=AlwaysAllow`).
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize(&self, _: &UserInfo, _: &Attributes<'_>) -> Decision {
        Decision::Allow
    }

    fn rules(&self, _: &UserInfo, _: &str) -> Rules {
        let any = || vec![Str::from("*")];
        let resources = ResourceRule { verbs: any(), groups: any(), resources: any(), names: Vec::new() };
        Rules { resources: vec![resources], paths: vec![PathRule { verbs: any(), paths: any() }], incomplete: false }
    }
}
