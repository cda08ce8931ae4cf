//! The conditions of terminating namespaces (upstream: `namespace/deletion/status_condition_utils.go`).

use std::collections::BTreeMap;

use pintle_registry::GroupVersion;
use pintle_value::time::Time;
use pintle_value::{Value, object};

/// The remaining content of a namespace after an attempt to delete it.
#[derive(Debug, Default)]
pub(super) struct ContentSummary {
    /// How many objects of each resource (`pods.`, `deployments.apps`) remain.
    pub(super) remaining: BTreeMap<String, usize>,
    /// How many remaining objects have each finalizer.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// The errors of deletions.
    pub(super) failures: Vec<String>,
    /// The versions of other API servers that cannot be asked which resources they have.
    pub(super) undiscovered: Vec<GroupVersion>,
    /// True if objects of other API servers remain. This server does not see when they are gone.
    pub(super) has_remote: bool,
}

/// A condition type, and the reason and message of its status `False`.
struct ConditionType {
    name: &'static str,
    reason: &'static str,
    message: &'static str,
}

/// In upstream's order. The second is always `False`.
const CONDITION_TYPES: [ConditionType; 5] = [
    ConditionType {
        name: "NamespaceDeletionDiscoveryFailure",
        reason: "ResourcesDiscovered",
        message: "All resources successfully discovered",
    },
    ConditionType {
        name: "NamespaceDeletionGroupVersionParsingFailure",
        reason: "ParsedGroupVersions",
        message: "All legacy kube types successfully parsed",
    },
    ConditionType {
        name: "NamespaceDeletionContentFailure",
        reason: "ContentDeleted",
        message: "All content successfully deleted, may be waiting on finalization",
    },
    ConditionType {
        name: "NamespaceContentRemaining",
        reason: "ContentRemoved",
        message: "All content successfully removed",
    },
    ConditionType {
        name: "NamespaceFinalizersRemaining",
        reason: "ContentHasNoFinalizers",
        message: "All content-preserving finalizers finished",
    },
];

impl ContentSummary {
    /// True if nothing remains and all deletions succeeded.
    pub(super) fn is_empty(&self) -> bool {
        self.remaining.is_empty() && self.failures.is_empty() && self.undiscovered.is_empty()
    }

    /// True if nothing reports when the rest is gone.
    pub(super) fn needs_retry(&self) -> bool {
        self.has_remote || !self.failures.is_empty() || !self.undiscovered.is_empty()
    }

    /// Adds an object that remains.
    pub(super) fn add(&mut self, resource: &str, finalizers: impl Iterator<Item = String>) {
        *self.remaining.entry(resource.to_owned()).or_default() += 1;
        for finalizer in finalizers {
            *self.finalizers.entry(finalizer).or_default() += 1;
        }
    }

