//! Which requests a webhook or a policy is for: rules, selectors of namespaces and objects, and equivalent resources
//! (upstream: `admission/plugin/webhook/predicates`, `admission/plugin/policy/matching`).

mod cache;
mod index;
#[cfg(test)]
mod index_tests;
mod rules;
#[cfg(test)]
mod tests;

use pintle_registry::{ApiError, EquivalentResource, GroupVersionKind, GroupVersionResource};
use pintle_selector::LabelSelector;
use pintle_value::Value;

pub use self::cache::MatchingCache;
use self::cache::RequestLabels;
pub(crate) use self::index::{MatcherIndex, Matching, MatchingList, sort};
use self::rules::{ResourceNames, ResourceRule};
use crate::AdmissionAttributes;

/// The kinds of `admissionregistration.k8s.io` that no webhook sees, so that a broken configuration can be repaired.
const EXEMPT_KINDS: [&str; 6] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

/// True if the request is for a configuration of admission, which webhooks do not see (upstream:
/// `IsExemptAdmissionConfigurationResource`).
#[must_use]
pub fn is_exempt(attributes: &AdmissionAttributes<'_>) -> bool {
    let resource = attributes.resource;
    resource.group == "admissionregistration.k8s.io" && EXEMPT_KINDS.contains(&&*resource.kind)
}

/// The resources of reviews of authentication and authorization, by group. They are needed to answer any request
/// (upstream: `kubeapiserver/admission/exclusion`).
const REVIEWS: [(&str, &[&str]); 2] = [
    ("authentication.k8s.io", &["selfsubjectreviews", "tokenreviews"]),
    (
        "authorization.k8s.io",
        &["localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"],
    ),
];

/// True for the resources of reviews, which policies do not see.
pub(crate) fn is_review(group: &str, plural: &str) -> bool {
    REVIEWS.iter().any(|(of_reviews, plurals)| group == *of_reviews && plurals.contains(&plural))
}

/// The resource at which a webhook or a policy sees a request that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchedResource<'a> {
    /// The resource that is requested.
    Requested,
    /// Another resource that serves the same objects.
    Equivalent(&'a EquivalentResource),
}

impl MatchedResource<'_> {
    /// The resource, without the subresource.
    #[must_use]
    pub fn resource(&self, attributes: &AdmissionAttributes<'_>) -> GroupVersionResource {
        match self {
            Self::Requested => attributes.resource.gvr(),
            Self::Equivalent(equivalent) => equivalent.resource.clone(),
        }
    }

    /// The kind of the object.
    #[must_use]
    pub fn kind(&self, attributes: &AdmissionAttributes<'_>) -> GroupVersionKind {
        match self {
            Self::Requested => attributes.kind(),
            Self::Equivalent(equivalent) => equivalent.kind.clone(),
        }
    }
}

/// How rules apply to a resource that they do not name but that serves the same objects as a named resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchPolicy {
    /// Such rules do not match.
    Exact,
    /// A request is converted to a resource that a rule names.
    Equivalent,
}

/// A selector that may be malformed. A malformed selector is an error of each request that it decides about.
type Selector = Result<LabelSelector, String>;

/// Which requests a webhook, a policy or a binding of a policy is for. Built once from the stored object.
#[derive(Clone, Debug)]
pub struct RequestMatcher {
    /// Without rules, a webhook matches nothing, and a policy everything.
    rules: Option<Vec<ResourceRule>>,
    /// Requests that do not match, although a rule matches them.
    excluded: Vec<ResourceRule>,
    policy: MatchPolicy,
    namespaces: Selector,
    objects: Selector,
}

impl RequestMatcher {
    /// The requests of a webhook (`MutatingWebhook`, `ValidatingWebhook`).
    #[must_use]
    pub fn of_webhook(webhook: &Value) -> Self {
        Self { rules: Some(rules(webhook, "rules")), excluded: Vec::new(), ..Self::of_selectors(webhook) }
    }

    /// The requests of a policy or a binding (`MatchResources`).
    #[must_use]
    pub fn of_match_resources(resources: &Value) -> Self {
        let included = rules(resources, "resourceRules");
        let included = (!included.is_empty()).then_some(included);
        Self { rules: included, excluded: rules(resources, "excludeResourceRules"), ..Self::of_selectors(resources) }
    }

