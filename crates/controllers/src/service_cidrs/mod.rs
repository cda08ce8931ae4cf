//! The ServiceCIDRs, from whose ranges services have their addresses.
//!
//! - `default`: the ServiceCIDR of the flag `--service-cluster-ip-range` (upstream:
//!   `pkg/controlplane/controller/defaultservicecidr`, in kube-apiserver).
//! - `protection`: the finalizer and the condition of all ServiceCIDRs (upstream: `pkg/controller/servicecidrs`, in
//!   kube-controller-manager).
//! - `ranges`: which ranges contain an address or a range.

mod default;
mod protection;
pub(crate) mod ranges;

use pintle_registry::GroupResource;
use pintle_value::{Value, object};

use crate::ObjectRef;

pub(crate) use self::default::{prepare as prepare_default, run as run_default};
pub(crate) use self::protection::run as run_protection;

/// The name of the background task that keeps the default ServiceCIDR.
pub const DEFAULT_SERVICE_CIDR_TASK: &str = "kubernetes-service-cidr-controller";
/// The name of the controller of the finalizers in kube-controller-manager, and of its field manager.
pub(crate) const SERVICE_CIDR_CONTROLLER: &str = "service-cidr-controller";
/// The type of the condition that says whether addresses are allocated from a range.
const READY: &str = "Ready";

fn service_cidrs() -> GroupResource {
    GroupResource::new("networking.k8s.io", "servicecidrs")
}

fn cidr_ref(name: &str) -> ObjectRef {
    ObjectRef { resource: service_cidrs(), namespace: String::new(), name: name.to_owned() }
}

/// The condition `Ready`, if there is one.
fn ready_condition(service_cidr: &Value) -> Option<&Value> {
    let conditions = service_cidr.items_at(&["status", "conditions"]).iter();
    conditions.into_iter().find(|condition| condition.str_at(&["type"]) == READY)
}

/// A configuration that applies a condition `Ready`.
fn with_condition(name: &str, mut condition: Value) -> Value {
    condition.set("type", READY);
    object! {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": object! { "name": name },
        "status": object! { "conditions": vec![condition] },
    }
}
