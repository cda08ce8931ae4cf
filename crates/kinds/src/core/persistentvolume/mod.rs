//! The strategy of PersistentVolume. `spec` validates the spec, which VolumeAttachments contain, too.

mod spec;
mod strategy;

use pintle_value::{Errors, FieldError, FieldPath, names};

use crate::validation::invalid_each;

pub(crate) use spec::validate_inline_volume_spec;
pub(crate) use strategy::PersistentVolumeStrategy;

/// The annotation that preceded `storageClassName`.
pub(super) const STORAGE_CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
pub(super) const STORAGE_CLASS_DEPRECATION: &str = r#"deprecated since v1.8; use "storageClassName" attribute instead"#;

const MAX_CSI_DRIVER_NAME: usize = 63;

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
