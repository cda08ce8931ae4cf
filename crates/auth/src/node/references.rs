//! The objects that a pod or a persistent volume refers to, as far as its node may read them (upstream:
//! `Graph.AddPod`, `Graph.AddPV`, `VisitPodSecretNames`, `VisitPodConfigmapNames`, `VisitPVSecretNames`). A field that
//! cannot be read refers to nothing.

use std::borrow::Cow;
use std::collections::BTreeSet;

use pintle_value::Value;

use super::graph::{NodeObject, VertexKind};

/// The annotation of a mirror pod: the kubelet created it for a pod that it runs without the server.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";

/// The sources of a pod's volume that have a secret, and the path of the secret's name. A volume has one source. If it
/// had several sources, the first would count.
const POD_VOLUME_SECRETS: [(&str, &[&str]); 10] = [
    ("azureFile", &["secretName"]),
    ("cephfs", &["secretRef", "name"]),
    ("cinder", &["secretRef", "name"]),
    ("flexVolume", &["secretRef", "name"]),
    ("rbd", &["secretRef", "name"]),
    ("secret", &["secretName"]),
    ("scaleIO", &["secretRef", "name"]),
    ("iscsi", &["secretRef", "name"]),
    ("storageos", &["secretRef", "name"]),
    ("csi", &["nodePublishSecretRef", "name"]),
];

/// The sources of a persistent volume with one secret. The flag is true if a secret without a namespace is in the
/// namespace of the claim.
const VOLUME_SECRETS: [(&str, bool); 7] = [
    ("cephfs", true),
    ("cinder", false),
    ("flexVolume", true),
    ("rbd", true),
    ("scaleIO", true),
    ("iscsi", true),
    ("storageos", false),
];

/// The secrets of the source `csi` that the kubelet reads. The others are for controllers only.
const CSI_SECRETS: [&str; 3] = ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"];

/// The fields of pods that this module reads.
const POD_FIELDS: &[&str] = &[
    "metadata.annotations",
    "spec.nodeName",
    "spec.serviceAccountName",
    "spec.imagePullSecrets",
    "spec.initContainers.env.valueFrom",
    "spec.initContainers.envFrom",
    "spec.containers.env.valueFrom",
    "spec.containers.envFrom",
    "spec.ephemeralContainers.env.valueFrom",
    "spec.ephemeralContainers.envFrom",
    "spec.volumes",
    "spec.resourceClaims",
    "status.resourceClaimStatuses",
    "status.extendedResourceClaimStatus",
];

impl NodeObject {
    /// The paths of the fields that the authorizer reads. The others need not be decoded.
    #[must_use]
    pub const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Pod => POD_FIELDS,
            Self::PersistentVolume => &["spec"],
            Self::VolumeAttachment | Self::ResourceSlice | Self::PodCertificateRequest => &["spec.nodeName"],
        }
    }
}

/// True for a mirror pod: a kubelet created it for a pod that it runs without the server.
#[must_use]
pub fn is_mirror_pod(pod: &Value) -> bool {
    let annotations = pod.at(&["metadata", "annotations"]).and_then(Value::as_object);
    annotations.is_some_and(|annotations| annotations.contains_key(MIRROR_POD))
}

/// Objects in the namespace of a pod, by kind and name.
pub(super) type PodReferences<'a> = Vec<(VertexKind, Cow<'a, str>)>;

/// The objects that a node may read because of a pod.
pub(super) fn of_pod<'a>(pod: &'a Value, pod_name: &str) -> PodReferences<'a> {
    // A node creates its mirror pods itself, so they must not give it access to anything.
    if is_mirror_pod(pod) {
        return Vec::new();
    }
    references(pod, pod_name)
}

/// The names of the secrets that a pod refers to (`VisitPodSecretNames`).
#[must_use]
pub fn pod_secret_names(pod: &Value) -> BTreeSet<String> {
    names_of(pod, VertexKind::Secret)
}

/// The names of the ConfigMaps that a pod refers to (`VisitPodConfigmapNames`).
#[must_use]
pub fn pod_config_map_names(pod: &Value) -> BTreeSet<String> {
    names_of(pod, VertexKind::ConfigMap)
}

fn names_of(pod: &Value, wanted: VertexKind) -> BTreeSet<String> {
    let references = references(pod, pod.name()).into_iter();
    references.filter(|(kind, _)| *kind == wanted).map(|(_, name)| name.into_owned()).collect()
}

