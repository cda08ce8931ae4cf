//! Admission policies: expressions in CEL that users store, with bindings that say where they apply (upstream:
//! `admission/plugin/policy`).

mod bindings;
mod definition;
mod denial;
mod metrics;
mod mutating;
mod params;
mod source;
mod validating;

pub(crate) use mutating::MutatingAdmissionPolicy;
pub(crate) use validating::ValidatingAdmissionPolicy;

/// The group of policies and bindings.
const GROUP: &str = "admissionregistration.k8s.io";
