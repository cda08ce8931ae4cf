//! Strategies of the core group for cluster resources, configuration and storage.

mod claim;
mod configmap;
mod key_pair;
mod limitrange;
mod namespace;
mod node;
mod quota;
mod secret;
mod serviceaccount;
mod volume;
mod volume_spec;

use std::sync::Arc;

use pintle_registry::Strategy;
use pintle_value::{Errors, FieldError, FieldPath, names};

use crate::validation::invalid_each;

pub(crate) use volume_spec::validate_inline_volume_spec;

/// The maximum total size of the data of a config map or a secret (upstream: `MaxSecretSize`).
const MAX_DATA_BYTES: usize = 1024 * 1024;

/// The annotation that preceded `storageClassName`.
const STORAGE_CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const STORAGE_CLASS_DEPRECATION: &str = r#"deprecated since v1.8; use "storageClassName" attribute instead"#;

const MAX_CSI_DRIVER_NAME: usize = 63;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    Some(match plural {
        "configmaps" => Arc::new(configmap::ConfigMapStrategy),
        "limitranges" => Arc::new(limitrange::LimitRangeStrategy),
        "namespaces" => Arc::new(namespace::NamespaceStrategy),
        "nodes" => Arc::new(node::NodeStrategy),
        "persistentvolumeclaims" => Arc::new(claim::PersistentVolumeClaimStrategy),
        "persistentvolumes" => Arc::new(volume::PersistentVolumeStrategy),
        "resourcequotas" => Arc::new(quota::ResourceQuotaStrategy),
        "secrets" => Arc::new(secret::SecretStrategy),
        "serviceaccounts" => Arc::new(serviceaccount::ServiceAccountStrategy),
        _ => return None,
    })
}

/// Validates the name of a CSI driver (upstream: `ValidateCSIDriverName`).
pub(crate) fn validate_csi_driver_name(errors: &mut Errors, name: &str, path: &FieldPath<'_>) {
    if name.is_empty() {
        errors.required(path, "");
        return;
    }
    if name.len() > MAX_CSI_DRIVER_NAME {
        errors.push(FieldError::too_long(path, MAX_CSI_DRIVER_NAME));
    }
    invalid_each(errors, path, name, names::dns1123_subdomain(&name.to_lowercase()));
}

/// Returns the warning about a deprecated node label (upstream: `GetNodeLabelDeprecatedMessage`).
pub(crate) fn deprecated_node_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#,
        "beta.kubernetes.io/os" => r#"deprecated since v1.14; use "kubernetes.io/os" instead"#,
        "failure-domain.beta.kubernetes.io/region" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#
        }
        "beta.kubernetes.io/instance-type" => {
            r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => "deprecated since v1.22; use Taints and Tolerations instead",
        "node-role.kubernetes.io/master" => r#"use "node-role.kubernetes.io/control-plane" instead"#,
        _ => return None,
    })
}
