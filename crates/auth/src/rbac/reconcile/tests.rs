//! Reconciliation scenarios, with the content of upstream's tables: the existing object, the expected object, and the
//! result.

use pintle_gates::Gates;
use pintle_value::{Str, object};

use super::*;
use crate::rbac::BootstrapPolicy;
use crate::rbac::testing::rule;

/// A map from `key=value` words.
fn map(words: &str) -> Value {
    let pair = |word: &str| word.split_once('=').map(|(key, value)| (Str::from(key), Value::from(value)));
    Value::Object(words.split_whitespace().filter_map(pair).collect())
}

/// A role with a rule for each word, `VERBS:RESOURCES`; the default verb is `get`.
fn role(rules: &str, labels: &str, annotations: &str) -> Value {
    let mut metadata = object! { "name": "role" };
    for (key, words) in [("labels", labels), ("annotations", annotations)] {
        if !words.is_empty() {
            metadata.set(key, map(words));
        }
    }
    let rule = |word: &str| {
        let (verbs, resources) = word.split_once(':').unwrap_or(("get", word));
        Value::from(rule(verbs, "", resources, "", ""))
    };
    object! { "metadata": metadata, "rules": rules.split_whitespace().map(rule).collect::<Vec<_>>() }
}

/// A role with rules and an aggregation rule with a selector for each word.
fn aggregated(rules: &str, selectors: &str) -> Value {
    let mut role = role(rules, "", "");
    let selectors: Vec<Value> = selectors.split_whitespace().map(|word| object! { "matchLabels": map(word) }).collect();
    role.set("aggregationRule", object! { "clusterRoleSelectors": selectors });
    role
}

/// Checks the result for a role; `None` if nothing has to be done.
fn check_role(existing: &Value, expected: &Value, want: Option<&Value>) {
    let want = want.map_or(Reconciliation::UpToDate, |role| Reconciliation::Update(role.clone()));
    assert_eq!(reconcile_role(existing, expected), Ok(want), "{existing:?} {expected:?}");
}

#[test]
fn missing_rules_are_added_and_extra_ones_stay() {
    let check = |existing: &str, expected: &str, want: Option<&str>| {
        let want = want.map(|rules| role(rules, "", ""));
        check_role(&role(existing, "", ""), &role(expected, "", ""), want.as_ref());
    };
    check("", "", None);
    check("a", "a", None);
    check("a b", "b a", None);
    check("b", "a", Some("b a"));
    check("a b", "a", None);
    check("a", "", None);
    check("", "a", Some("a"));
    check("nodes images projects", "pods nodes secrets", Some("nodes images projects pods secrets"));
    // Missing permissions are added one by one. Permissions that other rules include are not missing.
    check("get:pods", "get,list:pods,nodes", Some("get:pods list:pods get:nodes list:nodes"));
    check("*:*", "get,list:pods,nodes", None);
    check("get:pods list:pods", "get,list:pods", None);
}

#[test]
fn expected_labels_and_annotations_are_added_and_existing_values_stay() {
    let check = |existing: &str, expected: &str, want: &str| {
        for with in [|words: &str| role("a", words, ""), |words: &str| role("a", "", words)] {
            let want = (existing != want).then(|| with(want));
            check_role(&with(existing), &with(expected), want.as_ref());
        }
        let with = |words: &str| {
            let mut binding = binding("role", "a");
            binding.set_at(&["metadata", "labels"], map(words));
            binding
        };
        let result = reconcile_role_binding(&with(existing), &with(expected));
        let changed = if existing == want { Reconciliation::UpToDate } else { Reconciliation::Update(with(want)) };
        assert_eq!(result, changed, "{existing} {expected}");
    };
    check("", "", "");
    check("1=a", "1=a", "1=a");
    check("2=b", "1=a", "2=b 1=a");
    check("1=b", "1=a", "1=b");
    check("1=b", "", "1=b");
    check("", "1=a", "1=a");
    check("1=", "1=a", "1=");

    let existing = role("nodes images", "color=red team=pm", "system=false owner=admin");
    let expected = role("pods nodes", "env=prod color=blue", "description=fancy system=true");
    let (labels, annotations) = ("env=prod color=red team=pm", "description=fancy system=false owner=admin");
    check_role(&existing, &expected, Some(&role("nodes images pods", labels, annotations)));
}

#[test]
fn aggregation_rules_get_missing_selectors() {
    let plain = role("", "", "");
    check_role(&plain, &aggregated("", ""), None);
    check_role(&aggregated("", ""), &aggregated("", ""), None);
    check_role(&aggregated("", "foo=bar"), &aggregated("", "foo=bar"), None);
    check_role(&plain, &aggregated("", "foo=bar"), Some(&aggregated("", "foo=bar")));
    check_role(&aggregated("", "a=b"), &aggregated("", "foo=bar"), Some(&aggregated("", "a=b foo=bar")));
    // The rules of an aggregated role come from aggregation, so none of them are missing.
    check_role(&aggregated("pods", "foo=bar"), &aggregated("", "foo=bar"), None);
    // A rule that existed before the role was aggregated stays.
    check_role(&role("pods", "", ""), &aggregated("", "foo=bar"), Some(&aggregated("pods", "foo=bar")));

    // An expression is another selector than a label; empty parts make no difference.
    let expression = object! { "key": "foo", "operator": "Exists" };
    let path = ["aggregationRule", "clusterRoleSelectors"];
    let mut existing = aggregated("", "");
    existing.set_at(&path, vec![object! { "matchExpressions": vec![expression.clone()], "matchLabels": object! {} }]);
    let mut expected = aggregated("", "");
    expected.set_at(&path, vec![object! { "matchExpressions": vec![expression] }]);
    check_role(&existing, &expected, None);
    let Ok(Reconciliation::Update(role)) = reconcile_role(&existing, &aggregated("", "foo=bar")) else {
        panic!("an update")
    };
    assert_eq!(role.items_at(&path).len(), 2);
}

