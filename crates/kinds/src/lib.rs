//! The behaviour of the built-in kinds: what each has of its own beyond the facts of the catalog. A folder per API
//! group, a file per kind (or a folder, for kinds with many rules), and `tables` for the columns that `kubectl get`
//! shows. Knows nothing of HTTP or of storage engines.

mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apps;
mod autoscaling;
mod batch;
mod builtin;
mod certificates;
mod coordination;
mod core;
mod discovery;
mod events;
mod flowcontrol;
mod gojson;
mod labels;
mod networking;
mod node;
mod pem;
mod policy;
mod rbac;
mod resource;
mod rules;
pub mod scale;
mod scheduling;
mod storage;
mod strategy;
mod tables;
#[cfg(test)]
mod testing;
mod webhook;

use std::sync::Arc;

use pintle_registry::{Behaviour, NoBehaviour, Table};

pub use self::core::pod::bind;
pub use builtin::{resources, storage_version_hash};
pub use scheduling::system_priority_classes;

pub use self::apiextensions::{
    CLEANUP_FINALIZER, CompiledRule, FoundPath, PathSchema, RuleCost, Ruled, SchemaJudge, Step, definitions,
    follow_field_path,
};
pub use self::core::{NetworkError, ServiceNetwork, bootstrap_objects, services};

/// The behaviour of a built-in resource at one version.
#[must_use]
pub fn behaviour(group: &str, version: &str, plural: &str) -> Arc<dyn Behaviour> {
    let found = match group {
        "" => core::behaviour(plural),
        "admissionregistration.k8s.io" => admissionregistration::behaviour(plural),
        "apiextensions.k8s.io" => apiextensions::behaviour(plural),
        "apiregistration.k8s.io" => apiregistration::behaviour(plural),
        "apps" => apps::behaviour(plural),
        "autoscaling" => autoscaling::behaviour(version, plural),
        "batch" => batch::behaviour(plural),
        "certificates.k8s.io" => certificates::behaviour(plural),
        "coordination.k8s.io" => coordination::behaviour(plural),
        "discovery.k8s.io" => discovery::behaviour(plural),
        "events.k8s.io" => events::behaviour(plural),
        "flowcontrol.apiserver.k8s.io" => flowcontrol::behaviour(plural),
        "networking.k8s.io" => networking::behaviour(plural),
        "node.k8s.io" => node::behaviour(plural),
        "policy" => policy::behaviour(plural),
        "rbac.authorization.k8s.io" => rbac::behaviour(plural),
        "resource.k8s.io" => resource::behaviour(plural),
        "scheduling.k8s.io" => scheduling::behaviour(plural),
        "storage.k8s.io" => storage::behaviour(plural),
        _ => None,
    };
    found.unwrap_or_else(|| Arc::new(NoBehaviour))
}

/// The table form of a built-in resource at its hub version.
#[must_use]
pub fn table(group: &str, plural: &str) -> Arc<dyn Table> {
    tables::table(group, plural)
}
