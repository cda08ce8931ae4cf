//! Tests that the strategies follow each line of the table: with the gate on, off, and off with the field in use.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_gates::Gates;
use pintle_registry::{Resource, StrategyContext};
use pintle_versions::{EffectiveVersion, Minor};

use super::*;
use crate::testing::context;

/// A kind with a part, and where it is.
type PartOfKind = (&'static str, &'static [&'static str]);

/// The kinds with each part.
const KINDS: [(Part, &[PartOfKind]); 19] = [
    (
        Part::PodSpec,
        &[
            ("Pod", &["spec"]),
            ("PodTemplate", &["template", "spec"]),
            ("ReplicationController", &["spec", "template", "spec"]),
            ("ReplicaSet", &["spec", "template", "spec"]),
            ("Deployment", &["spec", "template", "spec"]),
            ("DaemonSet", &["spec", "template", "spec"]),
            ("StatefulSet", &["spec", "template", "spec"]),
            ("Job", &["spec", "template", "spec"]),
            ("CronJob", &["spec", "jobTemplate", "spec", "template", "spec"]),
        ],
    ),
    (Part::Pod, &[("Pod", &[])]),
    (Part::ClaimSpec, &[("PersistentVolumeClaim", &["spec"])]),
    (Part::Claim, &[("PersistentVolumeClaim", &[])]),
    (Part::Node, &[("Node", &[])]),
    (Part::Replicas, &[("ReplicaSet", &[]), ("Deployment", &[])]),
    (Part::StatefulSet, &[("StatefulSet", &[])]),
    (Part::JobSpec, &[("Job", &["spec"]), ("CronJob", &["spec", "jobTemplate", "spec"])]),
    (Part::Autoscaler, &[("HorizontalPodAutoscaler", &[])]),
    (Part::Lease, &[("Lease", &[])]),
    (Part::CsiDriver, &[("CSIDriver", &[])]),
    (Part::CsiNode, &[("CSINode", &[])]),
    (Part::DeviceClass, &[("DeviceClass", &[])]),
    (Part::DeviceClaim, &[("ResourceClaim", &["spec"]), ("ResourceClaimTemplate", &["spec", "spec"])]),
    (Part::ClaimStatus, &[("ResourceClaim", &[])]),
    (Part::ResourceSlice, &[("ResourceSlice", &[])]),
    // The templates of a Workload are items of a list: its own tests have them.
    (Part::PodGroup, &[("PodGroup", &["spec"])]),
    (Part::CompositePodGroup, &[("CompositePodGroup", &["spec"])]),
    (Part::PodGroupStatus, &[("PodGroup", &[])]),
];

/// Sets a gate of a version. Also turns on the gates that it needs, or turns off the gates that need it. `None` if the gate
/// is locked to another state.
fn with_gate(minor: Minor, name: &str, enabled: bool) -> Option<StrategyContext> {
    let defaults = Gates::of(EffectiveVersion::of(minor));
    let mut overrides = BTreeMap::new();
    let mut pending = vec![name.to_owned()];
    while let Some(name) = pending.pop() {
        for (gate, _) in defaults.states() {
            let depends = if enabled { gate.name == name } else { gate.dependencies.contains(&name.as_str()) };
            match enabled {
                true if depends => pending.extend(gate.dependencies.iter().map(|name| (*name).to_owned())),
                false if depends => pending.push(gate.name.to_owned()),
                _ => {}
            }
        }
        overrides.insert(name, enabled);
    }
    let (gates, _) = defaults.overridden(&overrides).ok()?;
    Some(StrategyContext { gates: Arc::new(gates), ..context() })
}

/// Returns an object with a part.
fn object_with(base: &[&str], part: Value) -> Value {
    base.iter().rev().fold(part, |inner, field| {
        let mut object = Value::object();
        object.set(field, inner);
        object
    })
}

/// Prepares the write of an object, and returns whether it still uses a path.
fn keeps(
    context: &StrategyContext,
    resource: &Resource,
    base: &[&str],
    path: &Path,
    object: &Value,
    old: Option<&Value>,
) -> bool {
    let mut written = object.clone();
    let in_status = object.at(base).is_some_and(|part| part.get("status").is_some());
    match (resource.strategy.subresource("status").filter(|_| in_status), old) {
        (Some(status), old) => status.prepare_for_update(context, &mut written, old.unwrap_or(&Value::object())),
        (None, Some(old)) => resource.strategy.prepare_for_update(context, &mut written, old),
        (None, None) => resource.strategy.prepare_for_create(context, &mut written),
    }
    written.at(base).is_some_and(|part| path.is_used(part))
}

#[test]
fn the_table_is_valid() {
    assert_eq!(table().len(), lines().count());
    for gated in table() {
        let minors = Minor::known().filter(|minor| gated.versions.contains(*minor));
        let is_settable = minors
            .map(|minor| Gates::of(EffectiveVersion::of(minor)))
            .any(|gates| gates.states().any(|(gate, _)| gate.name == gated.gate.name() && !gate.locked));
        assert!(is_settable, "{} is locked, so its fields are never dropped", gated.gate.name());
    }
}

#[test]
fn strategies_drop_the_fields_of_gates_that_are_off() {
    for minor in [Minor::new(36), Minor::new(37)] {
        check_strategies(minor);
    }
}

fn check_strategies(minor: Minor) {
    let gates = Gates::of(EffectiveVersion::of(minor));
    let resources = crate::all_resources_with(pintle_catalog::complete_of(minor), &gates);
    let mut checked = 0;
    for gated in table().iter().filter(|gated| gated.versions.contains(minor)) {
        let gate = gated.gate.name();
        // A gate that is locked drops nothing.
        let (Some(on), Some(off)) = (with_gate(minor, gate, true), with_gate(minor, gate, false)) else { continue };
        let (_, kinds) = KINDS.iter().find(|(part, _)| *part == gated.part).expect("kinds");
        for (kind, base) in *kinds {
            let resource = resources.iter().find(|r| r.kind.as_str() == *kind && r.is_hub()).expect(kind);
            let used = gated.used.as_ref().unwrap_or(&gated.fields);
            for path in &gated.fields {
                checked += 1;
                let name = format!("{gate} in {kind} of {minor}: {path:?}");
                let object = object_with(base, path.example());
                assert!(keeps(&on, resource, base, path, &object, None), "on: {name}");
                assert!(!keeps(&off, resource, base, path, &object, None), "off: {name}");
                assert!(!keeps(&off, resource, base, path, &object, Some(&Value::object())), "off, update: {name}");
                for used in used {
                    let old = object_with(base, used.example());
                    assert!(keeps(&off, resource, base, path, &object, Some(&old)), "in use: {name}");
                }
                if used.is_empty() {
                    assert!(!keeps(&off, resource, base, path, &object, Some(&object)), "never in use: {name}");
                }
            }
        }
    }
    assert!(checked > 100, "only {checked} fields");
}
