//! The projected volume with a token of the pod's service account, the certificate authority and the name of the
//! namespace. It is mounted into the containers of a pod.

use pintle_value::{Value, object};

/// The path at which clients in pods look for the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The beginning of the volume's name.
const NAME_PREFIX: &str = "kube-api-access-";
/// The lifetime of the token in seconds, which distinguishes it from tokens that a pod requests itself (upstream:
/// `WarnOnlyBoundTokenExpirationSeconds`).
const EXPIRATION_SECONDS: i64 = 60 * 60 + 7;
/// The mode 0644.
const DEFAULT_MODE: i64 = 0o644;

/// Adds the volume to a pod spec. Mounts it in the containers that have no other mount at its path.
pub(super) fn mount(spec: &mut Value) {
    let names = spec.items_at(&["volumes"]).iter().map(|volume| volume.str_at(&["name"]));
    let existing = names.into_iter().find(|name| name.starts_with(NAME_PREFIX)).map(str::to_owned);
    let name = existing.clone().unwrap_or_else(|| pintle_registry::generate_name(NAME_PREFIX).into());
    let mut is_mounted = false;
    for list in ["initContainers", "containers"] {
        let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) else { continue };
        for container in containers {
            let is_at_path = |mount: &Value| mount.str_at(&["mountPath"]) == MOUNT_PATH;
            if container.items_at(&["volumeMounts"]).iter().any(is_at_path) {
                continue;
            }
            let Some(container) = container.as_object_mut() else { continue };
            if let Some(mounts) = container.entry("volumeMounts").or_array() {
                mounts.push(object! {"mountPath": MOUNT_PATH, "name": name.as_str(), "readOnly": true});
                is_mounted = true;
            }
        }
    }
    if existing.is_some() || !is_mounted {
        return;
    }
    let Some(spec) = spec.as_object_mut() else { return };
    if let Some(volumes) = spec.entry("volumes").or_array() {
        volumes.push(object! {"name": name, "projected": source()});
    }
}

fn source() -> Value {
    let token = object! {"expirationSeconds": EXPIRATION_SECONDS, "path": "token"};
    let authority = object! {
        "name": "kube-root-ca.crt", "items": vec![object! {"key": "ca.crt", "path": "ca.crt"}],
    };
    let field = object! {"apiVersion": "v1", "fieldPath": "metadata.namespace"};
    let namespace = object! {"items": vec![object! {"fieldRef": field, "path": "namespace"}]};
    let sources = vec![
        object! {"serviceAccountToken": token},
        object! {"configMap": authority},
        object! {"downwardAPI": namespace},
    ];
    object! {"defaultMode": DEFAULT_MODE, "sources": sources}
}

/// True if a pod has a volume with a token of a service account.
pub(super) fn has_projected_token(pod: &Value) -> bool {
    let volumes = pod.items_at(&["spec", "volumes"]).iter();
    let mut sources = volumes.flat_map(|volume| volume.items_at(&["projected", "sources"]));
    sources.any(|source| source.get("serviceAccountToken").is_some())
}