    /// The reason and message of a condition whose status is `True`; `None` if it is `False`.
    fn reason_and_message(&self, condition_type: &str) -> Option<(&'static str, String)> {
        let listed = |counts: &BTreeMap<String, usize>, separator: &str| {
            let mut texts: Vec<String> =
                counts.iter().map(|(name, count)| format!("{name}{separator}{count} resource instances")).collect();
            texts.sort_unstable();
            texts.join(", ")
        };
        match condition_type {
            "NamespaceDeletionDiscoveryFailure" if !self.undiscovered.is_empty() => {
                let failure = |version: &GroupVersion| format!("{version}: stale GroupVersion discovery: {version}");
                let mut failures: Vec<String> = self.undiscovered.iter().map(failure).collect();
                failures.sort_unstable();
                let (count, failures) = (failures.len(), failures.join(", "));
                let message = format!(
                    "Discovery failed for some groups, {count} failing: unable to retrieve the complete list of server \
                     APIs: {failures}"
                );
                Some(("DiscoveryFailed", message))
            }
            "NamespaceDeletionContentFailure" if !self.failures.is_empty() => {
                let mut failures = self.failures.clone();
                failures.sort_unstable();
                let (count, failures) = (failures.len(), failures.join(", "));
                let message = format!("Failed to delete all resource types, {count} remaining: {failures}");
                Some(("ContentDeletionFailed", message))
            }
            "NamespaceContentRemaining" if !self.remaining.is_empty() => {
                let message = format!("Some resources are remaining: {}", listed(&self.remaining, " has "));
                Some(("SomeResourcesRemain", message))
            }
            "NamespaceFinalizersRemaining" if !self.finalizers.is_empty() => {
                let listed = listed(&self.finalizers, " in ");
                let message = format!("Some content in the namespace has finalizers remaining: {listed}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }

    /// A namespace with these conditions. Other conditions stay. The transition time changes when a status does.
    pub(super) fn with_conditions(&self, namespace: &Value, now: Time) -> Value {
        let mut namespace = namespace.clone();
        let mut conditions = namespace.items_at(&["status", "conditions"]).to_vec();
        for condition_type in CONDITION_TYPES {
            let (status, (reason, message)) = match self.reason_and_message(condition_type.name) {
                Some(problem) => ("True", problem),
                None => ("False", (condition_type.reason, condition_type.message.to_owned())),
            };
            let existing = conditions.iter_mut().find(|existing| existing.str_at(&["type"]) == condition_type.name);
            let transition_time = match &existing {
                Some(existing) if existing.str_at(&["status"]) == status => existing["lastTransitionTime"].clone(),
                _ => Value::from(now),
            };
            let condition = object! {
                "type": condition_type.name,
                "status": status,
                "lastTransitionTime": transition_time,
                "reason": reason,
                "message": message,
            };
            match existing {
                Some(existing) => *existing = condition,
                None => conditions.push(condition),
            }
        }
        namespace.set_at(&["status", "conditions"], conditions);
        namespace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Type, status, reason and message of each condition.
    fn texts(namespace: &Value) -> Vec<String> {
        let text = |condition: &Value| {
            ["type", "status", "reason", "message"].map(|name| condition.str_at(&[name]).to_owned()).join("|")
        };
        namespace.items_at(&["status", "conditions"]).iter().map(text).collect()
    }

    #[test]
    fn conditions_report_remaining_content() {
        let at = |seconds| Time { seconds, nanos: 0 };
        let mut summary = ContentSummary::default();
        summary.add("pods.", std::iter::empty());
        summary.add("pods.", ["example.com/a".to_owned(), "b".to_owned()].into_iter());
        summary.add("deployments.apps", ["b".to_owned()].into_iter());
        summary.failures = vec!["two".to_owned(), "one".to_owned()];
        assert!(!summary.is_empty() && summary.needs_retry());
        let namespace = object! { "status": object! { "phase": "Terminating" } };
        let deleting = summary.with_conditions(&namespace, at(100));
        assert_eq!(
            texts(&deleting),
            [
                "NamespaceDeletionDiscoveryFailure|False|ResourcesDiscovered|All resources successfully discovered",
                "NamespaceDeletionGroupVersionParsingFailure|False|ParsedGroupVersions|All legacy kube types successfully parsed",
                "NamespaceDeletionContentFailure|True|ContentDeletionFailed|Failed to delete all resource types, 2 remaining: one, two",
                "NamespaceContentRemaining|True|SomeResourcesRemain|Some resources are remaining: deployments.apps has 1 resource instances, pods. has 2 resource instances",
                "NamespaceFinalizersRemaining|True|SomeFinalizersRemain|Some content in the namespace has finalizers remaining: b in 2 resource instances, example.com/a in 1 resource instances",
            ]
        );
        let undiscovered = ["b", "a"].map(|group| GroupVersion::new(group, "v1")).to_vec();
        let summary = ContentSummary { undiscovered, ..ContentSummary::default() };
        assert!(!summary.is_empty() && summary.needs_retry());
        assert_eq!(
            texts(&summary.with_conditions(&namespace, at(100)))[0],
            "NamespaceDeletionDiscoveryFailure|True|DiscoveryFailed|Discovery failed for some groups, 2 failing: unable to \
             retrieve the complete list of server APIs: a/v1: stale GroupVersion discovery: a/v1, b/v1: stale \
             GroupVersion discovery: b/v1"
        );
        let deleted = ContentSummary::default().with_conditions(&deleting, at(200));
        assert_eq!(
            texts(&deleted)[3..],
            [
                "NamespaceContentRemaining|False|ContentRemoved|All content successfully removed",
                "NamespaceFinalizersRemaining|False|ContentHasNoFinalizers|All content-preserving finalizers finished",
            ]
        );
        let times = |namespace: &Value| -> Vec<String> {
            let conditions = namespace.items_at(&["status", "conditions"]).iter();
            conditions.map(|condition| condition.str_at(&["lastTransitionTime"]).to_owned()).collect()
        };
        let (first, second) = ("1970-01-01T00:01:40Z", "1970-01-01T00:03:20Z");
        assert_eq!(times(&deleted), [first, first, second, second, second]);
        assert_eq!(ContentSummary::default().with_conditions(&deleted, at(300)), deleted);
    }
}
