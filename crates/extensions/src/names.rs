//! Which of the names that it asks for a definition gets: those that no other of its group has (upstream:
//! `controller/status/naming_controller.go`, `controller/establish`).

use std::collections::HashSet;
use std::sync::Arc;

use pintle_value::time::Time;
use pintle_value::{Value, print};

use crate::conditions::is_said;
use crate::{Condition, condition_is_true, set_condition};

const ASKED: [&str; 2] = ["spec", "names"];
const ACCEPTED: [&str; 2] = ["status", "acceptedNames"];

/// The names that the definitions of a group have.
struct Taken<'v> {
    resources: HashSet<&'v str>,
    kinds: HashSet<&'v str>,
}

impl<'v> Taken<'v> {
    fn of(group: &str, definitions: &'v [Arc<Value>]) -> Self {
        let mut taken = Self { resources: HashSet::new(), kinds: HashSet::new() };
        for definition in definitions.iter().filter(|definition| definition.str_at(&["spec", "group"]) == group) {
            let Some(names) = definition.at(&ACCEPTED) else { continue };
            taken.resources.extend(["plural", "singular"].map(|key| names.str_at(&[key])));
            taken.resources.extend(short_names(names));
            taken.kinds.extend(["kind", "listKind"].map(|key| names.str_at(&[key])));
        }
        taken
    }

    /// Why a name, or all short names, cannot be had; `accepted` are those that the definition has already.
    fn conflict(&self, key: &str, asked: &Value, accepted: &Value) -> Option<(&'static str, String)> {
        let one = |taken: &HashSet<&str>| {
            let wanted = asked.str_at(&[key]);
            (wanted != accepted.str_at(&[key]) && taken.contains(wanted)).then(|| in_use(wanted))
        };
        match key {
            "plural" => Some(("PluralConflict", one(&self.resources)?)),
            "singular" => Some(("SingularConflict", one(&self.resources)?)),
            "kind" => Some(("KindConflict", one(&self.kinds)?)),
            "listKind" => Some(("ListKindConflict", one(&self.kinds)?)),
            _ => {
                let own: Vec<&str> = short_names(accepted).collect();
                let lost = short_names(asked).filter(|name| !own.contains(name) && self.resources.contains(name));
                let lost: Vec<String> = lost.map(in_use).collect();
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

fn in_use(name: &str) -> String {
    format!("{} is already in use", print::quote(name))
}

/// Accepts the names that a definition asks for, as far as no other of `definitions` has them. Returns the definition
/// with its new status, or `None` if there is nothing new to say.
#[must_use]
pub fn accept_names(definition: &Value, definitions: &[Arc<Value>], now: Time) -> Option<Value> {
    let asked = definition.at(&ASKED)?;
    let none = Value::object();
    let accepted = definition.at(&ACCEPTED).unwrap_or(&none);
    if pintle_value::same(Some(asked), Some(accepted)) {
        return None;
    }
    let taken = Taken::of(definition.str_at(&["spec", "group"]), definitions);
    let mut names = accepted.clone();
    let mut judged = Condition::new("NamesAccepted", true, "NoConflicts", "no conflicts found");
    for key in ["plural", "singular", "shortNames", "kind", "listKind", "categories"] {
        match taken.conflict(key, asked, accepted).filter(|_| key != "categories") {
            // The last conflict is the one that is told.
            Some((reason, message)) => judged = Condition::new("NamesAccepted", false, reason, message),
            None => match asked.get(key) {
                Some(name) => names.set(key, name.clone()),
                None => drop(names.remove(key)),
            },
        }
    }
    if names == *accepted && is_said(definition, &judged) {
        return None;
    }
    let mut definition = definition.clone();
    definition.set_at(&ACCEPTED, names);
    set_condition(&mut definition, &judged, now);
    if !judged.status && !condition_is_true(&definition, "Established") {
        let refused = Condition::new("Established", false, "NotAccepted", "not all names are accepted");
        set_condition(&mut definition, &refused, now);
    }
    Some(definition)
}

/// Says that a definition is served, once its names are accepted. Returns it with its new status, or `None` if it is
/// said already or not so.
#[must_use]
pub fn establish(definition: &Value, now: Time) -> Option<Value> {
    if !condition_is_true(definition, "NamesAccepted") || condition_is_true(definition, "Established") {
        return None;
    }
    let mut definition = definition.clone();
    let served = Condition::new("Established", true, "InitialNamesAccepted", "the initial names have been accepted");
    set_condition(&mut definition, &served, now);
    Some(definition)
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    const NOW: Time = Time::from_seconds(1_700_000_000);

    fn definition(plural: &str, kind: &str, short: &str) -> Value {
        object! {
            "metadata": object! { "name": format!("{plural}.example.com") },
            "spec": object! {
                "group": "example.com",
                "names": object! { "plural": plural, "kind": kind, "shortNames": vec![short] },
            },
        }
    }

    fn condition(definition: &Value, kind: &str) -> String {
        let conditions = definition.items_at(&["status", "conditions"]).iter();
        let found = conditions.filter(|c| c.str_at(&["type"]) == kind);
        found.map(|c| ["status", "reason", "message"].map(|key| c.str_at(&[key])).join(" ")).collect()
    }

    #[test]
    fn free_names_are_accepted_once() {
        let asked = definition("widgets", "Widget", "w");
        let accepted = accept_names(&asked, &[], NOW).expect("a new status");
        assert_eq!(accepted["status"]["acceptedNames"], asked["spec"]["names"]);
        assert_eq!(condition(&accepted, "NamesAccepted"), "True NoConflicts no conflicts found");
        assert_eq!(accept_names(&accepted, &[Arc::new(accepted.clone())], NOW), None);
        let established = establish(&accepted, NOW).expect("a new status");
        let expect = "True InitialNamesAccepted the initial names have been accepted";
        assert_eq!(condition(&established, "Established"), expect);
        assert_eq!(establish(&established, NOW), None);
    }

    #[test]
    fn names_that_others_have_are_not() {
        let first = accept_names(&definition("widgets", "Widget", "w"), &[], NOW).expect("a new status");
        let first = [Arc::new(first)];
        let check = |asked: Value, expect: &str| {
            let refused = accept_names(&asked, &first, NOW).expect("a new status");
            assert_eq!(condition(&refused, "NamesAccepted"), expect);
            assert_eq!(condition(&refused, "Established"), "False NotAccepted not all names are accepted");
            assert_eq!(establish(&refused, NOW), None);
            assert_eq!(accept_names(&refused, &first, NOW), None, "it is said once");
        };
        check(definition("gadgets", "Widget", "g"), "False KindConflict \"Widget\" is already in use");
        check(definition("gadgets", "Gadget", "w"), "False ShortNamesConflict \"w\" is already in use");
        check(definition("w", "Gadget", "g"), "False PluralConflict \"w\" is already in use");
    }
}
