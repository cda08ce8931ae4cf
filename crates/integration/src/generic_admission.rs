//! The admission plugins of a generic API server.

use pintle_admission::{AdmissionConfiguration, PluginChain};

/// The plugins of a generic API server, such as the one in `tools/apiserver`.
const GENERIC: [&str; 3] = ["NamespaceLifecycle", "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"];

/// The admission plugins of a generic API server: those that kube-apiserver adds are disabled. Answers of such a server are
/// comparable with these plugins only.
#[must_use]
pub fn generic_admission() -> AdmissionConfiguration {
    let added = PluginChain::enabled_by_default().filter(|name| !GENERIC.contains(name));
    AdmissionConfiguration { disabled: added.map(str::to_owned).collect(), ..AdmissionConfiguration::default() }
}
