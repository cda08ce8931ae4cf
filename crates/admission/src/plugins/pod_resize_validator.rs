//! The plugin `PodResizeValidator` (upstream: `plugin/pkg/admission/podresize`): refuses a resize that the pod's node could
//! never grant.

use pintle_kinds::{ResourceList, aggregate_container_resources, is_pod_level, resource_list};
use pintle_registry::{ApiError, Cause};
use pintle_value::Value;
use pintle_value::field::quote;
use pintle_value::quantity::Quantity;

use crate::pods::{is_spec_update, node_of};
use crate::{AdmissionAttributes, AdmissionOperation, Phase, SyncPlugin};

/// The label of a node's operating system.
const OPERATING_SYSTEM: &str = "kubernetes.io/os";

/// The admission plugin `PodResizeValidator`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PodResizeValidator;

impl SyncPlugin for PodResizeValidator {
    const NAME: &'static str = "PodResizeValidator";
    const PHASES: &'static [Phase] = &[Phase::Validating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.operation == AdmissionOperation::Update
            && attributes.resource.is("", "pods")
            && attributes.subresource == "resize"
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, pod: &Value) -> Result<(), ApiError> {
        if !is_spec_update(attributes, pod) {
            return Ok(());
        }
        let node = node_of(attributes, pod)?;
        let refused = |reason: &'static str, why: String| {
            let mut refusal = attributes.forbidden(pod, why);
            if let ApiError::Forbidden { causes, .. } = &mut refusal {
                causes.push(Cause { reason: reason.into(), message: String::new(), field: String::new() });
            }
            Err(refusal)
        };
        let missing = missing_resources(&pod["spec"], &node);
        if !missing.is_empty() {
            let why = format!("Node didn't have enough allocatable resources: {}", missing.join("; "));
            return refused("NodeCapacity", why);
        }
        match node.str_at(&["metadata", "labels", OPERATING_SYSTEM]) {
            "linux" => Ok(()),
            other => {
                let (name, other) = (quote(node.name()), quote(other));
                let why = format!("pod resize is only supported on linux nodes, node {name} is {other}");
                refused("UnsupportedPlatform", why)
            }
        }
    }
}

/// The resources that a pod requests and its node does not have, in upstream's words.
fn missing_resources(spec: &Value, node: &Value) -> Vec<String> {
    let requests = pod_requests(spec);
    let allocatable = resource_list(node, &["status", "allocatable"]);
    let missing = ["cpu", "memory"].into_iter().filter_map(|name| {
        let amount = |amount: &Quantity| if name == "cpu" { amount.milli_value() } else { amount.value() };
        let of = |list: &ResourceList| list.get(name).map_or(0, amount);
        let (requested, allocatable) = (of(&requests), of(&allocatable));
        (requested > allocatable).then(|| format!("{name}, requested: {requested}, allocatable: {allocatable}"))
    });
    missing.collect()
}

/// The requests of a pod (upstream: `GetResourceRequest`), with its overhead. If the pod has requests or limits of its
/// own, its own requests count. Otherwise the requests of its containers count.
fn pod_requests(spec: &Value) -> ResourceList {
    let own = |kind| resource_list(spec, &["resources", kind]).into_iter().filter(|(name, _)| is_pod_level(name));
    let has_own = own("requests").chain(own("limits")).next().is_some();
    let mut requests =
        if has_own { own("requests").collect() } else { aggregate_container_resources(spec, "requests") };
    for (name, overhead) in resource_list(spec, &["overhead"]) {
        if let Some(request) = requests.get_mut(&name)
            && !request.is_zero()
        {
            request.add(&overhead);
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    fn pod(generation: u8, node: &str, spec: &str) -> Value {
        json(&format!(
            r#"{{"metadata":{{"name":"p","namespace":"n","generation":{generation}}},"spec":{{"nodeName":"{node}"{spec}}}}}"#
        ))
    }

    fn check(subresource: &'static str, pod: &Value, expect: Result<(), &str>) {
        let node = |name: &str, os: &str| {
            json(&format!(
                r#"{{"kind":"Node","metadata":{{"name":"{name}","labels":{{"kubernetes.io/os":"{os}"}}}},
                    "status":{{"allocatable":{{"cpu":"2","memory":"1Gi"}}}}}}"#
            ))
        };
        let stored = vec![node("linux", "linux"), node("other", "windows")];
        let old = Some(self::pod(1, "linux", ""));
        let scenario = Scenario { subresource, stored, old, ..Scenario::update("", "pods") };
        scenario.check_validate(&PodResizeValidator, pod, expect);
    }

    fn containers(requests: &str) -> String {
        format!(r#","containers":[{{"name":"a","resources":{{"requests":{{{requests}}}}}}}]"#)
    }

    #[test]
    fn a_resize_has_to_fit_its_node() {
        let fits = containers(r#""cpu":"2","memory":"1Gi""#);
        check("resize", &pod(2, "linux", &fits), Ok(()));
        let large = containers(r#""cpu":"2001m","memory":"2Gi""#);
        let refused = "pods \"p\" is forbidden: Node didn't have enough allocatable resources: cpu, requested: 2001, \
                       allocatable: 2000; memory, requested: 2147483648, allocatable: 1073741824";
        check("resize", &pod(2, "linux", &large), Err(refused));
        // Only a change of the spec matters, and only for pods that have a node.
        check("resize", &pod(1, "linux", &large), Ok(()));
        check("resize", &pod(2, "", &large), Ok(()));
        check("", &pod(2, "linux", &large), Ok(()));
        // The requests of the pod itself count instead of the requests of its containers.
        let whole = format!(r#"{large},"resources":{{"requests":{{"cpu":"1"}}}}"#);
        check("resize", &pod(2, "linux", &whole), Ok(()));
        let overhead = format!(r#"{fits},"overhead":{{"cpu":"1m"}}"#);
        let refused = "pods \"p\" is forbidden: Node didn't have enough allocatable resources: cpu, requested: 2001, \
                       allocatable: 2000";
        check("resize", &pod(2, "linux", &overhead), Err(refused));
    }

    #[test]
    fn the_node_must_exist_and_run_linux() {
        check("resize", &pod(2, "gone", ""), Err("pods \"p\" is forbidden: node \"gone\" not found"));
        let refused = "pods \"p\" is forbidden: pod resize is only supported on linux nodes, node \"other\" is \
                       \"windows\"";
        check("resize", &pod(2, "other", ""), Err(refused));
    }
}
