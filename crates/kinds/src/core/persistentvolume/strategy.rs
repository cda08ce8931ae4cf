//! The strategy for PersistentVolume: status, phases, and the immutable source (upstream:
//! `pkg/registry/core/persistentvolume`, `ValidatePersistentVolume...`). The rules for the spec are in `spec`.

use pintle_gates::Feature;
use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, FieldPath, Value, object};

use super::spec::{SOURCES, validate_volume_spec};
use crate::core::node::deprecated_node_label;
use crate::core::pod::defaults::round_resource_list;
use crate::generic::{keep_old, reset_status, same, same_at, validate_immutable};
use crate::go_diff::{self, GoStruct};

const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// The sources that support mount options.
const MOUNTABLE: [&str; 13] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];

/// Deprecated annotations, with their warnings.
const DEPRECATED_ANNOTATIONS: [(&str, &str); 2] = [
    (super::STORAGE_CLASS_ANNOTATION, super::STORAGE_CLASS_DEPRECATION),
    (MOUNT_OPTIONS, r#"deprecated since v1.31; use "mountOptions" attribute instead"#),
];

/// Sources whose plugin was removed, with the field as the warning shows it.
const REMOVED_SOURCES: [(&str, &str, &str); 6] = [
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// The strategy for PersistentVolume.
pub(crate) struct PersistentVolumeStrategy;

impl Strategy for PersistentVolumeStrategy {
    fn defaults(&self, object: &mut Value) {
        if object.str_at(&["status", "phase"]).is_empty() {
            object.set_at(&["status", "phase"], "Pending");
        }
        if object.str_at(&["spec", "persistentVolumeReclaimPolicy"]).is_empty() {
            object.set_at(&["spec", "persistentVolumeReclaimPolicy"], "Retain");
        }
        if let Some(spec) = object.at_mut(&["spec"]) {
            spec.set_default("volumeMode", "Filesystem");
            if let Some(host_path) = spec.get_mut("hostPath") {
                host_path.set_default("type", "");
            }
        }
        round_resource_list(object, &["spec", "capacity"]);
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, object! { "phase": "Pending", "lastPhaseTransitionTime": context.now });
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let any_value = old.is_some_and(has_invalid_affinity_value);
        let mut errors = validate(object, any_value);
        let Some(old) = old else { return errors };
        // Upstream validates the spec once more here.
        validate_volume_spec(&mut errors, &object["spec"], object.name(), any_value, &FieldPath::new("spec"));
        validate_unchanged(context, &mut errors, object, old);
        if !context.gates.is_enabled(Feature::MUTABLE_PV_NODE_AFFINITY) {
            validate_unchanged_affinity(&mut errors, object, old);
        }
        validate_kept_attributes_class(&mut errors, object, old);
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, _: Option<&Value>) -> Vec<String> {
        warnings(object)
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&VolumeStatusStrategy as &dyn SubresourceStrategy)
    }
}

fn validate(object: &Value, any_value: bool) -> Errors {
    let mut errors = Errors::new();
    let spec = &object["spec"];
    validate_volume_spec(&mut errors, spec, object.name(), any_value, &FieldPath::new("spec"));
    if object.annotation(MOUNT_OPTIONS).is_some() && MOUNTABLE.iter().all(|source| spec.get(source).is_none()) {
        let path = FieldPath::new("metadata.annotations");
        errors.forbidden(&path.child(MOUNT_OPTIONS), "may not specify mount options for this volume type");
    }
    errors
}

fn has_invalid_affinity_value(object: &Value) -> bool {
    let terms = object.items_at(&["spec", "nodeAffinity", "required", "nodeSelectorTerms"]).iter();
    terms
        .flat_map(|term| term.items_at(&["matchExpressions"]))
        .flat_map(|expression| expression.items_at(&["values"]))
        .any(|value| !pintle_value::names::label_value(value.as_str().unwrap_or_default()).is_empty())
}

