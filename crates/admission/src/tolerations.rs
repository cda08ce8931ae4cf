//! Operations on lists of tolerations (upstream: `pkg/util/tolerations`).

use pintle_value::Value;

const EXISTS: &str = "Exists";

fn texts(toleration: &Value) -> [&str; 4] {
    ["key", "effect", "operator", "value"].map(|field| toleration.str_at(&[field]))
}

fn seconds(toleration: &Value) -> Option<i64> {
    toleration.int_at(&["tolerationSeconds"])
}

fn are_equal(first: &Value, second: &Value) -> bool {
    texts(first) == texts(second) && seconds(first) == seconds(second)
}

/// True if a toleration tolerates everything that another one tolerates.
fn is_superset(superset: &Value, toleration: &Value) -> bool {
    if are_equal(superset, toleration) {
        return true;
    }
    let ([key, effect, operator, value], [super_key, super_effect, super_operator, super_value]) =
        (texts(toleration), texts(superset));
    // With this operator, an empty key stands for all keys. An empty effect always stands for all.
    let has_key = key == super_key || (super_key.is_empty() && super_operator == EXISTS);
    let has_effect = effect == super_effect || super_effect.is_empty();
    if !has_key || !has_effect {
        return false;
    }
    if super_effect == "NoExecute"
        && let Some(limit) = seconds(superset)
        && seconds(toleration).is_none_or(|seconds| seconds > limit)
    {
        return false;
    }
    match super_operator {
        "Equal" | "" => operator == "Equal" && value == super_value,
        EXISTS => true,
        _ => false,
    }
}

/// Merges two lists. Of a toleration and a superset of it, only the superset is kept; of equal ones the first.
pub(crate) fn merge(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    let mut merged: Vec<Value> = Vec::with_capacity(all.len());
    for (i, toleration) in all.iter().enumerate() {
        let is_redundant = merged.iter().any(|kept| is_superset(kept, toleration))
            || all[i + 1..].iter().any(|later| !are_equal(later, toleration) && is_superset(later, toleration));
        if !is_redundant {
            merged.push((*toleration).clone());
        }
    }
    merged
}

/// True if each toleration of a pod is one of a whitelist, or tolerates less than one of it. An empty whitelist has all.
pub(crate) fn are_listed(tolerations: &[Value], whitelist: &[Value]) -> bool {
    let is_listed = |toleration| whitelist.iter().any(|listed| is_superset(listed, toleration));
    whitelist.is_empty() || tolerations.iter().all(is_listed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::json;

    fn check_merge(first: &str, second: &str, expect: &str) {
        let (first, second) = (json(first), json(second));
        assert_eq!(Value::from(merge(first.items_at(&[]), second.items_at(&[]))), json(expect));
    }

    #[test]
    fn merging_keeps_supersets_in_order() {
        check_merge("[]", "[]", "[]");
        let (all, exists) = (r#"{"operator":"Exists"}"#, r#"{"key":"a","operator":"Exists","effect":"NoSchedule"}"#);
        let equal = r#"{"key":"a","operator":"Equal","value":"v","effect":"NoSchedule"}"#;
        let other = r#"{"key":"b","operator":"Exists"}"#;
        check_merge(&format!("[{other}]"), &format!("[{equal}]"), &format!("[{other},{equal}]"));
        check_merge(&format!("[{equal},{other}]"), &format!("[{exists}]"), &format!("[{other},{exists}]"));
        check_merge(&format!("[{exists}]"), &format!("[{equal},{exists}]"), &format!("[{exists}]"));
        check_merge(&format!("[{equal},{other}]"), &format!("[{all}]"), &format!("[{all}]"));
        // Without an operator a toleration is a superset of one with `Equal`, but not the other way around.
        let bare = r#"{"key":"a","value":"v","effect":"NoSchedule"}"#;
        check_merge(&format!("[{equal}]"), &format!("[{bare}]"), &format!("[{bare}]"));
        check_merge(&format!("[{bare}]"), &format!("[{equal}]"), &format!("[{bare}]"));
    }

    #[test]
    fn a_longer_time_is_a_superset() {
        let toleration = |seconds: &str| format!(r#"{{"key":"a","operator":"Exists","effect":"NoExecute"{seconds}}}"#);
        let times = ["", r#","tolerationSeconds":5"#, r#","tolerationSeconds":9"#].map(toleration);
        let [forever, short, long] = &times;
        check_merge(&format!("[{short}]"), &format!("[{long}]"), &format!("[{long}]"));
        check_merge(&format!("[{long}]"), &format!("[{forever}]"), &format!("[{forever}]"));
        check_merge(&format!("[{forever}]"), &format!("[{short}]"), &format!("[{forever}]"));
    }
}
