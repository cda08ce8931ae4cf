//! The strategies for RoleBinding and ClusterRoleBinding (upstream: `pkg/apis/rbac/validation`,
//! `pkg/apis/rbac/v1/defaults.go`, `pkg/registry/rbac/{rolebinding,clusterrolebinding}`).

use pintle_registry::{EscalationCheck, Strategy, StrategyContext, UnservedVersion};
use pintle_value::{Errors, FieldPath, Value, names};

use super::GROUP;
use crate::declarative::Rules;
use crate::go_json::{self, GoType};
use crate::validation::invalid_each;

/// How a role reference prints.
const ROLE_REF: GoType = GoType::Of("rbac/v1.RoleRef");

static NAMESPACED: Rules = Rules::own("rbac/v1", "RoleBinding");
static CLUSTER: Rules = Rules::own("rbac/v1", "ClusterRoleBinding");

/// The strategy for RoleBinding and ClusterRoleBinding.
pub(crate) struct RoleBindingStrategy {
    namespaced: bool,
    /// The rules of the reference to a role.
    rules: &'static Rules,
}

pub(crate) const ROLE_BINDING: RoleBindingStrategy = RoleBindingStrategy { namespaced: true, rules: &NAMESPACED };
pub(crate) const CLUSTER_ROLE_BINDING: RoleBindingStrategy = RoleBindingStrategy { namespaced: false, rules: &CLUSTER };

/// The version whose subjects have an apiVersion instead of a group (upstream: `pkg/apis/rbac/v1alpha1`).
const V1ALPHA1: UnservedVersion = UnservedVersion::read("rbac.authorization.k8s.io/v1alpha1", |binding| {
    for subject in binding.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
        let api_version = subject.remove("apiVersion").unwrap_or_default();
        let group = match subject.str_at(&["kind"]) {
            "ServiceAccount" => "",
            "User" | "Group" => GROUP,
            _ => match api_version.as_str().unwrap_or_default().split_once('/') {
                Some((group, version)) if !version.contains('/') => group,
                _ => "",
            },
        };
        subject.set("apiGroup", group);
        // There was no group of all users, so this name stood for it.
        if subject.str_at(&["kind"]) == "User" && subject.str_at(&["name"]) == "*" {
            subject.set("kind", "Group");
            subject.set("name", "system:authenticated");
        }
    }
});

impl Strategy for RoleBindingStrategy {
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &[V1ALPHA1]
    }

    fn defaults(&self, object: &mut Value) {
        if object.str_at(&["roleRef", "apiGroup"]).is_empty() {
            object.set_at(&["roleRef", "apiGroup"], GROUP);
        }
        let subjects = object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten();
        for subject in subjects {
            if subject.str_at(&["apiGroup"]).is_empty() && matches!(subject.str_at(&["kind"]), "User" | "Group") {
                subject.set("apiGroup", GROUP);
            }
        }
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = self.check(object);
        let role = |binding: &Value| ["apiGroup", "kind", "name"].map(|f| binding.str_at(&["roleRef", f]).to_owned());
        if old.is_some_and(|old| role(object) != role(old)) {
            errors.push(go_json::invalid(
                &FieldPath::new("roleRef"),
                &object["roleRef"],
                &ROLE_REF,
                "cannot change roleRef",
            ));
        }
        errors
    }

    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::path_segment_name(name, false)
    }

    fn escalation_check(&self) -> Option<EscalationCheck> {
        Some(EscalationCheck::Binding)
    }
}

impl RoleBindingStrategy {
    fn check(&self, binding: &Value) -> Errors {
        let mut errors = Errors::new();
        self.rules.validate_part(&mut errors, binding, &FieldPath::root());
        let subjects = FieldPath::new("subjects");
        for (i, subject) in binding.items_at(&["subjects"]).iter().enumerate() {
            self.check_subject(&mut errors, &subjects.index(i), subject);
        }
        errors
    }

