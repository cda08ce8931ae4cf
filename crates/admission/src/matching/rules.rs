//! Rules: operations, resources with wildcards, scopes and names (upstream: `webhook/predicates/rules`).

use pintle_registry::{EquivalentResource, Resource};
use pintle_value::{Str, Value};

use crate::{AdmissionAttributes, AdmissionOperation};

/// The names of a resource that rules are compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResourceNames<'a> {
    pub(super) group: &'a str,
    version: &'a str,
    pub(super) plural: &'a str,
}

impl<'a> ResourceNames<'a> {
    pub(super) fn of(resource: &'a Resource) -> Self {
        Self { group: &resource.group, version: &resource.version, plural: &resource.plural }
    }

    pub(super) fn of_equivalent(other: &'a EquivalentResource) -> Self {
        let resource = &other.resource;
        Self { group: &resource.group, version: &resource.version, plural: &resource.resource }
    }

    /// True if the resources differ in their version only.
    pub(super) fn has_names_of(&self, other: &Self) -> bool {
        self.group == other.group && self.plural == other.plural
    }
}

/// A list of names, or the wildcard.
#[derive(Clone, Debug)]
enum Names {
    Any,
    Of(Vec<Str>),
}

impl Names {
    fn parse(value: &Value, field: &str) -> Self {
        let names: Vec<Str> = texts(value, field).map(Str::from).collect();
        if names.iter().any(|name| name == "*") { Self::Any } else { Self::Of(names) }
    }

    fn contains(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Of(names) => names.iter().any(|own| own == name),
        }
    }
}

/// A resource with its subresource (`pods/status`). `None` is the wildcard.
#[derive(Clone, Debug)]
pub(super) struct ResourcePattern {
    pub(super) plural: Option<Str>,
    pub(super) subresource: Option<Str>,
}

/// The groups and resources in a rule, for one of its operations.
pub(super) struct NamedResources<'a> {
    pub(super) operation: u8,
    /// `None` is the wildcard.
    pub(super) groups: Option<&'a [Str]>,
    pub(super) resources: &'a [ResourcePattern],
}

impl ResourcePattern {
    fn parse(text: &str) -> Self {
        let (plural, subresource) = text.split_once('/').unwrap_or((text, ""));
        let name = |text: &str| (text != "*").then(|| Str::from(text));
        Self { plural: name(plural), subresource: name(subresource) }
    }

    fn matches_subresource(&self, subresource: &str) -> bool {
        self.subresource.as_ref().is_none_or(|own| own == subresource)
    }

    fn matches(&self, plural: &str, subresource: &str) -> bool {
        self.plural.as_ref().is_none_or(|own| own == plural) && self.matches_subresource(subresource)
    }
}

/// The scope that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleScope {
    All,
    Namespaced,
    Cluster,
    /// A scope that does not exist.
    Unknown,
}

/// A rule of a webhook (`RuleWithOperations`) or of a policy (`NamedRuleWithOperations`).
#[derive(Clone, Debug)]
pub(super) struct ResourceRule {
    /// Operations as a set of bits.
    operations: u8,
    groups: Names,
    versions: Names,
    resources: Vec<ResourcePattern>,
    scope: RuleScope,
    /// The names of objects. An empty list stands for all names.
    names: Vec<Str>,
}

const OPERATIONS: [AdmissionOperation; 4] =
    [AdmissionOperation::Create, AdmissionOperation::Update, AdmissionOperation::Delete, AdmissionOperation::Connect];

fn bit(operation: AdmissionOperation) -> u8 {
    1 << (operation as u8)
}

fn texts<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    value.items_at(&[field]).iter().filter_map(Value::as_str)
}

impl ResourceRule {
    pub(super) fn parse(rule: &Value) -> Self {
        let listed = |operation: &AdmissionOperation| {
            texts(rule, "operations").any(|text| text == "*" || text == operation.text())
        };
        Self {
            operations: OPERATIONS.into_iter().filter(listed).fold(0, |set, operation| set | bit(operation)),
            groups: Names::parse(rule, "apiGroups"),
            versions: Names::parse(rule, "apiVersions"),
            resources: texts(rule, "resources").map(ResourcePattern::parse).collect(),
            scope: match rule.str_at(&["scope"]) {
                "" | "*" => RuleScope::All,
                "Namespaced" => RuleScope::Namespaced,
                "Cluster" => RuleScope::Cluster,
                _ => RuleScope::Unknown,
            },
            names: texts(rule, "resourceNames").map(Str::from).collect(),
        }
    }

    /// The groups and resources in the rule, for each of its operations.
    pub(super) fn named(&self) -> impl Iterator<Item = NamedResources<'_>> {
        let groups = match &self.groups {
            Names::Any => None,
            Names::Of(groups) => Some(&**groups),
        };
        let operations = OPERATIONS.into_iter().filter(|operation| self.operations & bit(*operation) != 0);
        operations.map(move |operation| NamedResources {
            operation: operation as u8,
            groups,
            resources: &self.resources,
        })
    }

    /// True if the rule matches a request, taken as a request for this resource.
    pub(super) fn matches(&self, attributes: &AdmissionAttributes<'_>, resource: ResourceNames<'_>) -> bool {
        self.matches_request(attributes)
            && self.groups.contains(resource.group)
            && self.versions.contains(resource.version)
            && self.resources.iter().any(|own| own.matches(resource.plural, attributes.subresource))
            && self.matches_scope(attributes, resource)
    }

    /// True if the rule matches the properties of a request that do not depend on the version of the resource.
    pub(super) fn matches_request(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.operations & bit(attributes.operation) != 0
            && self.resources.iter().any(|own| own.matches_subresource(attributes.subresource))
            && (self.names.is_empty() || self.names.iter().any(|name| name == attributes.name))
    }

    /// Namespaces are cluster-scoped, although a request for one has a namespace.
    fn matches_scope(&self, attributes: &AdmissionAttributes<'_>, resource: ResourceNames<'_>) -> bool {
        let is_namespace = resource.plural == "namespaces" && resource.group.is_empty() && resource.version == "v1";
        let is_cluster_scoped = is_namespace || attributes.namespace.is_empty();
        match self.scope {
            RuleScope::All => true,
            RuleScope::Namespaced => !is_cluster_scoped,
            RuleScope::Cluster => is_cluster_scoped,
            RuleScope::Unknown => false,
        }
    }
}
