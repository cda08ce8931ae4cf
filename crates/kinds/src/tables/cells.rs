//! Builds the cells that several kinds share, with upstream's placeholders for absent values.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use pintle_value::{Value, names};

/// Returns the text, or `absent` if it is empty.
pub(super) fn or_placeholder<'a>(text: &'a str, absent: &'a str) -> &'a str {
    if text.is_empty() { absent } else { text }
}

/// Returns the string at a path, or `absent`. An empty string does not count as absent: upstream's field is a pointer.
pub(super) fn string_or<'a>(object: &'a Value, path: &[&str], absent: &'a str) -> &'a str {
    object.at(path).and_then(Value::as_str).unwrap_or(absent)
}

/// Returns the integer at a path, or 0.
pub(super) fn int(object: &Value, path: &[&str]) -> i64 {
    object.int_at(path).unwrap_or(0)
}

/// Returns a scalar as text: strings unchanged, numbers in decimal (quantities and `IntOrString`).
pub(super) fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Bool(b) => b.to_string(),
        _ => String::new(),
    }
}

/// Returns the quantity at a path. Absence prints as `0`, the zero value of Go's `resource.Quantity`.
pub(super) fn quantity(object: &Value, path: &[&str]) -> String {
    object.at(path).map_or_else(|| "0".to_owned(), scalar)
}

/// Returns the number of items or entries at a path.
pub(super) fn count(object: &Value, path: &[&str]) -> i64 {
    let n = match object.at(path) {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(entries)) => entries.len(),
        _ => 0,
    };
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Returns the strings of an array.
pub(super) fn strings<'a>(object: &'a Value, path: &[&str]) -> Vec<&'a str> {
    object.items_at(path).iter().filter_map(Value::as_str).collect()
}

/// Returns the first condition of a type.
pub(super) fn find_condition<'a>(conditions: &'a [Value], kind: &str) -> Option<&'a Value> {
    conditions.iter().find(|c| c.str_at(&["type"]) == kind)
}

/// Returns true if the first condition of a type has the status `True`.
pub(super) fn is_condition_true(conditions: &[Value], kind: &str) -> bool {
    find_condition(conditions, kind).is_some_and(|c| c.str_at(&["status"]) == "True")
}

/// Returns a field of the containers in a pod spec.
pub(super) fn of_containers(spec: Option<&Value>, field: &str) -> String {
    let containers = spec.map_or(&[][..], |spec| spec.items_at(&["containers"]));
    containers.iter().map(|c| c.str_at(&[field])).collect::<Vec<_>>().join(",")
}

/// Returns a map of labels as `a=b,c=d` (upstream: `labels.FormatLabels`).
pub(super) fn labels(object: &Value, path: &[&str]) -> String {
    let pairs: Vec<String> =
        object.entries_at(path).map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
    or_placeholder(&pairs.join(","), "<none>").to_owned()
}

/// Returns a `metav1.LabelSelector` in the syntax of selectors, or `None` if it is invalid.
pub(super) fn selector(selector: Option<&Value>) -> Option<String> {
    let Some(selector) = selector else { return Some(String::new()) };
    let mut requirements: Vec<(&str, String)> = Vec::new();
    for (key, value) in selector.entries_at(&["matchLabels"]) {
        let value = value.as_str().unwrap_or_default();
        if !names::label_key(key).is_empty() || !names::label_value(value).is_empty() {
            return None;
        }
        requirements.push((key, format!("{key}={value}")));
    }
    for expression in selector.items_at(&["matchExpressions"]) {
        let key = expression.str_at(&["key"]);
        let mut values = strings(expression, &["values"]);
        if !names::label_key(key).is_empty() || values.iter().any(|v| !names::label_value(v).is_empty()) {
            return None;
        }
        values.sort_unstable();
        let text = match expression.str_at(&["operator"]) {
            "In" if !values.is_empty() => format!("{key} in ({})", values.join(",")),
            "NotIn" if !values.is_empty() => format!("{key} notin ({})", values.join(",")),
            "Exists" if values.is_empty() => key.to_owned(),
            "DoesNotExist" if values.is_empty() => format!("!{key}"),
            _ => return None,
        };
        requirements.push((key, text));
    }
    requirements.sort_by_key(|(key, _)| *key);
    Some(requirements.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(","))
}

/// Returns a label selector in the form of most tables (upstream: `metav1.FormatLabelSelector`).
pub(super) fn format_selector(object: &Value, path: &[&str]) -> String {
    selector(object.at(path)).map_or_else(|| "<error>".to_owned(), |text| or_placeholder(&text, "<none>").to_owned())
}

/// Returns a label selector as Go prints the generated type. The tables of admission policy bindings use this form.
pub(super) fn go_selector(selector: &Value) -> String {
    let mut out = String::from("&LabelSelector{MatchLabels:map[string]string{");
    for (key, value) in selector.entries_at(&["matchLabels"]) {
        let _ = write!(out, "{key}: {},", value.as_str().unwrap_or_default());
    }
    out.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
    for expression in selector.items_at(&["matchExpressions"]) {
        let values = strings(expression, &["values"]).join(" ");
        let (key, operator) = (expression.str_at(&["key"]), expression.str_at(&["operator"]));
        let _ = write!(out, "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},");
    }
    out.push_str("},}");
    out
}

/// Returns the first `max` items and the number of the others, or `<unset>` if the list is empty.
pub(super) fn first_items(items: &[String], max: usize) -> String {
    let shown = items.iter().take(max).map(String::as_str).collect::<Vec<_>>().join(",");
    if items.len() > max {
        format!("{shown} + {} more...", items.len() - max)
    } else {
        or_placeholder(&shown, "<unset>").to_owned()
    }
}

/// Returns the addresses of a load balancer's ingress points in order, without duplicates.
pub(super) fn load_balancer_addresses(status: &[Value]) -> String {
    let addresses: BTreeSet<&str> = status
        .iter()
        .map(|i| or_placeholder(i.str_at(&["ip"]), i.str_at(&["hostname"])))
        .filter(|a| !a.is_empty())
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

/// Returns access modes in the short form of kubectl.
pub(super) fn access_modes(object: &Value, path: &[&str]) -> String {
    let modes = strings(object, path);
    [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")]
        .into_iter()
        .filter_map(|(mode, short)| modes.contains(&mode).then_some(short))
        .collect::<Vec<_>>()
        .join(",")
}
