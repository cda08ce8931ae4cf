//! The conditions in the status of a CRD (upstream: apiextensions' `apihelpers`).

use pintle_value::time::Time;
use pintle_value::{Value, object};

/// A condition of a CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The type (`Established`).
    pub kind: &'static str,
    /// The status: true or false.
    pub status: bool,
    /// The machine-readable reason.
    pub reason: &'static str,
    /// The human-readable message.
    pub message: String,
}

impl Condition {
    /// Creates a condition.
    pub fn new(kind: &'static str, status: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, status, reason, message: message.into() }
    }

    fn text(&self) -> &'static str {
        if self.status { "True" } else { "False" }
    }
}

fn find_condition<'v>(crd: &'v Value, kind: &str) -> Option<&'v Value> {
    crd.items_at(&["status", "conditions"]).iter().find(|condition| condition.str_at(&["type"]) == kind)
}

/// True if the CRD has the condition with status `True`.
#[must_use]
pub fn is_condition_true(crd: &Value, kind: &str) -> bool {
    find_condition(crd, kind).is_some_and(|condition| condition.str_at(&["status"]) == "True")
}

/// True if the CRD has the condition with any status.
pub(crate) fn has_condition(crd: &Value, kind: &str) -> bool {
    find_condition(crd, kind).is_some()
}

/// True if the CRD already has this condition with the same status, reason and message.
pub(crate) fn is_current_condition(crd: &Value, condition: &Condition) -> bool {
    find_condition(crd, condition.kind).is_some_and(|found| {
        found.str_at(&["status"]) == condition.text()
            && found.str_at(&["reason"]) == condition.reason
            && found.str_at(&["message"]) == condition.message
    })
}

/// Sets a condition. `lastTransitionTime` changes only if the status does.
pub fn set_condition(crd: &mut Value, condition: &Condition, now: Time) {
    let same_status = find_condition(crd, condition.kind).filter(|found| found.str_at(&["status"]) == condition.text());
    let since = same_status.map_or_else(|| Value::from(now), |found| found["lastTransitionTime"].clone());
    let condition_value = object! {
        "type": condition.kind,
        "status": condition.text(),
        "lastTransitionTime": since,
        "reason": condition.reason,
        "message": condition.message.as_str(),
    };
    let mut conditions = crd.items_at(&["status", "conditions"]).to_vec();
    match conditions.iter_mut().find(|found| found.str_at(&["type"]) == condition.kind) {
        Some(found) => *found = condition_value,
        None => conditions.push(condition_value),
    }
    crd.set_at(&["status", "conditions"], conditions);
}
