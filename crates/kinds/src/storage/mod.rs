//! Strategies of the group `storage.k8s.io`.

mod attachment;
mod class;
mod csi;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    Some(match plural {
        "csidrivers" => Arc::new(csi::CsiDriverStrategy),
        "csinodes" => Arc::new(csi::CsiNodeStrategy),
        "csistoragecapacities" => Arc::new(csi::CsiStorageCapacityStrategy),
        "storageclasses" => Arc::new(class::StorageClassStrategy),
        "volumeattachments" => Arc::new(attachment::VolumeAttachmentStrategy),
        "volumeattributesclasses" => Arc::new(class::VolumeAttributesClassStrategy),
        _ => return None,
    })
}
