//! Reads roles and bindings from stored objects. An object that cannot be read grants nothing. A role with an error has
//! no rules, and a binding with an error has no subjects.

use pintle_value::{Str, Value};

use super::policy::{PolicyRule, Role, RoleBinding, RoleKind, RoleRef, Subject, SubjectKind};

/// The reason why a role or binding cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct PolicyError {
    /// The field, such as `rules[0].verbs`.
    pub path: String,
    /// The problem with it.
    pub problem: String,
}

impl PolicyError {
    fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), problem: problem.into() }
    }
}

impl Role {
    /// Reads the rules of a `Role` or `ClusterRole`.
    ///
    /// # Errors
    /// A field of a rule has another type than the API's.
    pub fn from_value(object: &Value) -> Result<Self, PolicyError> {
        let rules = items(object, "", "rules")?.iter().enumerate();
        let rules = rules.map(|(i, rule)| read_rule(rule, &format!("rules[{i}]"))).collect::<Result<_, _>>()?;
        Ok(Self { rules })
    }
}

impl RoleBinding {
    /// Reads a `RoleBinding` or `ClusterRoleBinding`. A subject of an unknown kind applies to nobody, as in upstream,
    /// and is left out.
    ///
    /// # Errors
    /// A field has another type than the API's, or the role's kind is unknown.
    pub fn from_value(object: &Value) -> Result<Self, PolicyError> {
        let role = RoleRef::from_value(object.get("roleRef").unwrap_or(&Value::Null))?;
        let mut subjects = Vec::new();
        for (i, subject) in items(object, "", "subjects")?.iter().enumerate() {
            subjects.extend(read_subject(subject, &format!("subjects[{i}]"))?);
        }
        Ok(Self { subjects, role })
    }
}

impl RoleRef {
    /// Reads the `roleRef` of a binding.
    ///
    /// # Errors
    /// The kind is unknown, or a field has another type than the API's.
    pub fn from_value(value: &Value) -> Result<Self, PolicyError> {
        let kind = match string(value, "roleRef", "kind")?.as_str() {
            "Role" => RoleKind::Role,
            "ClusterRole" => RoleKind::ClusterRole,
            kind => {
                let problem = format!("unsupported role reference kind: {}", pintle_value::print::quote(kind));
                return Err(PolicyError::new("roleRef.kind", problem));
            }
        };
        Ok(Self { kind, name: string(value, "roleRef", "name")? })
    }
}

fn read_rule(rule: &Value, path: &str) -> Result<PolicyRule, PolicyError> {
    Ok(PolicyRule {
        verbs: strings(rule, path, "verbs")?,
        api_groups: strings(rule, path, "apiGroups")?,
        resources: strings(rule, path, "resources")?,
        resource_names: strings(rule, path, "resourceNames")?,
        non_resource_urls: strings(rule, path, "nonResourceURLs")?,
    })
}

fn read_subject(subject: &Value, path: &str) -> Result<Option<Subject>, PolicyError> {
    let kind = match string(subject, path, "kind")?.as_str() {
        "User" => SubjectKind::User,
        "Group" => SubjectKind::Group,
        "ServiceAccount" => SubjectKind::ServiceAccount,
        _ => return Ok(None),
    };
    let namespace = match (kind, subject.get("namespace")) {
        (SubjectKind::ServiceAccount, Some(_)) => string(subject, path, "namespace")?,
        _ => Str::default(),
    };
    Ok(Some(Subject { kind, namespace, name: string(subject, path, "name")? }))
}

/// The path of a field.
fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The items of an optional array.
fn items<'a>(object: &'a Value, path: &str, name: &str) -> Result<&'a [Value], PolicyError> {
    if object.as_object().is_none() {
        let path = if path.is_empty() { "object" } else { path };
        return Err(PolicyError::new(path, "must be an object"));
    }
    match object.get(name) {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(PolicyError::new(join(path, name), "must be an array")),
    }
}

/// The strings of an optional array.
fn strings(object: &Value, path: &str, name: &str) -> Result<Vec<Str>, PolicyError> {
    let items = items(object, path, name)?.iter().enumerate();
    items
        .map(|(i, item)| match item {
            Value::String(text) => Ok(text.clone()),
            _ => Err(PolicyError::new(format!("{}[{i}]", join(path, name)), "must be a string")),
        })
        .collect()
}

