//! Which states the responders of an eviction may have: one is active at a time, in the order of priorities.

use std::cmp::{Ordering, Reverse};

use pintle_value::Value;

pub(super) const ACTIVE: &str = "Active";
pub(super) const COMPLETED: &str = "Completed";
const INACTIVE: &str = "Inactive";
const CANCELED: &str = "Canceled";
const INTERRUPTED: &str = "Interrupted";

/// The states that a responder may have, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AllowedStates {
    pub(super) states: Vec<String>,
    pub(super) reason: &'static str,
}

impl AllowedStates {
    fn new(states: &[&str], reason: &'static str) -> Self {
        Self { states: states.iter().map(|state| (*state).to_owned()).collect(), reason }
    }
}

/// Whether a responder with this state has ended.
fn has_ended(state: &str) -> bool {
    [CANCELED, COMPLETED, INTERRUPTED].contains(&state)
}

/// The name of a responder.
pub(super) fn name(responder: &Value) -> &str {
    responder.str_at(&["name"])
}

/// The item of a list with a name.
pub(super) fn find<'v>(list: &'v [Value], wanted: &str) -> Option<&'v Value> {
    list.iter().find(|item| name(item) == wanted)
}

/// The order of responders: the highest priority first, then by domains from their last label on, then by keys.
fn order(one: &Value, other: &Value) -> Ordering {
    let priority = |responder: &Value| Reverse(responder.int_at(&["priority"]));
    let parts = |responder| {
        let (domain, key) = name(responder).split_once('/').unwrap_or((name(responder), ""));
        (domain.rsplit('.').collect::<Vec<_>>(), key)
    };
    priority(one).cmp(&priority(other)).then_with(|| parts(one).cmp(&parts(other)))
}

/// The states that each responder of a list may have, given the old list and whether the eviction has ended.
pub(super) fn allowed_states(responders: &[Value], old: &[Value], is_final: bool) -> Vec<AllowedStates> {
    let mut sorted: Vec<usize> = (0..responders.len()).collect();
    sorted.sort_by(|one, other| order(&responders[*one], &responders[*other]));
    let old_state =
        |index: usize| find(old, name(&responders[index])).map_or(INACTIVE, |found| found.str_at(&["state"]));
    let last_active = sorted.iter().position(|index| old_state(*index) == ACTIVE);
    let next = match last_active {
        Some(position) => has_ended(responders[sorted[position]].str_at(&["state"])).then_some(position + 1),
        None => sorted.iter().position(|index| !has_ended(old_state(*index))),
    };
    let mut allowed = vec![AllowedStates::new(&[], ""); responders.len()];
    for (position, index) in sorted.iter().enumerate() {
        let is_before = last_active.is_some_and(|last| position < last);
        let is_ended = last_active.is_none() && has_ended(old_state(*index));
        allowed[*index] = if is_before || is_ended {
            AllowedStates::new(&[old_state(*index)], "final state is immutable")
        } else if last_active == Some(position) && is_final {
            AllowedStates::new(&[CANCELED, COMPLETED, INTERRUPTED], "the eviction request has finished processing")
        } else if last_active == Some(position) {
            let states = [ACTIVE, CANCELED, COMPLETED, INTERRUPTED];
            AllowedStates::new(&states, "this responder must reach a final state")
        } else if next == Some(position) && is_final {
            AllowedStates::new(&[INACTIVE], "the eviction request has finished processing")
        } else if next == Some(position) {
            AllowedStates::new(&[ACTIVE], "this responder is next in line")
        } else {
            AllowedStates::new(&[INACTIVE], "the previously active has not finished processing")
        };
    }
    allowed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    /// Responders as `NAME PRIORITY STATE`, separated by commas.
    fn list(text: &str) -> Vec<Value> {
        let item = |text: &str| {
            let words: Vec<&str> = text.split_whitespace().collect();
            let [name, priority, state] = words[..] else { panic!("three words") };
            object(&format!(r#"{{"name":"{name}","priority":{priority},"state":"{state}"}}"#))
        };
        text.split(',').filter(|text| !text.trim().is_empty()).map(item).collect()
    }

    #[track_caller]
    fn check(new: &str, old: &str, is_final: bool, expect: &[&str]) {
        let found = allowed_states(&list(new), &list(old), is_final);
        let found: Vec<String> = found.iter().map(|allowed| allowed.states.join("|")).collect();
        assert_eq!(found, expect, "{new}");
    }

    #[test]
    fn one_responder_is_active_at_a_time() {
        let any = "Active|Canceled|Completed|Interrupted";
        check("a.b/c 1 Active, d.e/f 2 Inactive", "", false, &["Inactive", "Active"]);
        check("a 2 Active, b 1 Inactive", "a 2 Active, b 1 Inactive", false, &[any, "Inactive"]);
        check("a 2 Completed, b 1 Active", "a 2 Active, b 1 Inactive", false, &[any, "Active"]);
        check("a 2 Completed, b 1 Active", "a 2 Completed, b 1 Active", false, &["Completed", any]);
        check(
            "a 2 Completed, b 1 Inactive",
            "a 2 Active, b 1 Inactive",
            true,
            &["Canceled|Completed|Interrupted", "Inactive"],
        );
        check("a 2 Canceled, b 1 Canceled", "a 2 Canceled, b 1 Interrupted", true, &["Canceled", "Interrupted"]);
    }

    #[test]
    fn equal_priorities_are_ordered_by_domain() {
        let check = |names: &str, first: usize| {
            let responders: Vec<String> = names.split(' ').map(|name| format!("{name} 5 Inactive")).collect();
            let allowed = allowed_states(&list(&responders.join(",")), &[], false);
            assert_eq!(allowed.iter().position(|allowed| allowed.states == [ACTIVE]), Some(first), "{names}");
        };
        check("z.a.com/k a.b.com/k", 0);
        check("a.com/z com/z", 1);
        check("a.com/z a.com/y", 1);
    }
}
