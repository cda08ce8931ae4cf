//! Tests of the validation of `metadata` and of its updates.

use super::*;
use crate::object;

#[track_caller]
fn check(errors: &Errors, expect: &[&str]) {
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expect);
}

fn object(metadata: Value) -> Value {
    object! {"metadata": metadata}
}

fn create(metadata: Value) -> Errors {
    validate_object_meta(&object(metadata), true, &names::dns1123_subdomain_name, MissingFields::Invalid)
}

fn update(new: Value, old: Value) -> Errors {
    validate_object_meta_update(&object(new), &object(old), MissingFields::Invalid)
}

#[test]
fn names_and_namespaces_are_validated() {
    check(&create(object! {"name": "a.b", "namespace": "n"}), &[]);
    check(
        &create(object! {}),
        &["metadata.name: Required value: name or generateName is required", "metadata.namespace: Required value"],
    );
    let subdomain = &names::dns1123_subdomain("A")[0];
    check(
        &create(object! {"generateName": "A", "name": "A", "namespace": "n.n"}),
        &[
            &format!("metadata.generateName: Invalid value: \"A\": {subdomain}"),
            &format!("metadata.name: Invalid value: \"A\": {subdomain}"),
            "metadata.namespace: Invalid value: \"n.n\": must not contain dots",
        ],
    );
    let cluster = object(object! {"name": "a", "namespace": "n"});
    check(
        &validate_object_meta(&cluster, false, &names::path_segment_name, MissingFields::Invalid),
        &["metadata.namespace: Forbidden: not allowed on this type"],
    );
}

#[test]
fn labels_annotations_and_generation_are_validated() {
    let valid = names::qualified_name("a b").remove(0);
    let value = names::label_value("c d").remove(0);
    check(
        &create(object! {
            "name": "a", "namespace": "n", "generation": -1,
            "labels": object! {"a b": "c d"},
            "annotations": object! {"A": "any thing", "a b": ""},
        }),
        &[
            "metadata.generation: Invalid value: -1: must be greater than or equal to 0",
            &format!("metadata.labels: Invalid value: \"a b\": {valid}"),
            &format!("metadata.labels: Invalid value: \"c d\": {value}"),
            &format!("metadata.annotations: Invalid value: \"a b\": {valid}"),
        ],
    );
    let large = object! {"a": "x".repeat(ANNOTATIONS_MAX - 1)};
    let path = FieldPath::new("metadata.annotations");
    check(&validate_annotations(&large, &path), &[]);
    let large = object! {"a": "x".repeat(ANNOTATIONS_MAX)};
    check(&validate_annotations(&large, &path), &["metadata.annotations: Too long: may not be more than 262144 bytes"]);
}

#[test]
fn owner_references_are_validated() {
    let owner = |name: &str| object! {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "u", "controller": true};
    let path = FieldPath::new("metadata.ownerReferences");
    let check_owners = |owners: Vec<Value>, expect: &[&str]| {
        check(&validate_owner_references(&Value::Array(owners), MissingFields::Invalid, &path), expect);
    };
    check_owners(vec![owner("a")], &[]);
    check_owners(
        vec![owner("a"), owner("b")],
        &[
            "metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"a\",\"uid\":\"u\",\
           \"controller\":true},{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"b\",\"uid\":\"u\",\"controller\":true}]: \
           Only one reference can have Controller set to true. Found \"true\" in references for Pod/a and Pod/b",
        ],
    );
    check_owners(
        vec![object! {"apiVersion": "a/b/c"}],
        &[
            "metadata.ownerReferences.apiVersion: Invalid value: \"a/b/c\": version must not be empty",
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
        ],
    );
    check_owners(
        vec![object! {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}],
        &[
            "metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"e\",\"uid\":\"u\"}: \
           /v1, Kind=Event is disallowed from being an owner",
        ],
    );
}

