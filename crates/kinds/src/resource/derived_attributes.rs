//! Attributes of devices that a request derives from others by expressions, for the constraints of its claim (KEP-5491;
//! upstream: `validateDerivedAttributes`).

use std::collections::HashSet;

use pintle_value::{Errors, FieldPath, Value};

use super::selectors::{MAX_COST, SelectorFeatures, validate_derived_attribute};

/// The requests of a claim to which derived attributes belong, and the cost of all of them.
pub(super) struct DerivedAttributes<'v> {
    constraints: &'v [Value],
    features: SelectorFeatures,
    cost: u64,
}

impl<'v> DerivedAttributes<'v> {
    /// The attributes of a claim with this spec.
    pub(super) fn of(spec: &'v Value, features: SelectorFeatures) -> Self {
        Self { constraints: spec.items_at(&["devices", "constraints"]), features, cost: 0 }
    }

    /// Validates the attributes of a request. `names` are the names by which constraints refer to it.
    pub(super) fn validate(&mut self, errors: &mut Errors, request: &Value, names: &[&str], path: &FieldPath<'_>) {
        let path = path.child("derivedAttributes");
        let mut seen = HashSet::new();
        for (i, attribute) in request.items_at(&["derivedAttributes"]).iter().enumerate() {
            let path = path.index(i);
            let (name, expression) = (attribute.str_at(&["name"]), attribute.str_at(&["expression"]));
            if !name.is_empty() && !self.is_constrained(name, names) {
                let detail = "must be referenced by at least one matchAttribute or distinctAttribute constraint \
                              targeting this request";
                errors.invalid(&path.child("name"), name, detail);
            }
            if !expression.is_empty() {
                let cost = validate_derived_attribute(errors, expression, self.features, &path.child("expression"));
                self.cost = self.cost.saturating_add(cost);
            }
            if !seen.insert(name) {
                errors.duplicate(&path, name);
            }
        }
    }

    /// Whether a constraint of the request names the attribute.
    fn is_constrained(&self, attribute: &str, names: &[&str]) -> bool {
        self.constraints.iter().any(|constraint| {
            let requests = constraint.items_at(&["requests"]);
            let is_target = |request: &Value| request.as_str().is_some_and(|request| names.contains(&request));
            let names_it = ["matchAttribute", "distinctAttribute"]
                .iter()
                .any(|field| constraint.get(field).and_then(Value::as_str) == Some(attribute));
            names_it && (requests.is_empty() || requests.iter().any(is_target))
        })
    }

    /// Limits the cost of all attributes of a claim. `path` is the path of its devices.
    pub(super) fn validate_cost(&self, errors: &mut Errors, path: &FieldPath<'_>) {
        if self.cost > MAX_COST {
            let detail = "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit";
            errors.forbidden(path, detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use pintle_gates::Gates;

    use super::*;
    use crate::testing::{messages, object};

    /// Compares the errors about a request `r` with this subrequest and these attributes.
    #[track_caller]
    fn check(names: &[&str], constraints: &str, attributes: &str, expect: &[&str]) {
        let spec = object(&format!(r#"{{"devices":{{"constraints":[{constraints}]}}}}"#));
        let mut derived = DerivedAttributes::of(&spec, SelectorFeatures::of(&Gates::default()));
        let request = object(&format!(r#"{{"derivedAttributes":[{attributes}]}}"#));
        let mut errors = Errors::new();
        derived.validate(&mut errors, &request, names, &FieldPath::new("r"));
        derived.validate_cost(&mut errors, &FieldPath::new("spec.devices"));
        let expect: Vec<String> = expect.iter().map(|text| text.replace("$", "r.derivedAttributes")).collect();
        assert_eq!(messages(&errors), expect);
    }

    fn attribute(name: &str, expression: &str) -> String {
        format!(r#"{{"name":"{name}","expression":"{expression}"}}"#)
    }

    #[test]
    fn a_constraint_names_each_attribute() {
        let unnamed = "$[0].name: Invalid value: \"e.com/a\": must be referenced by at least one matchAttribute or \
                       distinctAttribute constraint targeting this request";
        let a = attribute("e.com/a", "device.driver");
        check(&["r"], r#"{"matchAttribute":"e.com/a"}"#, &a, &[]);
        check(&["r"], r#"{"distinctAttribute":"e.com/a","requests":["q","r"]}"#, &a, &[]);
        check(&["r", "r/s"], r#"{"matchAttribute":"e.com/a","requests":["r/s"]}"#, &a, &[]);
        check(&["r"], r#"{"matchAttribute":"e.com/a","requests":["q"]}"#, &a, &[unnamed]);
        check(&["r"], r#"{"matchAttribute":"e.com/b"}"#, &a, &[unnamed]);
    }

    #[test]
    fn names_are_unique_and_values_are_scalars() {
        let constraint = r#"{"matchAttribute":"e.com/a"}"#;
        let a = attribute("e.com/a", "device.driver");
        check(&["r"], constraint, &format!("{a},{a}"), &["$[1]: Duplicate value: \"e.com/a\""]);
        check(
            &["r"],
            constraint,
            &attribute("e.com/a", "device.attributes"),
            &["$[0].expression: Invalid value: \"device.attributes\": must evaluate to a primitive scalar (string, \
               integer, boolean, semver), not map(string, map(string, \
               google.protobuf.Any))"],
        );
    }

    #[test]
    fn the_cost_of_all_attributes_is_limited() {
        let names = ["e.com/a", "e.com/b"];
        let constraints: Vec<String> = names.iter().map(|name| format!(r#"{{"matchAttribute":"{name}"}}"#)).collect();
        // Three nested loops over the domains stay below the limit of one expression, but two of them do not.
        let expression = "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes[a] == device.attributes[b] || c == a)))";
        let attributes: Vec<String> = names.iter().map(|name| attribute(name, expression)).collect();
        check(&["r"], &constraints[0], &attributes[0], &[]);
        check(
            &["r"],
            &constraints.join(","),
            &attributes.join(","),
            &["spec.devices: Forbidden: too complex, total cost of derived attribute CEL expressions in the claim \
               exceeds cost limit"],
        );
    }
}