/// Validates the immutable parts of the spec: the source. The claim reference and the reclaim policy may change.
fn validate_unchanged(context: &StrategyContext, errors: &mut Errors, object: &Value, old: &Value) {
    let source = |volume: &Value| -> Value {
        let entries = volume.entries_at(&["spec"]).filter(|(field, _)| SOURCES.iter().any(|s| s.field == *field));
        Value::Object(entries.map(|(field, value)| (field, value.clone())).collect())
    };
    let (mut new_source, old_source) = (source(object), source(old));
    // The secret for expansion may be added later.
    let expand = ["csi", "controllerExpandSecretRef"];
    if old_source.get("csi").is_some() && old_source.at(&expand).is_none() {
        new_source.remove_at(&expand);
    }
    if !same(Some(&new_source), Some(&old_source)) {
        let difference =
            go_diff::structs(&old_source, &new_source, GoStruct("core/v1.PersistentVolumeSource", context.minor()));
        let path = FieldPath::new("spec.persistentvolumesource");
        errors.forbidden(&path, format!("spec.persistentvolumesource is immutable after creation\n{difference}"));
    }
    let mode = ["spec", "volumeMode"];
    validate_immutable(errors, object.at(&mode), old.at(&mode), &FieldPath::new("volumeMode"));
}

/// Validates that a node affinity stays, unless it only names labels by their newer names.
fn validate_unchanged_affinity(errors: &mut Errors, object: &Value, old: &Value) {
    let affinity = ["spec", "nodeAffinity"];
    if old.at(&affinity).is_some()
        && !same(with_current_node_labels(object).as_ref(), with_current_node_labels(old).as_ref())
    {
        let shown = object.at(&affinity).cloned().unwrap_or_default();
        let detail = "field is immutable, except for updating from beta label to GA";
        errors.invalid(&FieldPath::new("nodeAffinity"), shown, detail);
    }
}

/// Validates that an attributes class is not removed.
fn validate_kept_attributes_class(errors: &mut Errors, object: &Value, old: &Value) {
    let class = ["spec", "volumeAttributesClassName"];
    if old.at(&class).is_some() && object.at(&class).is_none() {
        let path = FieldPath::new("spec.volumeAttributesClassName");
        errors.forbidden(&path, "update from non-nil value to nil is forbidden");
    }
}

/// Returns the node affinity with the beta labels of nodes replaced by their successors.
fn with_current_node_labels(object: &Value) -> Option<Value> {
    let mut affinity = object.at(&["spec", "nodeAffinity"])?.clone();
    let terms = affinity.at_mut(&["required", "nodeSelectorTerms"]).and_then(Value::as_array_mut);
    for term in terms.into_iter().flatten() {
        let expressions = term.at_mut(&["matchExpressions"]).and_then(Value::as_array_mut);
        for expression in expressions.into_iter().flatten() {
            let label = match expression.str_at(&["key"]) {
                "beta.kubernetes.io/arch" => "kubernetes.io/arch",
                "beta.kubernetes.io/os" => "kubernetes.io/os",
                "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
                "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
                "beta.kubernetes.io/instance-type" => "node.kubernetes.io/instance-type",
                _ => continue,
            };
            expression.set("key", label);
        }
    }
    Some(affinity)
}

