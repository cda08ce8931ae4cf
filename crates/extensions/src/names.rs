//! Name acceptance: a CRD gets the names that no other CRD of its group uses (upstream:
//! `controller/status/naming_controller.go`).

use std::collections::HashSet;
use std::sync::Arc;

use pintle_value::time::Time;
use pintle_value::{Value, print};

use crate::conditions::{has_condition, is_current_condition};
use crate::{Condition, is_condition_true, set_condition};

const REQUESTED_NAMES: [&str; 2] = ["spec", "names"];
const ACCEPTED_NAMES: [&str; 2] = ["status", "acceptedNames"];

/// The accepted names of the CRDs of a group.
struct NamesInUse<'v> {
    resources: HashSet<&'v str>,
    kinds: HashSet<&'v str>,
}

impl<'v> NamesInUse<'v> {
    fn of(group: &str, crds: &'v [Arc<Value>]) -> Self {
        let mut in_use = Self { resources: HashSet::new(), kinds: HashSet::new() };
        for crd in crds.iter().filter(|crd| crd.str_at(&["spec", "group"]) == group) {
            let Some(names) = crd.at(&ACCEPTED_NAMES) else { continue };
            in_use.resources.extend(["plural", "singular"].map(|key| names.str_at(&[key])));
            in_use.resources.extend(short_names(names));
            in_use.kinds.extend(["kind", "listKind"].map(|key| names.str_at(&[key])));
        }
        in_use
    }

    /// Returns the conflict of a name, or of all short names. `accepted` are the names that the CRD already has.
    fn conflict(&self, key: &str, requested: &Value, accepted: &Value) -> Option<(&'static str, String)> {
        let one = |in_use: &HashSet<&str>| {
            let wanted = requested.str_at(&[key]);
            (wanted != accepted.str_at(&[key]) && in_use.contains(wanted)).then(|| in_use_message(wanted))
        };
        match key {
            "plural" => Some(("PluralConflict", one(&self.resources)?)),
            "singular" => Some(("SingularConflict", one(&self.resources)?)),
            "kind" => Some(("KindConflict", one(&self.kinds)?)),
            "listKind" => Some(("ListKindConflict", one(&self.kinds)?)),
            _ => {
                let own: HashSet<&str> = short_names(accepted).collect();
                let lost = short_names(requested).filter(|name| !own.contains(*name) && self.resources.contains(name));
                let lost: Vec<String> = lost.map(in_use_message).collect();
                let message = match lost.as_slice() {
                    [] => return None,
                    [only] => only.clone(),
                    several => format!("[{}]", several.join(", ")),
                };
                Some(("ShortNamesConflict", message))
            }
        }
    }
}

fn short_names(names: &Value) -> impl Iterator<Item = &str> {
    names.items_at(&["shortNames"]).iter().filter_map(Value::as_str)
}

fn in_use_message(name: &str) -> String {
    format!("{} is already in use", print::quote(name))
}

/// Accepts the requested names of a CRD unless another item of `definitions` uses them. Returns the CRD with its new
/// status, or `None` if the status does not change.
pub(crate) fn accept_names(crd: &Value, crds: &[Arc<Value>], now: Time) -> Option<Value> {
    let requested = crd.at(&REQUESTED_NAMES)?;
    let none = Value::object();
    let accepted = crd.at(&ACCEPTED_NAMES).unwrap_or(&none);
    if pintle_value::same(Some(requested), Some(accepted)) {
        return None;
    }
    let in_use = NamesInUse::of(crd.str_at(&["spec", "group"]), crds);
    let mut names = accepted.clone();
    let mut names_accepted = Condition::new("NamesAccepted", true, "NoConflicts", "no conflicts found");
    for key in ["plural", "singular", "shortNames", "kind", "listKind", "categories"] {
        match in_use.conflict(key, requested, accepted).filter(|_| key != "categories") {
            // The condition reports the last conflict.
            Some((reason, message)) => names_accepted = Condition::new("NamesAccepted", false, reason, message),
            None => match requested.get(key) {
                Some(name) => names.set(key, name.clone()),
                None => drop(names.remove(key)),
            },
        }
    }
    if names == *accepted && is_current_condition(crd, &names_accepted) {
        return None;
    }
    let mut crd = crd.clone();
    crd.set_at(&ACCEPTED_NAMES, names);
    set_condition(&mut crd, &names_accepted, now);
    let installing = Condition::new("Established", false, "Installing", "the initial names have been accepted");
    let refused = Condition::new("Established", false, "NotAccepted", "not all names are accepted");
    if names_accepted.status && !is_condition_true(&crd, "Established") {
        set_condition(&mut crd, &installing, now);
    } else if !has_condition(&crd, "Established") {
        set_condition(&mut crd, &refused, now);
    }
    Some(crd)
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    const NOW: Time = Time::from_seconds(1_700_000_000);

    fn crd(plural: &str, kind: &str, short: &str) -> Value {
        object! {
            "metadata": object! { "name": format!("{plural}.example.com") },
            "spec": object! {
                "group": "example.com",
                "names": object! { "plural": plural, "kind": kind, "shortNames": vec![short] },
            },
        }
    }

    fn condition(crd: &Value, kind: &str) -> String {
        let conditions = crd.items_at(&["status", "conditions"]).iter();
        let found = conditions.filter(|c| c.str_at(&["type"]) == kind);
        found.map(|c| ["status", "reason", "message"].map(|key| c.str_at(&[key])).join(" ")).collect()
    }

    #[test]
    fn free_names_are_accepted_and_reported_once() {
        let requested = crd("widgets", "Widget", "w");
        let accepted = accept_names(&requested, &[], NOW).expect("a new status");
        assert_eq!(accepted["status"]["acceptedNames"], requested["spec"]["names"]);
        assert_eq!(condition(&accepted, "NamesAccepted"), "True NoConflicts no conflicts found");
        assert_eq!(accept_names(&accepted, &[Arc::new(accepted.clone())], NOW), None);
        assert_eq!(condition(&accepted, "Established"), "False Installing the initial names have been accepted");
    }

    #[test]
    fn names_in_use_are_not_accepted() {
        let first = accept_names(&crd("widgets", "Widget", "w"), &[], NOW).expect("a new status");
        let first = [Arc::new(first)];
        let check = |requested: Value, expect: &str| {
            let refused = accept_names(&requested, &first, NOW).expect("a new status");
            assert_eq!(condition(&refused, "NamesAccepted"), expect);
            assert_eq!(condition(&refused, "Established"), "False NotAccepted not all names are accepted");
            assert_eq!(accept_names(&refused, &first, NOW), None, "an unchanged status is reported once");
        };
        check(crd("gadgets", "Widget", "g"), "False KindConflict \"Widget\" is already in use");
        check(crd("gadgets", "Gadget", "w"), "False ShortNamesConflict \"w\" is already in use");
        check(crd("w", "Gadget", "g"), "False PluralConflict \"w\" is already in use");
    }
}