/// A required string.
fn string(object: &Value, path: &str, name: &str) -> Result<Str, PolicyError> {
    match object.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(PolicyError::new(join(path, name), "must be a string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(entries: &[(&str, Value)]) -> Value {
        let mut object = Value::Null;
        for (key, value) in entries {
            object.set(key, value.clone());
        }
        object
    }

    fn texts(texts: &[&str]) -> Value {
        Value::Array(texts.iter().map(|text| Value::from(*text)).collect())
    }

    fn list(items: &[Value]) -> Value {
        Value::Array(items.to_vec())
    }

    #[test]
    fn a_role_is_read_with_every_list() {
        let rule = object(&[
            ("verbs", texts(&["get", "list"])),
            ("apiGroups", texts(&[""])),
            ("resources", texts(&["pods", "pods/log"])),
            ("resourceNames", texts(&["a"])),
        ]);
        let urls = object(&[("verbs", texts(&["get"])), ("nonResourceURLs", texts(&["/healthz"]))]);
        let role = Role::from_value(&object(&[("rules", list(&[rule, urls]))])).unwrap();
        assert_eq!(
            role.rules,
            [
                PolicyRule {
                    verbs: vec!["get".into(), "list".into()],
                    api_groups: vec!["".into()],
                    resources: vec!["pods".into(), "pods/log".into()],
                    resource_names: vec!["a".into()],
                    non_resource_urls: vec![],
                },
                PolicyRule {
                    verbs: vec!["get".into()],
                    non_resource_urls: vec!["/healthz".into()],
                    ..PolicyRule::default()
                },
            ]
        );
        assert_eq!(Role::from_value(&object(&[("rules", Value::Null)])), Ok(Role::default()));
    }

    #[test]
    fn a_role_with_a_field_of_another_type_is_an_error() {
        for (rules, expect) in [
            (Value::from("*"), "rules: must be an array"),
            (list(&[Value::from("*")]), "rules[0]: must be an object"),
            (list(&[Value::Null]), "rules[0]: must be an object"),
            (list(&[object(&[("verbs", Value::from("*"))])]), "rules[0].verbs: must be an array"),
            (
                list(&[
                    object(&[]),
                    object(&[("verbs", texts(&["get"]))]),
                    object(&[("verbs", list(&[Value::Int(1)]))]),
                ]),
                "rules[0]: must be an object",
            ),
            (
                list(&[object(&[("verbs", texts(&["get"])), ("apiGroups", list(&["".into(), Value::Null]))])]),
                "rules[0].apiGroups[1]: must be a string",
            ),
        ] {
            let error = Role::from_value(&object(&[("rules", rules)])).unwrap_err();
            assert_eq!(error.to_string(), expect);
        }
        assert!(Role::from_value(&Value::Null).is_err());
        assert!(Role::from_value(&Value::from("role")).is_err());
    }

    #[test]
    fn a_binding_is_read_without_subjects_of_unknown_kinds() {
        let role = object(&[("kind", "ClusterRole".into()), ("name", "view".into())]);
        let subject = |kind: &str, namespace: Value| {
            object(&[("kind", kind.into()), ("namespace", namespace), ("name", "x".into())])
        };
        let subjects = list(&[
            subject("User", "ignored".into()),
            subject("Robot", Value::Null),
            subject("Group", Value::Null),
            subject("ServiceAccount", "ns".into()),
            subject("ServiceAccount", Value::Null),
        ]);
        let binding = RoleBinding::from_value(&object(&[("roleRef", role.clone()), ("subjects", subjects)])).unwrap();
        assert_eq!(binding.role, RoleRef { kind: RoleKind::ClusterRole, name: "view".into() });
        let users: Vec<_> = binding.subjects.iter().map(|subject| subject.user_name("own")).collect();
        let expect = [Some("x"), None, Some("system:serviceaccount:ns:x"), Some("system:serviceaccount:own:x")];
        assert_eq!(users, expect.map(|name| name.map(Str::from)));
        assert_eq!(binding.subjects.last().and_then(|account| account.user_name("")), None);
        assert_eq!(RoleBinding::from_value(&object(&[("roleRef", role)])).map(|binding| binding.subjects), Ok(vec![]));
    }

    #[test]
    fn a_binding_that_cannot_be_read_is_an_error() {
        let role = object(&[("kind", "Role".into()), ("name", "view".into())]);
        for (binding, expect) in [
            (Value::Bool(true), "roleRef.kind: must be a string"),
            (object(&[("subjects", list(&[]))]), "roleRef.kind: must be a string"),
            (
                object(&[("roleRef", object(&[("kind", "Pod".into())]))]),
                "roleRef.kind: unsupported role reference kind: \"Pod\"",
            ),
            (object(&[("roleRef", object(&[("kind", "Role".into())]))]), "roleRef.name: must be a string"),
            (object(&[("roleRef", role.clone()), ("subjects", Value::Int(1))]), "subjects: must be an array"),
            (
                object(&[("roleRef", role.clone()), ("subjects", list(&[object(&[("kind", "User".into())])]))]),
                "subjects[0].name: must be a string",
            ),
            (object(&[("roleRef", role), ("subjects", list(&[Value::Null]))]), "subjects[0].kind: must be a string"),
        ] {
            assert_eq!(RoleBinding::from_value(&binding).unwrap_err().to_string(), expect);
        }
    }
}
