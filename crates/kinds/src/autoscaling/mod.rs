//! Strategies of the group `autoscaling`.

mod annotations;
mod hpa;
mod hpa_validation;
mod metrics_v1;
mod metrics_validation;
mod v1;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(version: &str, plural: &str) -> Option<Arc<dyn Strategy>> {
    let version = match (plural, version) {
        ("horizontalpodautoscalers", "v1") => hpa::HpaVersion::V1,
        ("horizontalpodautoscalers", _) => hpa::HpaVersion::V2,
        _ => return None,
    };
    Some(Arc::new(hpa::HorizontalPodAutoscalerStrategy { version }))
}
