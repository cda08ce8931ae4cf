//! CustomResourceDefinition as an object: who writes its status, and which versions it says are stored (upstream:
//! apiextensions-apiserver's `pkg/registry/customresourcedefinition`). What its schemas may hold is not checked here.

use pintle_registry::{Behaviour, Context, SubresourceRules};
use pintle_value::{Errors, FieldPath, Value, names, object};

use crate::strategy::{StatusRules, as_is, first_generation, generation_follows_spec, keep, set_if_empty};

const DEFAULT_PORT: i64 = 443;

/// The rules of CustomResourceDefinition.
pub(super) struct Definition;

impl Behaviour for Definition {
    fn defaults(&self, object: &mut Value) {
        if let Some(names) = object.at_mut(&["spec", "names"]) {
            let kind = names.str_at(&["kind"]).to_owned();
            if !kind.is_empty() {
                set_if_empty(names, "singular", &kind.to_lowercase());
                set_if_empty(names, "listKind", &format!("{kind}List"));
            }
        }
        if object.at(&["spec", "conversion"]).is_none() {
            object.set_at(&["spec", "conversion"], object! { "strategy": "None" });
        }
        if let Some(service) = object.at_mut(&["spec", "conversion", "webhook", "clientConfig", "service"]) {
            service.set_default("port", DEFAULT_PORT);
        }
        if object.items_at(&["status", "storedVersions"]).is_empty() {
            store_version(object);
        }
    }

    fn prepare_for_create(&self, _: &Context, object: &mut Value) {
        let empty = object! {
            "conditions": Value::Null,
            "acceptedNames": object! { "plural": "", "kind": "" },
            "storedVersions": Value::Null,
        };
        object.set("status", empty);
        first_generation(object);
        store_version(object);
    }

    fn prepare_for_update(&self, _: &Context, object: &mut Value, old: &Value) {
        keep(object, old, &["status"]);
        generation_follows_spec(object, old);
        store_version(object);
    }

    fn validate(&self, _: &Context, object: &Value) -> Errors {
        let mut errors = Errors::new();
        let required = format!("{}.{}", object.str_at(&["spec", "names", "plural"]), object.str_at(&["spec", "group"]));
        if object.name() != required {
            let detail = r#"must be spec.names.plural+"."+spec.group"#;
            errors.invalid(&FieldPath::new("metadata.name"), object.name(), detail);
        }
        errors.append(validate_status(object, &Value::Null));
        errors
    }

    fn validate_update(&self, context: &Context, object: &Value, _: &Value) -> Errors {
        self.validate(context, object)
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceRules> {
        (name == "status").then_some(&STATUS as &dyn SubresourceRules)
    }
}

const STATUS: StatusRules = StatusRules { keeps: &[&["spec"]], prepare: as_is, validate: validate_status };

/// Notes the version that objects are stored at, once.
fn store_version(object: &mut Value) {
    let versions = object.items_at(&["spec", "versions"]);
    let Some(storage) = versions.iter().find(|version| version.bool_at(&["storage"])) else { return };
    let name = storage.str_at(&["name"]).to_owned();
    let mut stored: Vec<Value> = object.items_at(&["status", "storedVersions"]).to_vec();
    if !stored.iter().any(|version| version.as_str() == Some(name.as_str())) {
        stored.push(name.into());
        object.set_at(&["status", "storedVersions"], stored);
    }
}

/// The names that were accepted, as far as there are any.
fn validate_status(object: &Value, _: &Value) -> Errors {
    let mut errors = Errors::new();
    let accepted = &object["status"]["acceptedNames"];
    let path = FieldPath::new("status.acceptedNames");
    for (field, any_case) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        let name = accepted.str_at(&[field]);
        let (wrong, before) = if any_case {
            let before = "may have mixed case, but should otherwise match: ";
            (names::dns1035_label(&name.to_lowercase()), before)
        } else {
            (names::dns1035_label(name), "")
        };
        if !wrong.is_empty() && !name.is_empty() {
            errors.invalid(&path.child(field), name, format!("{before}{}", wrong.join(",")));
        }
    }
    for (i, name) in accepted.items_at(&["shortNames"]).iter().filter_map(Value::as_str).enumerate() {
        let wrong = names::dns1035_label(name);
        if !wrong.is_empty() {
            errors.invalid(&path.child("shortNames").index(i), name, wrong.join(","));
        }
    }
    let (kind, list_kind) = (accepted.str_at(&["kind"]), accepted.str_at(&["listKind"]));
    if !kind.is_empty() && kind == list_kind {
        errors.invalid(&path.child("listKind"), list_kind, "kind and listKind may not be the same");
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    const WIDGETS: &str = r#"{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com",
        "names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1"},{"name":"v2","storage":true}]}}"#;

    #[test]
    fn a_new_definition_has_its_names_and_its_stored_version() {
        let mut found = object(WIDGETS);
        found.set_at(&["status", "storedVersions"], vec!["v0"]);
        Definition.defaults(&mut found);
        Definition.prepare_for_create(&context(), &mut found);
        assert_eq!(found["spec"]["names"]["singular"], Value::from("widget"));
        assert_eq!(found["spec"]["names"]["listKind"], Value::from("WidgetList"));
        assert_eq!(found["spec"]["conversion"], object(r#"{"strategy":"None"}"#));
        assert_eq!(found["status"]["storedVersions"], object(r#"["v2"]"#));
        assert!(Definition.validate(&context(), &found).is_empty());
    }

    #[test]
    fn another_storage_version_is_added_and_raises_the_generation() {
        let mut old = object(WIDGETS);
        Definition.defaults(&mut old);
        Definition.prepare_for_create(&context(), &mut old);
        let mut new = old.clone();
        new.set_at(&["spec", "versions"], object(r#"[{"name":"v3","storage":true}]"#));
        new.remove_at(&["status"]);
        Definition.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(new["status"]["storedVersions"], object(r#"["v2","v3"]"#));
        assert_eq!(new.generation(), 2);
    }

    #[test]
    fn names_are_checked() {
        let mut wrong = object(WIDGETS);
        wrong.set_at(&["metadata", "name"], "gadgets.example.com");
        wrong.set_at(&["status", "acceptedNames"], object(r#"{"plural":"a_b","kind":"A","listKind":"A"}"#));
        let found = messages(&Definition.validate(&context(), &wrong));
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(
            found[0],
            r#"metadata.name: Invalid value: "gadgets.example.com": must be spec.names.plural+"."+spec.group"#
        );
        assert_eq!(
            found[2],
            r#"status.acceptedNames.listKind: Invalid value: "A": kind and listKind may not be the same"#
        );
    }
}