fn warnings(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (key, text) in DEPRECATED_ANNOTATIONS {
        if object.annotation(key).is_some() {
            warnings.push(format!("metadata.annotations[{key}]: {text}"));
        }
    }
    if object.str_at(&["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended \
             approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    let terms = ["spec", "nodeAffinity", "required", "nodeSelectorTerms"];
    for (i, term) in object.items_at(&terms).iter().enumerate() {
        for (j, expression) in term.items_at(&["matchExpressions"]).iter().enumerate() {
            let key = expression.str_at(&["key"]);
            if let Some(text) = deprecated_node_label(key) {
                let path = format!("spec.nodeAffinity.required.nodeSelectorTerms[{i}].matchExpressions[{j}].key");
                warnings.push(format!("{path}: {key} is {text}"));
            }
        }
    }
    for (field, shown, text) in REMOVED_SOURCES {
        if object.at(&["spec", field]).is_some() {
            warnings.push(format!("spec.{shown}: {text}"));
        }
    }
    warnings
}

/// The strategy for the `status` subresource. A change of the phase sets `lastPhaseTransitionTime`.
struct VolumeStatusStrategy;

impl SubresourceStrategy for VolumeStatusStrategy {
    fn prepare_for_update(&self, context: &StrategyContext, object: &mut Value, old: &Value) {
        const TIME: [&str; 2] = ["status", "lastPhaseTransitionTime"];
        keep_old(object, old, &["spec"]);
        let given = object.at(&TIME).is_some();
        if same_at(object, old, &["status", "phase"]) {
            if !given {
                keep_old(object, old, &TIME);
            }
        } else if !given || same_at(object, old, &TIME) {
            object.set_at(&TIME, context.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use pintle_gates::Gates;

    use super::*;
    use crate::testing::{context, messages, object};

    const GOOD: &str = r#"{"metadata":{"name":"v"},"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],
        "csi":{"driver":"d.example.com","volumeHandle":"h"},"persistentVolumeReclaimPolicy":"Retain","volumeMode":"Filesystem"}}"#;

    fn check_update(change: impl Fn(&mut Value), expect: &[&str]) {
        let old = object(GOOD);
        let mut new = old.clone();
        change(&mut new);
        assert_eq!(messages(&PersistentVolumeStrategy.validate_update(&context(), &new, &old)), expect);
    }

    #[test]
    fn defaults_and_status() {
        let mut volume = object(r#"{"spec":{"capacity":{"storage":"1500u"},"hostPath":{"path":"/x"}}}"#);
        PersistentVolumeStrategy.defaults(&mut volume);
        PersistentVolumeStrategy.prepare_for_create(&context(), &mut volume);
        assert_eq!(
            volume,
            object(
                r#"{"spec":{"capacity":{"storage":"2m"},"hostPath":{"path":"/x","type":""},"volumeMode":"Filesystem",
                    "persistentVolumeReclaimPolicy":"Retain"},
                    "status":{"phase":"Pending","lastPhaseTransitionTime":"2023-11-14T22:13:20Z"}}"#
            )
        );
        let status = PersistentVolumeStrategy.subresource("status").expect("status");
        let mut bound = volume.clone();
        bound.set_at(&["status", "phase"], "Bound");
        let later = StrategyContext { now: pintle_value::time::Time { seconds: 1_700_000_060, nanos: 0 }, ..context() };
        status.prepare_for_update(&later, &mut bound, &volume);
        assert_eq!(bound.str_at(&["status", "lastPhaseTransitionTime"]), "2023-11-14T22:14:20Z");
    }

    #[test]
    fn the_source_is_immutable() {
        check_update(|_| {}, &[]);
        check_update(
            |v| v.set_at(&["spec", "csi", "controllerExpandSecretRef"], object(r#"{"name":"a","namespace":"b"}"#)),
            &[],
        );
        check_update(|v| v.set_at(&["spec", "persistentVolumeReclaimPolicy"], "Delete"), &[]);
        check_update(
            |v| v.set_at(&["spec", "volumeMode"], "Block"),
            &["volumeMode: Invalid value: \"Block\": field is immutable"],
        );
        let old = object(GOOD);
        let mut new = old.clone();
        new.set_at(&["spec", "csi", "volumeHandle"], "i");
        let errors = messages(&PersistentVolumeStrategy.validate_update(&context(), &new, &old));
        assert_eq!(errors.len(), 1);
        assert!(errors[0].starts_with(
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n@@"
        ));
    }

    #[test]
    fn the_node_affinity_is_immutable_unless_its_feature_is_enabled() {
        let with_zone = |zone: &str| {
            let mut volume = object(GOOD);
            let expression = format!(r#"{{"key":"topology.kubernetes.io/zone","operator":"In","values":["{zone}"]}}"#);
            let term = format!(r#"{{"nodeSelectorTerms":[{{"matchExpressions":[{expression}]}}]}}"#);
            volume.set_at(&["spec", "nodeAffinity", "required"], object(&term));
            volume
        };
        let (old, new) = (with_zone("a"), with_zone("b"));
        let errors = messages(&PersistentVolumeStrategy.validate_update(&context(), &new, &old));
        assert!(errors.len() == 1 && errors[0].contains("field is immutable, except"), "{errors:?}");
        let (gates, _) =
            Gates::with_overrides(&[("MutablePVNodeAffinity".to_owned(), true)].into()).expect("a feature gate");
        let enabled = StrategyContext { gates: gates.into(), ..context() };
        assert!(PersistentVolumeStrategy.validate_update(&enabled, &new, &old).is_empty());
    }

    #[test]
    fn deprecated_fields_and_annotations_warn() {
        let volume = object(
            r#"{"metadata":{"annotations":{"volume.beta.kubernetes.io/storage-class":"a"}},
                "spec":{"persistentVolumeReclaimPolicy":"Recycle","storageos":{}}}"#,
        );
        assert_eq!(
            PersistentVolumeStrategy.warnings(&context(), &volume, None),
            [
                "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \"storageClassName\" attribute instead",
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
                "spec.storageOS: deprecated in v1.22, non-functional in v1.25+",
            ]
        );
    }
}
