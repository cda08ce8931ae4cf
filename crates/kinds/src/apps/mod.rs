//! Strategies of the group `apps`.

mod controllerrevision;
mod daemonset;
mod deployment;
pub(crate) mod int_or_percent;
mod replicaset;
mod selector_and_template;
mod statefulset;
mod statefulset_validation;
mod stored;
pub(crate) mod template;

use std::sync::Arc;

use pintle_gates::Gates;
use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str, gates: &Gates) -> Option<Arc<dyn Strategy>> {
    match plural {
        "controllerrevisions" => Some(Arc::new(controllerrevision::ControllerRevisionStrategy)),
        "daemonsets" => Some(Arc::new(daemonset::DaemonSetStrategy)),
        "deployments" => Some(Arc::new(deployment::DeploymentStrategy)),
        "replicasets" => Some(Arc::new(replicaset::ReplicaSetStrategy)),
        "statefulsets" => Some(Arc::new(statefulset::StatefulSetStrategy::new(gates))),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::object;
    use pintle_value::Value;

    /// A valid pod template.
    pub(crate) const TEMPLATE: &str =
        r#"{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i:1","resources":{}}]}}"#;

    /// Returns a defaulted object with this spec, a template and a matching selector.
    pub(crate) fn workload(rules: &dyn Strategy, spec: &str) -> Value {
        let mut workload = object(&format!(r#"{{"metadata":{{"name":"w","namespace":"n"}},"spec":{spec}}}"#));
        let spec = workload.get_mut("spec").expect("spec");
        for (field, default) in [("template", TEMPLATE), ("selector", r#"{"matchLabels":{"app":"x"}}"#)] {
            if !spec.as_object().expect("object").contains_key(field) {
                spec.set(field, object(default));
            }
        }
        rules.defaults(&mut workload);
        workload
    }
}
