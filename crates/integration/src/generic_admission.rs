//! The admission plugins of a generic API server.

use pintle_admission::{AdmissionConfiguration, PluginChain};

/// The plugins of a generic API server, such as `tools/apiserver`.
const GENERIC: [&str; 3] = ["NamespaceLifecycle", "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"];

/// The admission plugins of a generic API server, without the plugins that kube-apiserver adds. Only with these plugins
/// can the answers of both servers be compared.
#[must_use]
pub fn generic_admission() -> AdmissionConfiguration {
    let added = PluginChain::enabled_by_default().filter(|name| !GENERIC.contains(name));
    AdmissionConfiguration { disabled: added.map(str::to_owned).collect(), ..AdmissionConfiguration::default() }
}