#[test]
fn an_unexpected_aggregation_rule_is_removed_and_the_rules_stay() {
    let expected = role("pods nodes", "", "");
    check_role(&aggregated("", "a=b"), &expected, Some(&expected));
    let want = role("deployments pods nodes", "", "");
    check_role(&aggregated("deployments", "a=b"), &expected, Some(&want));
}

#[test]
fn the_annotation_protects_an_object() {
    let protect = |mut object: Value, value: &str| {
        object.set_at(&["metadata", "annotations", AUTO_UPDATE_ANNOTATION], value);
        object
    };
    let check = |result: Reconciliation, protected: bool| {
        assert_eq!(result == Reconciliation::Protected, protected, "{result:?}");
        assert_ne!(result, Reconciliation::UpToDate);
    };
    for (value, protected) in [("false", true), ("true", false), ("", false), ("False", false)] {
        check(reconcile_role(&protect(role("a", "", ""), value), &role("b", "", "")).expect("readable"), protected);
        for role in ["role", "other"] {
            check(reconcile_role_binding(&protect(binding(role, "a"), value), &binding("role", "b")), protected);
        }
        let complete = protect(role("a", "", ""), value);
        check_role(&complete, &role("a", "", ""), None);
    }
}

/// A binding of users to a cluster role.
fn binding(role: &str, users: &str) -> Value {
    let group = "rbac.authorization.k8s.io";
    let user = |name: &str| object! { "apiGroup": group, "kind": "User", "name": name };
    let mut binding = object! {
        "metadata": object! { "name": "binding" },
        "roleRef": object! { "apiGroup": group, "kind": "ClusterRole", "name": role },
    };
    if !users.is_empty() {
        binding.set("subjects", users.split_whitespace().map(user).collect::<Vec<_>>());
    }
    binding
}

#[test]
fn missing_subjects_are_added_once_and_extra_ones_stay() {
    let check = |existing: &str, expected: &str, want: Option<&str>| {
        let result = reconcile_role_binding(&binding("role", existing), &binding("role", expected));
        let want = want.map_or(Reconciliation::UpToDate, |users| Reconciliation::Update(binding("role", users)));
        assert_eq!(result, want, "{existing} {expected}");
    };
    check("a", "a", None);
    check("foo bar", "bar foo", None);
    check("a b", "a", None);
    check("a", "a b", Some("a b"));
    check("foo baz", "foo bar", Some("foo baz bar"));
    check("b", "a a", Some("b a"));
    check("a", "", None);
    check("", "a", Some("a"));

    // All fields of a subject count; an empty field equals an absent field.
    let subject = |key: &str, value: &str| {
        let mut subject = object! { "kind": "ServiceAccount", "name": "a", "namespace": "n" };
        subject.set(key, value);
        subject
    };
    let known = subject("kind", "ServiceAccount");
    for (key, value) in [("kind", "User"), ("name", "b"), ("namespace", "m"), ("apiGroup", "g")] {
        assert!(!are_equal_subjects(&known, &subject(key, value)), "{key}");
    }
    assert!(are_equal_subjects(&known, &subject("apiGroup", "")));
}

#[test]
fn a_binding_to_another_role_is_created_again() {
    let expected = binding("role", "a");
    assert_eq!(reconcile_role_binding(&binding("other", "a b"), &expected), Reconciliation::Recreate);
    for (key, value) in [("kind", "Role"), ("apiGroup", "other")] {
        let mut existing = expected.clone();
        existing.set_at(&["roleRef", key], value);
        assert_eq!(reconcile_role_binding(&existing, &expected), Reconciliation::Recreate);
    }
}

#[test]
fn the_policy_reconciles_itself_to_nothing() {
    let policy = BootstrapPolicy::new(&Gates::default());
    for role in policy.cluster_roles.iter().chain(&policy.roles) {
        check_role(role, role, None);
        // Stored objects without rules have the field in another form.
        let mut stored = role.clone();
        stored.set("rules", role["rules"].clone());
        check_role(&stored, role, None);
    }
    for binding in policy.cluster_role_bindings.iter().chain(&policy.role_bindings) {
        assert_eq!(reconcile_role_binding(binding, binding), Reconciliation::UpToDate);
    }
}

#[test]
fn a_role_that_cannot_be_read_is_an_error() {
    let mut unreadable = role("a", "", "");
    unreadable.set("rules", vec![object! { "verbs": "get" }]);
    assert!(reconcile_role(&unreadable, &role("b", "", "")).is_err());
}
