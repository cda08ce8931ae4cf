//! Strategies of the group `storage.k8s.io`.

mod attachment;
mod class;
mod csi;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    Some(match plural {
        "csidrivers" => Arc::new(csi::CsiDriver),
        "csinodes" => Arc::new(csi::CsiNode),
        "csistoragecapacities" => Arc::new(csi::CsiStorageCapacity),
        "storageclasses" => Arc::new(class::StorageClass),
        "volumeattachments" => Arc::new(attachment::VolumeAttachment),
        "volumeattributesclasses" => Arc::new(class::VolumeAttributesClass),
        _ => return None,
    })
}
