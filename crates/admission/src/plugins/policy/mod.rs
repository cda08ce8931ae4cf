//! Admission policies: expressions in CEL that users store, with bindings that say where they apply (upstream:
//! `admission/plugin/policy`).

mod bindings;
mod definition;
mod denial;
mod metrics;
mod mutating;
mod params;
mod plugin;
mod source;
mod validating;

use self::plugin::PolicyPlugin;
use super::{BuiltPlugin, PluginOptions};

/// The group of policies and bindings.
const GROUP: &str = "admissionregistration.k8s.io";

/// Builds the plugin `MutatingAdmissionPolicy`.
pub(super) fn build_mutating(options: &PluginOptions<'_>) -> BuiltPlugin {
    PolicyPlugin::<mutating::Policy>::build(options)
}

/// Builds the plugin `ValidatingAdmissionPolicy`.
pub(super) fn build_validating(options: &PluginOptions<'_>) -> BuiltPlugin {
    PolicyPlugin::<validating::Policy>::build(options)
}