#[test]
fn finalizers_are_validated() {
    let path = FieldPath::new("metadata.finalizers");
    check(&validate_finalizers(&Value::from(vec!["a/b", "orphan"]), &path), &[]);
    check(
        &validate_finalizers(&Value::from(vec!["foregroundDeletion", "orphan"]), &path),
        &["metadata.finalizers: Invalid value: [\"foregroundDeletion\",\"orphan\"]: finalizer orphan and \
           foregroundDeletion cannot be both set"],
    );
    let old = object! {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": vec!["a"], "resourceVersion": "1"};
    let mut new = old.clone();
    new.set("finalizers", vec!["b", "a", "a/c"]);
    check(
        &update(new, old),
        &["metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new \
           finalizers []string{\"a/c\", \"b\"}"],
    );
}

#[test]
fn immutable_fields_and_a_missing_resource_version_are_rejected() {
    let old = object! {
        "name": "a", "namespace": "n", "uid": "u", "generation": 2, "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    };
    let mut same = old.clone();
    same.set("creationTimestamp", "2026-01-01T01:00:00+01:00");
    check(&update(same, old.clone()), &[]);
    check(
        &update(object! {"name": "b", "deletionGracePeriodSeconds": 3, "generation": 1}, old),
        &[
            "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
            "metadata.generation: Invalid value: 1: must not be decremented",
            "metadata.name: Invalid value: \"b\": field is immutable",
            "metadata.namespace: Invalid value: \"\": field is immutable",
            "metadata.uid: Invalid value: \"\": field is immutable",
            "metadata.creationTimestamp: Invalid value: null: field is immutable",
            "metadata.deletionGracePeriodSeconds: Invalid value: 3: field is immutable",
        ],
    );
    let path = FieldPath::new("spec");
    let spec = object! {"a": vec![object! {"b": Value::Array(Vec::new())}]};
    check(&validate_immutable_field(&spec, &object! {"a": vec![object! {}], "c": Value::Null}, &path), &[]);
    check(
        &validate_immutable_field(&object! {"emptyDir": object! {}}, &object! {}, &path),
        &["spec: Invalid value: {\"emptyDir\":{}}: field is immutable"],
    );
}

#[test]
fn managed_fields_are_validated() {
    let entries = vec![
        object! {"operation": "Apply", "fieldsType": "FieldsV1", "manager": "kubectl"},
        object! {"operation": "Create", "fieldsType": "V2", "manager": "a\n", "subresource": "s".repeat(257)},
    ];
    check(
        &validate_managed_fields(
            &Value::from(entries),
            MissingFields::Invalid,
            &FieldPath::new("metadata.managedFields"),
        ),
        &[
            "metadata.managedFields[1].operation: Invalid value: \"Create\": must be `Apply` or `Update`",
            "metadata.managedFields[1].fieldsType: Invalid value: \"V2\": must be `FieldsV1`",
            "metadata.managedFields[1].manager: Invalid value: \"a\\n\": invalid character U+000A (at position 1)",
            "metadata.managedFields[1].subresource: Too long: may not be more than 256 bytes",
        ],
    );
}

#[test]
fn label_selectors_are_validated() {
    let selector = object! {
        "matchLabels": object! {"a": "b"},
        "matchExpressions": vec![
            object! {"key": "a", "operator": "In"},
            object! {"key": "a", "operator": "Exists", "values": vec!["x"]},
            object! {"key": "a", "operator": "Like", "values": vec!["y z"]},
        ],
    };
    let path = FieldPath::new("spec.selector");
    let value = names::label_value("y z").remove(0);
    let mut expect = vec![
        "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or \
         'DoesNotExist'",
        "spec.selector.matchExpressions[2].operator: Invalid value: \"Like\": not a valid selector operator",
    ];
    let lenient = LabelSelectorOptions { allow_invalid_values: true, ..Default::default() };
    check(&validate_label_selector(&selector, lenient, &path), &expect);
    let last = format!("spec.selector.matchExpressions[2].values[0]: Invalid value: \"y z\": {value}");
    expect.push(&last);
    check(&validate_label_selector(&selector, LabelSelectorOptions::default(), &path), &expect);
    assert!(has_invalid_label_value(&selector));
    check(&validate_label_selector(&Value::Null, LabelSelectorOptions::default(), &path), &[]);
}

#[test]
fn conditions_are_validated() {
    let good = object! {
        "type": "Ready", "status": "True", "reason": "A_b:c", "lastTransitionTime": "2026-01-01T00:00:00Z",
    };
    let path = FieldPath::new("status.conditions");
    check(
        &validate_conditions(&Value::from(vec![good.clone(), good.clone()]), MissingFields::Invalid, &path),
        &["status.conditions[1].type: Duplicate value: \"Ready\""],
    );
    let errors =
        validate_condition(&object! {"type": "Ready", "status": "Yes", "reason": "-"}, MissingFields::Invalid, &path);
    let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        text[..2],
        [
            "status.conditions.status: Unsupported value: \"Yes\": supported values: \"False\", \"True\", \"Unknown\"",
            "status.conditions.lastTransitionTime: Required value",
        ]
    );
    assert!(text[2].starts_with("status.conditions.reason: Invalid value: \"-\": a condition reason must start"));
}

#[test]
fn missing_fields_are_required_since_1_37() {
    let missing = MissingFields::Required;
    let path = FieldPath::new("metadata.ownerReferences");
    let event = object! {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"};
    let owner = |version: &str| object! {"apiVersion": version, "kind": "k", "name": "n", "uid": "u"};
    let owners = vec![owner("g/v1"), object! {}, owner("a/b/c"), owner("g/"), event];
    check(
        &validate_owner_references(&Value::from(owners), missing, &path),
        &[
            "metadata.ownerReferences[1].apiVersion: Required value: must not be empty",
            "metadata.ownerReferences[1].kind: Required value: must not be empty",
            "metadata.ownerReferences[1].name: Required value: must not be empty",
            "metadata.ownerReferences[1].uid: Required value: must not be empty",
            "metadata.ownerReferences[2].apiVersion: Invalid value: \"a/b/c\": must be <group>/<version> or <version>",
            "metadata.ownerReferences[3].apiVersion: Invalid value: \"g/\": must be <group>/<version> or <version>",
            "metadata.ownerReferences[4]: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"e\",\
             \"uid\":\"u\"}: /v1, Kind=Event is disallowed from being an owner",
        ],
    );
    let controllers = vec![object! {"controller": true}; 2];
    let errors = validate_owner_references(&Value::from(controllers), missing, &path);
    let last = errors.iter().last().expect("an error");
    assert_eq!((&*last.field, last.kind), ("metadata.ownerReferences", crate::ErrorKind::Invalid));
    let entries = vec![object! {}, object! {"operation": "Create"}];
    check(
        &validate_managed_fields(&Value::from(entries), missing, &FieldPath::new("metadata.managedFields")),
        &[
            "metadata.managedFields[0].operation: Required value: must not be empty",
            "metadata.managedFields[1].operation: Unsupported value: \"Create\": supported values: \"Apply\", \"Update\"",
        ],
    );
    let meta = |generation: i64| object(object! {"resourceVersion": "1", "generation": generation});
    check(
        &validate_object_meta_update(&meta(-1), &meta(1), missing),
        &[
            "metadata.generation: Invalid value: -1: must be greater than or equal to 0",
            "metadata.generation: Invalid value: -1: must not be decremented",
        ],
    );
    let path = FieldPath::new("status.conditions");
    let condition = object! {"reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"};
    check(
        &validate_conditions(&Value::from(vec![condition.clone(), condition]), missing, &path),
        &[
            "status.conditions[0].type: Required value: is required",
            "status.conditions[0].status: Required value",
            "status.conditions[1]: Duplicate value: \"\"",
            "status.conditions[1].type: Required value: is required",
            "status.conditions[1].status: Required value",
        ],
    );
}