fn references<'a>(pod: &'a Value, pod_name: &str) -> PodReferences<'a> {
    let mut found = Vec::new();
    let mut add = |kind, name: Cow<'a, str>| {
        if !name.is_empty() {
            found.push((kind, name));
        }
    };
    add(VertexKind::ServiceAccount, pod.str_at(&["spec", "serviceAccountName"]).into());
    for secret in pod.items_at(&["spec", "imagePullSecrets"]) {
        add(VertexKind::Secret, secret.str_at(&["name"]).into());
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in pod.items_at(&["spec", list]) {
            for source in container.items_at(&["envFrom"]) {
                add(VertexKind::Secret, source.str_at(&["secretRef", "name"]).into());
                add(VertexKind::ConfigMap, source.str_at(&["configMapRef", "name"]).into());
            }
            for variable in container.items_at(&["env"]) {
                add(VertexKind::Secret, variable.str_at(&["valueFrom", "secretKeyRef", "name"]).into());
                add(VertexKind::ConfigMap, variable.str_at(&["valueFrom", "configMapKeyRef", "name"]).into());
            }
        }
    }
    for volume in pod.items_at(&["spec", "volumes"]) {
        for source in volume.items_at(&["projected", "sources"]) {
            add(VertexKind::Secret, source.str_at(&["secret", "name"]).into());
            add(VertexKind::ConfigMap, source.str_at(&["configMap", "name"]).into());
        }
        let secret = POD_VOLUME_SECRETS.iter().find_map(|(source, path)| Some(volume.get(source)?.str_at(path)));
        add(VertexKind::Secret, secret.unwrap_or_default().into());
        add(VertexKind::ConfigMap, volume.str_at(&["configMap", "name"]).into());
        if let Some(claim) = volume.get("persistentVolumeClaim") {
            add(VertexKind::Claim, claim.str_at(&["claimName"]).into());
        } else if volume.get("ephemeral").is_some() {
            add(VertexKind::Claim, format!("{pod_name}-{}", volume.str_at(&["name"])).into());
        }
    }
    for claim in pod.items_at(&["spec", "resourceClaims"]) {
        add(VertexKind::ResourceClaim, resource_claim(pod, claim).into());
    }
    let extended = pod.str_at(&["status", "extendedResourceClaimStatus", "resourceClaimName"]);
    add(VertexKind::ResourceClaim, extended.into());
    found
}

/// The name of a pod's resource claim, or of the claim that was created from the claim's template. `""` if there is
/// none (`resourceclaim.Name`).
fn resource_claim<'a>(pod: &'a Value, claim: &'a Value) -> &'a str {
    if let Some(name) = claim.get("resourceClaimName") {
        return name.as_str().unwrap_or_default();
    }
    if claim.get("resourceClaimTemplateName").is_none() {
        return "";
    }
    let statuses = pod.items_at(&["status", "resourceClaimStatuses"]);
    let status = statuses.iter().find(|status| status.str_at(&["name"]) == claim.str_at(&["name"]));
    status.map_or("", |status| status.str_at(&["resourceClaimName"]))
}

/// The namespace and name of the claim that a persistent volume is bound to.
pub(super) fn claim_of_volume(volume: &Value) -> Option<(&str, &str)> {
    let claim = volume.at(&["spec", "claimRef"])?;
    Some((claim.str_at(&["namespace"]), claim.str_at(&["name"])))
}

/// The namespaces and names of the secrets that a node may read because of a persistent volume.
pub(super) fn secrets_of_volume<'a>(volume: &'a Value) -> Vec<(&'a str, &'a str)> {
    let Some(spec) = volume.get("spec") else { return Vec::new() };
    let claim_namespace = spec.str_at(&["claimRef", "namespace"]);
    let or_claim = |namespace: &'a str| if namespace.is_empty() { claim_namespace } else { namespace };
    let mut found = Vec::new();
    if let Some(source) = spec.get("azureFile") {
        found.push((or_claim(source.str_at(&["secretNamespace"])), source.str_at(&["secretName"])));
    } else if let Some((secret, in_claim_namespace)) =
        VOLUME_SECRETS.iter().find_map(|(source, in_claim)| Some((spec.get(source)?.get("secretRef"), *in_claim)))
    {
        let namespace = secret.map_or("", |secret| secret.str_at(&["namespace"]));
        let namespace = if in_claim_namespace { or_claim(namespace) } else { namespace };
        found.extend(secret.map(|secret| (namespace, secret.str_at(&["name"]))));
    } else if let Some(csi) = spec.get("csi") {
        let secrets = CSI_SECRETS.iter().filter_map(|secret| csi.get(secret));
        found.extend(secrets.map(|secret| (secret.str_at(&["namespace"]), secret.str_at(&["name"]))));
    }
    found.retain(|(_, name)| !name.is_empty());
    found
}