    fn check_subject(&self, errors: &mut Errors, path: &FieldPath<'_>, subject: &Value) {
        let (kind, name, group) = (subject.str_at(&["kind"]), subject.str_at(&["name"]), subject.str_at(&["apiGroup"]));
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        }
        match kind {
            "ServiceAccount" => {
                if !name.is_empty() {
                    invalid_each(errors, &path.child("name"), name, names::service_account_name(name, false));
                }
                if !group.is_empty() {
                    errors.not_supported(&path.child("apiGroup"), group, &[""]);
                }
                if !self.namespaced && subject.str_at(&["namespace"]).is_empty() {
                    errors.required(&path.child("namespace"), "");
                }
            }
            "User" | "Group" if group != GROUP => {
                errors.not_supported(&path.child("apiGroup"), group, &[GROUP]);
            }
            "User" | "Group" => {}
            _ => errors.not_supported(&path.child("kind"), kind, &["ServiceAccount", "User", "Group"]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    const BINDING: &str = r#"{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"}}"#;

    #[test]
    fn api_groups_are_defaulted() {
        let check = |json: &str, expect: &str| {
            let mut binding = object(json);
            ROLE_BINDING.defaults(&mut binding);
            assert_eq!(binding, object(expect));
        };
        check(
            r#"{"roleRef":{"kind":"Role","name":"r","apiGroup":""},"subjects":[
                {"kind":"User","name":"u"},{"kind":"Group","name":"g"},{"kind":"ServiceAccount","name":"s"},{"kind":"X","name":"x"}]}"#,
            r#"{"roleRef":{"kind":"Role","name":"r","apiGroup":"rbac.authorization.k8s.io"},"subjects":[
                {"kind":"User","name":"u","apiGroup":"rbac.authorization.k8s.io"},
                {"kind":"Group","name":"g","apiGroup":"rbac.authorization.k8s.io"},
                {"kind":"ServiceAccount","name":"s"},{"kind":"X","name":"x"}]}"#,
        );
    }

    #[test]
    fn role_references_and_subjects_are_validated() {
        let check = |binding: &RoleBindingStrategy, json: &str, expect: &[&str]| {
            assert_eq!(messages(&binding.validate(&context(), &object(json))), expect, "{json}");
        };
        check(&ROLE_BINDING, BINDING, &[]);
        check(&CLUSTER_ROLE_BINDING, BINDING, &[]);
        check(
            &CLUSTER_ROLE_BINDING,
            r#"{"roleRef":{"apiGroup":"x","kind":"Role","name":""}}"#,
            &[
                "roleRef.apiGroup: Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\"",
                "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
                "roleRef.name: Required value",
            ],
        );
        let subjects = r#"{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"a/b"},"subjects":[
            {"kind":"ServiceAccount","name":"s","apiGroup":"v1"},{"kind":"User","name":"","apiGroup":"y"},{"kind":"Robot","name":"r"}]}"#;
        check(
            &CLUSTER_ROLE_BINDING,
            subjects,
            &[
                "roleRef.name: Invalid value: \"a/b\": may not contain '/'",
                "subjects[0].apiGroup: Unsupported value: \"v1\": supported values: \"\"",
                "subjects[0].namespace: Required value",
                "subjects[1].name: Required value",
                "subjects[1].apiGroup: Unsupported value: \"y\": supported values: \"rbac.authorization.k8s.io\"",
                "subjects[2].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
            ],
        );
    }

    #[test]
    fn the_role_reference_is_immutable() {
        let new = object(&BINDING.replace("view", "edit"));
        assert_eq!(
            messages(&ROLE_BINDING.validate_update(&context(), &new, &object(BINDING))),
            [
                r#"roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"edit"}: cannot change roleRef"#,
            ]
        );
        let same = object(BINDING);
        assert!(ROLE_BINDING.validate_update(&context(), &same, &same).is_empty());
    }
}
