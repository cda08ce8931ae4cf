//! The objects of the API that a pod refers to (upstream: `pkg/api/pod`, `HasAPIObjectReference`).

use pintle_auth::node::{pod_config_map_names, pod_secret_names};
use pintle_value::Value;
use pintle_value::print::quote;

/// The sources of volumes that refer to nothing in the API.
const PLAIN_VOLUMES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// The sources of volumes that refer to objects of the API, with upstream's text for these objects.
const VOLUMES: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// The sources of projected volumes, with upstream's text for the objects that they refer to.
const PROJECTED: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// The first kind of object that a pod refers to, as upstream names it. A volume of an unknown type is an error.
pub(super) fn of_pod(pod: &Value) -> Result<Option<&'static str>, String> {
    if !pod.str_at(&["spec", "serviceAccountName"]).is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    if !pod_secret_names(pod).is_empty() {
        return Ok(Some("secrets"));
    }
    if !pod_config_map_names(pod).is_empty() {
        return Ok(Some("configmaps"));
    }
    if !pod.items_at(&["spec", "resourceClaims"]).is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in pod.items_at(&["spec", "volumes"]) {
        let has = |source: &str| volume.get(source).is_some();
        if PLAIN_VOLUMES.into_iter().any(has) {
            continue;
        }
        if let Some((_, resource)) = VOLUMES.into_iter().find(|(source, _)| has(source)) {
            return Ok(Some(resource));
        }
        let name = quote(volume.str_at(&["name"]));
        if !has("projected") {
            return Err(format!("unknown volume type for volume  {name}"));
        }
        for source in volume.items_at(&["projected", "sources"]) {
            if let Some((_, resource)) = PROJECTED.into_iter().find(|(field, _)| source.get(field).is_some()) {
                return Ok(Some(resource));
            }
            if source.get("downwardAPI").is_none() {
                return Err(format!("unknown source for projected volume {name}"));
            }
        }
    }
    Ok(None)
}
