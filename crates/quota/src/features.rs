//! The features that decide what quotas count. They can be disabled in 1.36; those whose gates are locked are not here.

use pintle_gates::{Feature, Gates};

/// Which features are enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaFeatures {
    /// Pods may request resources as a whole (`PodLevelResources`).
    pub pod_level_resources: bool,
    /// What a pod requests as a whole can be resized (`InPlacePodLevelResourcesVerticalScaling`).
    pub pod_level_resize: bool,
    /// Device classes stand for extended resources (`DRAExtendedResource`).
    pub extended_resources_of_classes: bool,
}

impl QuotaFeatures {
    /// The features that these gates enable.
    #[must_use]
    pub fn of(gates: &Gates) -> Self {
        Self {
            pod_level_resources: gates.is_enabled(Feature::POD_LEVEL_RESOURCES),
            pod_level_resize: gates.is_enabled(Feature::IN_PLACE_POD_LEVEL_RESOURCES_VERTICAL_SCALING),
            extended_resources_of_classes: gates.is_enabled(Feature::DRA_EXTENDED_RESOURCE),
        }
    }
}

impl Default for QuotaFeatures {
    fn default() -> Self {
        Self::of(&Gates::default())
    }
}
