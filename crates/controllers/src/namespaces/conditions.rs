//! What a namespace that goes says of itself (upstream: `namespace/deletion/status_condition_utils.go`).

use std::collections::BTreeMap;

use pintle_value::time::Time;
use pintle_value::{Value, object};

/// What one look at the content of a namespace has found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// How many objects remain of each resource, as `pods.` or `deployments.apps`.
    pub(super) remaining: BTreeMap<String, usize>,
    /// In how many objects each finalizer remains.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// Why objects could not be deleted.
    pub(super) failures: Vec<String>,
}

/// A condition: its type, and the reason and message where there is nothing to say.
struct Kind {
    name: &'static str,
    reason: &'static str,
    message: &'static str,
}

/// In upstream's order. Nothing can go wrong with the first two here: all kinds are known.
const KINDS: [Kind; 5] = [
    Kind {
        name: "NamespaceDeletionDiscoveryFailure",
        reason: "ResourcesDiscovered",
        message: "All resources successfully discovered",
    },
    Kind {
        name: "NamespaceDeletionGroupVersionParsingFailure",
        reason: "ParsedGroupVersions",
        message: "All legacy kube types successfully parsed",
    },
    Kind {
        name: "NamespaceDeletionContentFailure",
        reason: "ContentDeleted",
        message: "All content successfully deleted, may be waiting on finalization",
    },
    Kind { name: "NamespaceContentRemaining", reason: "ContentRemoved", message: "All content successfully removed" },
    Kind {
        name: "NamespaceFinalizersRemaining",
        reason: "ContentHasNoFinalizers",
        message: "All content-preserving finalizers finished",
    },
];

impl Findings {
    /// True if nothing is left, and nothing went wrong.
    pub(super) fn are_empty(&self) -> bool {
        self.remaining.is_empty() && self.failures.is_empty()
    }

    /// Notes an object that remains.
    pub(super) fn note(&mut self, resource: &str, finalizers: impl Iterator<Item = String>) {
        *self.remaining.entry(resource.to_owned()).or_default() += 1;
        for finalizer in finalizers {
            *self.finalizers.entry(finalizer).or_default() += 1;
        }
    }

    /// Reason and message of a condition that there is something to say of.
    fn of(&self, kind: &str) -> Option<(&'static str, String)> {
        let listed = |counts: &BTreeMap<String, usize>, between: &str| {
            let mut texts: Vec<String> =
                counts.iter().map(|(what, count)| format!("{what}{between}{count} resource instances")).collect();
            texts.sort_unstable();
            texts.join(", ")
        };
        match kind {
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

    /// The namespace as it says so. Others' conditions stay; times change where a status does.
    pub(super) fn said(&self, namespace: &Value, now: Time) -> Value {
        let mut namespace = namespace.clone();
        let mut conditions = namespace.items_at(&["status", "conditions"]).to_vec();
        for kind in KINDS {
            let (status, (reason, message)) = match self.of(kind.name) {
                Some(said) => ("True", said),
                None => ("False", (kind.reason, kind.message.to_owned())),
            };
            let known = conditions.iter_mut().find(|known| known.str_at(&["type"]) == kind.name);
            let since = match &known {
                Some(known) if known.str_at(&["status"]) == status => known["lastTransitionTime"].clone(),
                _ => Value::from(now),
            };
            let condition = object! {
                "type": kind.name,
                "status": status,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            };
            match known {
                Some(known) => *known = condition,
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
    fn conditions_say_what_remains() {
        let at = |seconds| Time { seconds, nanos: 0 };
        let mut findings = Findings::default();
        findings.note("pods.", std::iter::empty());
        findings.note("pods.", ["example.com/a".to_owned(), "b".to_owned()].into_iter());
        findings.note("deployments.apps", ["b".to_owned()].into_iter());
        findings.failures = vec!["two".to_owned(), "one".to_owned()];
        let namespace = object! { "status": object! { "phase": "Terminating" } };
        let said = findings.said(&namespace, at(100));
        assert_eq!(
            texts(&said),
            [
                "NamespaceDeletionDiscoveryFailure|False|ResourcesDiscovered|All resources successfully discovered",
                "NamespaceDeletionGroupVersionParsingFailure|False|ParsedGroupVersions|All legacy kube types successfully parsed",
                "NamespaceDeletionContentFailure|True|ContentDeletionFailed|Failed to delete all resource types, 2 remaining: one, two",
                "NamespaceContentRemaining|True|SomeResourcesRemain|Some resources are remaining: deployments.apps has 1 resource instances, pods. has 2 resource instances",
                "NamespaceFinalizersRemaining|True|SomeFinalizersRemain|Some content in the namespace has finalizers remaining: b in 2 resource instances, example.com/a in 1 resource instances",
            ]
        );
        let then = Findings::default().said(&said, at(200));
        assert_eq!(
            texts(&then)[3..],
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
        assert_eq!(times(&then), [first, first, second, second, second]);
        assert_eq!(Findings::default().said(&then, at(300)), then);
    }
}
