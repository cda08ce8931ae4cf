//! Strategies of the group `autoscaling`.

mod annotations;
pub(crate) mod hpa;
mod hpa_validation;
mod metrics_v1;
mod metrics_validation;
mod v1;
