//! The features that change what quotas count. They can be disabled in 1.36. Features with locked gates are not here.

use pintle_gates::{Change, Feature, Gates};

/// The enabled features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaFeatures {
    /// Pods may have requests of their own, beside their containers (`PodLevelResources`).
    pub pod_level_resources: bool,
    /// The pod's own requests can be resized (`InPlacePodLevelResourcesVerticalScaling`).
    pub pod_level_resize: bool,
    /// The wanted, the allocated and the actual resources of a pod are each summed before the maximum is taken.
    pub sums_by_source: bool,
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
            sums_by_source: gates.has(Change::POD_RESOURCES_ARE_SUMMED_BY_SOURCE),
            extended_resources_of_classes: gates.is_enabled(Feature::DRA_EXTENDED_RESOURCE),
        }
    }
}

impl Default for QuotaFeatures {
    fn default() -> Self {
        Self::of(&Gates::default())
    }
}
