//! Tests the reset fields of every kind with a status against kube-apiserver 1.36: `GetResetFields` of each kind's
//! strategies (`pkg/registry/*/*/strategy.go`), if the kind's storage uses it. Upstream's test
//! `TestFieldsWipingConsistency` compares them with the fields that writes really reset.

use std::collections::BTreeMap;

use pintle_gates::Gates;
use pintle_registry::{Resource, SubresourceRole, reset_field_filter};
use pintle_versions::{EffectiveVersion, Minor};

/// The paths of the fields that a write resets.
type Paths = &'static [&'static str];

const NONE: Paths = &[];
const SPEC: Paths = &["spec"];
const STATUS: Paths = &["status"];
const METADATA_AND_SPEC: Paths = &["metadata", "spec"];

/// A kind, and its reset fields by subresource; the empty name stands for the object itself.
type ExpectedResetFields = (&'static str, &'static [(&'static str, Paths)]);

/// Most kinds: a write of the object resets the status, a write of the status resets the spec.
const MOST: &[(&str, Paths)] = &[("", STATUS), ("status", SPEC)];
/// Kinds whose status writes reset the metadata too (`ResetObjectMetaForStatus`).
const WITH_METADATA: &[(&str, Paths)] = &[("", STATUS), ("status", METADATA_AND_SPEC)];

const EXPECTED: &[ExpectedResetFields] = &[
    ("admissionregistration.k8s.io/v1/validatingadmissionpolicies", WITH_METADATA),
    // A status write can change metadata here, because upstream resets it to the metadata of the request.
    ("apiextensions.k8s.io/v1/customresourcedefinitions", MOST),
    ("apiregistration.k8s.io/v1/apiservices", WITH_METADATA),
    ("apps/v1/daemonsets", MOST),
    ("apps/v1/deployments", &[("", STATUS), ("status", &["metadata.labels", "spec"])]),
    ("apps/v1/replicasets", MOST),
    ("apps/v1/statefulsets", MOST),
    ("autoscaling/v1/horizontalpodautoscalers", MOST),
    ("autoscaling/v2/horizontalpodautoscalers", MOST),
    ("batch/v1/cronjobs", MOST),
    ("batch/v1/jobs", MOST),
    (
        "certificates.k8s.io/v1/certificatesigningrequests",
        &[
            ("", &["spec", "status"]),
            ("approval", &["spec", "status.certificate"]),
            ("status", &["spec", "status.conditions"]),
        ],
    ),
    // A write of the object resets the status without saying so.
    ("certificates.k8s.io/v1beta1/podcertificaterequests", &[("", NONE), ("status", SPEC)]),
    ("flowcontrol.apiserver.k8s.io/v1/flowschemas", WITH_METADATA),
    ("flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", WITH_METADATA),
    // This strategy resets fields without saying so.
    ("internal.apiserver.k8s.io/v1alpha1/storageversions", &[("", NONE), ("status", NONE)]),
    ("networking.k8s.io/v1/ingresses", MOST),
    ("networking.k8s.io/v1beta1/servicecidrs", WITH_METADATA),
    ("resource.k8s.io/v1alpha3/devicetaintrules", WITH_METADATA),
    ("resource.k8s.io/v1alpha3/resourcepoolstatusrequests", WITH_METADATA),
    ("resource.k8s.io/v1beta1/resourceclaims", WITH_METADATA),
    ("resource.k8s.io/v1beta2/devicetaintrules", WITH_METADATA),
    ("resource.k8s.io/v1beta2/resourceclaims", WITH_METADATA),
    ("scheduling.k8s.io/v1alpha2/podgroups", WITH_METADATA),
    ("storagemigration.k8s.io/v1beta1/storageversionmigrations", WITH_METADATA),
    ("networking.k8s.io/v1/servicecidrs", WITH_METADATA),
    ("policy/v1/poddisruptionbudgets", MOST),
    ("resource.k8s.io/v1/resourceclaims", WITH_METADATA),
    ("storage.k8s.io/v1/volumeattachments", WITH_METADATA),
    ("v1/namespaces", &[("", STATUS), ("finalize", STATUS), ("status", SPEC)]),
    ("v1/nodes", MOST),
    ("v1/persistentvolumeclaims", MOST),
    ("v1/persistentvolumes", MOST),
    (
        "v1/pods",
        &[
            ("", STATUS),
            ("ephemeralcontainers", NONE),
            ("resize", NONE),
            ("status", &["metadata.deletionTimestamp", "metadata.ownerReferences", "spec"]),
        ],
    ),
    ("v1/replicationcontrollers", MOST),
    ("v1/resourcequotas", MOST),
    ("v1/services", MOST),
];

fn name(resource: &Resource) -> String {
    let group = if resource.group.is_empty() { String::new() } else { format!("{}/", resource.group) };
    format!("{group}{}/{}", resource.version, resource.plural)
}

#[test]
fn reset_fields_match_upstream() {
    let mut actual = BTreeMap::new();
    for resource in pintle_kinds::all_resources(pintle_catalog::complete()) {
        let written =
            resource.subresources.iter().filter(|s| s.role == SubresourceRole::Object).map(|s| s.name.as_str());
        let names: Vec<&str> = [""].into_iter().chain(written).collect();
        if !names.contains(&"status") {
            assert!(names.iter().all(|name| resource.reset_field_filter(name).is_none()), "{resource:?}");
            continue;
        }
        for subresource in names {
            actual.insert((name(&resource), subresource.to_owned()), resource.reset_field_filter(subresource).cloned());
        }
    }
    let filter = |(subresource, paths): &(&str, Paths)| ((*subresource).to_owned(), reset_field_filter(paths));
    let expect: BTreeMap<_, _> = EXPECTED
        .iter()
        .flat_map(|(kind, fields)| fields.iter().map(filter).map(|(s, paths)| (((*kind).to_owned(), s), paths)))
        .collect();
    assert_eq!(actual, expect);
}

#[test]
fn csi_nodes_have_reset_fields_since_1_37() {
    let minor = Minor::new(37);
    let gates = Gates::of(EffectiveVersion::of(minor));
    let resources = pintle_kinds::all_resources_with(pintle_catalog::complete_of(minor), &gates);
    let nodes = resources.iter().find(|resource| resource.plural.as_str() == "csinodes").expect("a resource");
    for (subresource, paths) in WITH_METADATA {
        assert_eq!(nodes.reset_field_filter(subresource).cloned(), reset_field_filter(paths), "{subresource}");
    }
}
