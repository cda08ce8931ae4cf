//! The conditions in a definition's status (upstream: apiextensions' `apihelpers`).

use pintle_value::time::Time;
use pintle_value::{Value, object};

/// What a condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The type (`Established`).
    pub kind: &'static str,
    /// True, or false.
    pub status: bool,
    /// The machine-readable reason.
    pub reason: &'static str,
    /// The text.
    pub message: String,
}

impl Condition {
    /// A condition.
    pub fn new(kind: &'static str, status: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, status, reason, message: message.into() }
    }

    fn text(&self) -> &'static str {
        if self.status { "True" } else { "False" }
    }
}

fn of<'v>(definition: &'v Value, kind: &str) -> Option<&'v Value> {
    definition.items_at(&["status", "conditions"]).iter().find(|condition| condition.str_at(&["type"]) == kind)
}

/// True if a definition has a condition and it is true.
#[must_use]
pub fn condition_is_true(definition: &Value, kind: &str) -> bool {
    of(definition, kind).is_some_and(|condition| condition.str_at(&["status"]) == "True")
}

/// True if a definition says just that already.
pub(crate) fn is_said(definition: &Value, condition: &Condition) -> bool {
    of(definition, condition.kind).is_some_and(|found| {
        found.str_at(&["status"]) == condition.text()
            && found.str_at(&["reason"]) == condition.reason
            && found.str_at(&["message"]) == condition.message
    })
}

/// Sets a condition. The time changes when its status does.
pub fn set_condition(definition: &mut Value, condition: &Condition, now: Time) {
    let same_status = of(definition, condition.kind).filter(|found| found.str_at(&["status"]) == condition.text());
    let since = same_status.map_or_else(|| Value::from(now), |found| found["lastTransitionTime"].clone());
    let said = object! {
        "type": condition.kind,
        "status": condition.text(),
        "lastTransitionTime": since,
        "reason": condition.reason,
        "message": condition.message.as_str(),
    };
    let mut conditions = definition.items_at(&["status", "conditions"]).to_vec();
    match conditions.iter_mut().find(|found| found.str_at(&["type"]) == condition.kind) {
        Some(found) => *found = said,
        None => conditions.push(said),
    }
    definition.set_at(&["status", "conditions"], conditions);
}
