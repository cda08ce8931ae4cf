//! Cells of the group `networking.k8s.io`.

use pintle_value::Value;

use super::cells;

/// Returns the first hosts. Like upstream, counts the remaining rules, not their distinct hosts.
pub(super) fn hosts(rules: &[Value]) -> String {
    const SHOWN: usize = 3;
    let mut hosts: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in rules {
        let host = rule.str_at(&["host"]);
        more |= hosts.len() == SHOWN;
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    let shown = hosts.join(",");
    if more {
        format!("{shown} + {} more...", rules.len() - SHOWN)
    } else {
        cells::or_placeholder(&shown, "*").to_owned()
    }
}

/// The resource with further parameters of a class.
pub(super) fn class_parameters(o: &Value) -> String {
    let parameters = o.at(&["spec", "parameters"]).map(|p| {
        let group = p.at(&["apiGroup"]).and_then(Value::as_str).map(|g| format!(".{g}")).unwrap_or_default();
        format!("{}{group}/{}", p.str_at(&["kind"]), p.str_at(&["name"]))
    });
    parameters.unwrap_or_else(|| "<none>".to_owned())
}

/// The object that an IP address belongs to.
pub(super) fn address_parent(o: &Value) -> String {
    let parent = o.at(&["spec", "parentRef"]).map(|parent| {
        let field = |name: &str| parent.str_at(&[name]);
        let mut text = field("resource").to_lowercase();
        if !field("group").is_empty() {
            text = format!("{text}.{}", field("group").to_lowercase());
        }
        if !field("namespace").is_empty() {
            text = format!("{text}/{}", field("namespace"));
        }
        format!("{text}/{}", field("name"))
    });
    parent.unwrap_or_else(|| "<none>".to_owned())
}
