//! The status of a definition, one update after the other (upstream: the controllers `status` and
//! `establish` of apiextensions-apiserver, each of which makes its own update).

use std::sync::Arc;

use pintle_kinds::has_unreadable_bundle;
use pintle_value::Value;
use pintle_value::time::Time;

use crate::conditions::is_current_condition;
use crate::names::accept_names;
use crate::{Condition, is_condition_true, set_condition};

/// The definition with the next update of its status, or `None` if the status is up to date. `others` are the group and
/// the accepted names of the other definitions of the group.
#[must_use]
pub fn next_status(definition: &Value, others: &[Arc<Value>], now: Time) -> Option<Value> {
    let next = || {
        let condition = established_condition(definition)?;
        let mut definition = definition.clone();
        set_condition(&mut definition, &condition, now);
        Some(definition)
    };
    accept_names(definition, others, now).or_else(next)
}

/// The new condition `Established`, `None` if it does not change. A definition whose names were accepted is served even
/// if it is not established.
fn established_condition(definition: &Value) -> Option<Condition> {
    if !is_condition_true(definition, "NamesAccepted") || is_condition_true(definition, "Established") {
        return None;
    }
    let condition = if has_unreadable_bundle(definition) {
        Condition::new("Established", false, "InvalidCABundle", "The conversion webhook CABundle is invalid")
    } else {
        Condition::new("Established", true, "InitialNamesAccepted", "the initial names have been accepted")
    };
    (!is_current_condition(definition, &condition)).then_some(condition)
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    const NOW: Time = Time::from_seconds(1_700_000_000);

    /// Applies all updates. Returns the condition that each of them sets last.
    fn updates(definition: &mut Value, kind: &str) -> Vec<String> {
        let mut found = Vec::new();
        while let Some(next) = next_status(definition, &[], NOW) {
            let conditions = next.items_at(&["status", "conditions"]).iter();
            let texts = conditions
                .filter(|c| c.str_at(&["type"]) == kind)
                .map(|c| ["status", "reason", "message"].map(|key| c.str_at(&[key])).join(" "));
            found.extend(texts);
            *definition = next;
        }
        found
    }

    fn definition(group: &str) -> Value {
        object! {
            "metadata": object! { "name": format!("widgets.{group}") },
            "spec": object! { "group": group, "names": object! { "plural": "widgets", "kind": "Widget" } },
        }
    }

    #[test]
    fn a_definition_is_established_after_its_names_are_accepted() {
        let expect = [
            "False Installing the initial names have been accepted",
            "True InitialNamesAccepted the initial names have been accepted",
        ];
        assert_eq!(updates(&mut definition("example.com"), "Established"), expect);
    }

    #[test]
    fn a_definition_is_not_established_while_its_ca_bundle_is_unreadable() {
        let mut found = definition("example.com");
        let bundle = ["spec", "conversion", "webhook", "clientConfig", "caBundle"];
        found.set_at(&bundle, "bm8gcGVt");
        let expect = [
            "False Installing the initial names have been accepted",
            "False InvalidCABundle The conversion webhook CABundle is invalid",
        ];
        assert_eq!(updates(&mut found, "Established"), expect);
        found.remove_at(&bundle);
        let expect = ["True InitialNamesAccepted the initial names have been accepted"];
        assert_eq!(updates(&mut found, "Established"), expect);
    }
}