    /// The fields that the matchers of webhooks and policies share.
    fn of_selectors(value: &Value) -> Self {
        let selector = |field: &str| {
            let selector = value.get(field).unwrap_or(&Value::Null);
            LabelSelector::from_label_selector(selector).map_err(|error| error.to_string())
        };
        let is_equivalent = value.str_at(&["matchPolicy"]) == "Equivalent";
        Self {
            rules: None,
            excluded: Vec::new(),
            policy: if is_equivalent { MatchPolicy::Equivalent } else { MatchPolicy::Exact },
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    /// True if the matcher also matches requests for resources that are equivalent to the resources of its rules.
    fn finds_equivalents(&self) -> bool {
        self.policy == MatchPolicy::Equivalent
    }

    /// True if a rule matches a request. Selectors may still exclude it.
    #[must_use]
    pub fn has_rule_for(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.find_by_rules(attributes).is_some()
    }

    /// The resource at which a request matches, if it does. `object` is the new object, null for deletes.
    ///
    /// # Errors
    /// The namespace does not exist, although a selector selects namespaces.
    pub fn find<'m>(
        &self,
        attributes: &'m AdmissionAttributes<'_>,
        object: &Value,
    ) -> Result<Option<MatchedResource<'m>>, ApiError> {
        // Upstream looks at the selectors first, but reports their errors only if a rule matches.
        let Some(matched) = self.find_by_rules(attributes) else { return Ok(None) };
        let in_namespace = self.matches_namespace(attributes, object);
        if matches!(in_namespace, Ok(false)) {
            return Ok(None);
        }
        let is_selected = self.matches_object(attributes, object);
        if matches!(is_selected, Ok(false)) {
            return Ok(None);
        }
        in_namespace?;
        is_selected?;
        Ok(Some(matched))
    }

    fn find_by_rules<'m>(&self, attributes: &'m AdmissionAttributes<'_>) -> Option<MatchedResource<'m>> {
        if self.find_rule(&self.excluded, attributes).is_some() {
            return None;
        }
        match &self.rules {
            None => Some(MatchedResource::Requested),
            Some(rules) => self.find_rule(rules, attributes),
        }
    }

    /// The resource at which a rule matches: the requested one if any rule names it, else the first that a rule names.
    fn find_rule<'m>(
        &self,
        rules: &[ResourceRule],
        attributes: &'m AdmissionAttributes<'_>,
    ) -> Option<MatchedResource<'m>> {
        let requested = ResourceNames::of(attributes.resource);
        if rules.iter().any(|rule| rule.matches(attributes, requested)) {
            return Some(MatchedResource::Requested);
        }
        if self.policy == MatchPolicy::Exact || !rules.iter().any(|rule| rule.matches_request(attributes)) {
            return None;
        }
        let equivalents = attributes.matching.equivalents(attributes);
        let matched = rules.iter().find_map(|rule| {
            equivalents.iter().find(|other| rule.matches(attributes, ResourceNames::of_equivalent(other)))
        });
        matched.map(MatchedResource::Equivalent)
    }

    fn matches_namespace(&self, attributes: &AdmissionAttributes<'_>, object: &Value) -> Result<bool, ApiError> {
        // Cluster-scoped objects cannot be exempted by a selector, except namespaces.
        if attributes.namespace.is_empty() && attributes.resource.plural != "namespaces" {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(|error| ApiError::Internal(error.clone()))?;
        if selector.is_everything() {
            return Ok(true);
        }
        Ok(match attributes.matching.namespace_labels(attributes)? {
            RequestLabels::OfObject => selector.matches_object(object),
            RequestLabels::Stored(labels) => selector.matches(|key| labels.get(key)),
        })
    }

    fn matches_object(&self, attributes: &AdmissionAttributes<'_>, object: &Value) -> Result<bool, ApiError> {
        let selector = self.objects.as_ref().map_err(|error| ApiError::Internal(error.clone()))?;
        let matches = |object: &Value| !object.is_null() && selector.matches_object(object);
        Ok(selector.is_everything() || matches(object) || attributes.old.is_some_and(matches))
    }
}

fn rules(value: &Value, field: &str) -> Vec<ResourceRule> {
    value.items_at(&[field]).iter().map(ResourceRule::parse).collect()
}
