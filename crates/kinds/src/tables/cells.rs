//! The makers of cells that several kinds share, with upstream's wording for what is absent.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use pintle_value::{Value, names};

/// The text, or what stands for an empty one.
pub(super) fn or<'a>(text: &'a str, absent: &'a str) -> &'a str {
    if text.is_empty() { absent } else { text }
}

/// The string at a path, or what stands for absence. An empty string is not absence: it is a pointer in Go.
pub(super) fn string_or<'a>(object: &'a Value, path: &[&str], absent: &'a str) -> &'a str {
    object.at(path).and_then(Value::as_str).unwrap_or(absent)
}

/// The integer at a path, or 0.
pub(super) fn int(object: &Value, path: &[&str]) -> i64 {
    object.int_at(path).unwrap_or(0)
}

/// A scalar as text: strings as they are, numbers in decimal (quantities and `IntOrString`).
pub(super) fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Bool(b) => b.to_string(),
        _ => String::new(),
    }
}

/// A quantity that is a value in Go: the zero quantity prints as `0`.
pub(super) fn quantity(object: &Value, path: &[&str]) -> String {
    object.at(path).map_or_else(|| "0".to_owned(), scalar)
}

/// How many items or entries there are at a path.
pub(super) fn count(object: &Value, path: &[&str]) -> i64 {
    let n = match object.at(path) {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(entries)) => entries.len(),
        _ => 0,
    };
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The strings of an array.
pub(super) fn strings<'a>(object: &'a Value, path: &[&str]) -> Vec<&'a str> {
    object.items_at(path).iter().filter_map(Value::as_str).collect()
}

/// The value of a condition's field; `None` where there is no condition of this type. The first one counts.
pub(super) fn condition<'a>(conditions: &'a [Value], kind: &str) -> Option<&'a Value> {
    conditions.iter().find(|c| c.str_at(&["type"]) == kind)
}

/// True if the first condition of this type is true.
pub(super) fn is_true(conditions: &[Value], kind: &str) -> bool {
    condition(conditions, kind).is_some_and(|c| c.str_at(&["status"]) == "True")
}

/// The names and the images of the containers of a pod template's spec.
pub(super) fn containers(spec: Option<&Value>) -> (String, String) {
    let containers = spec.map_or(&[][..], |spec| spec.items_at(&["containers"]));
    let join = |field: &str| containers.iter().map(|c| c.str_at(&[field])).collect::<Vec<_>>().join(",");
    (join("name"), join("image"))
}

/// A map of labels as `a=b,c=d` (upstream: `labels.FormatLabels`).
pub(super) fn labels(object: &Value, path: &[&str]) -> String {
    let pairs: Vec<String> =
        object.entries_at(path).map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
    or(&pairs.join(","), "<none>").to_owned()
}

/// A `metav1.LabelSelector` in the notation of selectors; `None` if it is not valid.
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

/// A label selector as most tables show it (upstream: `metav1.FormatLabelSelector`).
pub(super) fn format_selector(object: &Value, path: &[&str]) -> String {
    selector(object.at(path)).map_or_else(|| "<error>".to_owned(), |text| or(&text, "<none>").to_owned())
}

/// A label selector as Go prints the generated type, which the tables of admission policy bindings show.
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

/// The first items of a list, with how many more there are; `<unset>` for none.
pub(super) fn first_of(items: &[String], max: usize) -> String {
    let shown = items.iter().take(max).map(String::as_str).collect::<Vec<_>>().join(",");
    if items.len() > max {
        format!("{shown} + {} more...", items.len() - max)
    } else {
        or(&shown, "<unset>").to_owned()
    }
}

/// The addresses of a load balancer's ingress points, each once, in order.
pub(super) fn load_balancer(status: &[Value]) -> String {
    let addresses: BTreeSet<&str> =
        status.iter().map(|i| or(i.str_at(&["ip"]), i.str_at(&["hostname"]))).filter(|a| !a.is_empty()).collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

/// Access modes in kubectl's short form.
pub(super) fn access_modes(object: &Value, path: &[&str]) -> String {
    let modes = strings(object, path);
    [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")]
        .into_iter()
        .filter_map(|(mode, short)| modes.contains(&mode).then_some(short))
        .collect::<Vec<_>>()
        .join(",")
}
