//! The strategy for Pod (upstream: `pkg/registry/core/pod/strategy.go`).

use pintle_gates::{Feature, Gates};
use pintle_registry::{GracefulDeletion, Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, Str, Value, names};

use super::annotations::copy_app_armor_annotations;
use super::defaults::for_each_item;
use super::disabled::drop_disabled_pod_fields;
use super::pod_defaults::{pod_defaults, set_pod_resource_defaults};
use super::resize::ResizeStrategy;
use super::resources::qos_class;
use super::status::{PodStatusStrategy, set_condition};
use super::update::{validate_create, validate_ephemeral_update, validate_update};
use super::warnings::warnings_for_pod;
use super::{restore_metadata, set_generation};
use crate::generic::{keep_old, same_at};

/// The strategy for Pod.
pub(crate) struct PodStrategy {
    /// Whether decoded pods get the defaults of the resources of the pod as a whole.
    pod_level_resources: bool,
}

impl PodStrategy {
    pub(crate) fn new(gates: &Gates) -> Self {
        let is_late = gates.is_enabled(Feature::POD_LEVEL_RESOURCES_FIX_DEFAULTING);
        Self { pod_level_resources: gates.is_enabled(Feature::POD_LEVEL_RESOURCES) && !is_late }
    }
}

/// Sets the defaults of the resources of the pod as a whole, if the feature sets them this late. An update that does not
/// change these resources leaves them unchanged, because the pod may have been stored without the feature.
pub(super) fn set_late_defaults(context: &StrategyContext, pod: &mut Value, old: Option<&Value>) {
    // The feature depends on pod-level resources.
    let is_late = context.gates.is_enabled(Feature::POD_LEVEL_RESOURCES_FIX_DEFAULTING);
    if !is_late || old.is_some_and(|old| same_at(pod, old, &["spec", "resources"])) {
        return;
    }
    if let Some(spec) = pod.get_mut("spec") {
        set_pod_resource_defaults(spec);
    }
}

const SELECTABLE: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
    // The legacy label of the node name.
    "spec.host",
    // Upstream accepts this label but never sets a value, so only the empty string matches.
    "status.podIPs",
];

#[cfg(test)]
impl Default for PodStrategy {
    fn default() -> Self {
        Self::new(&Gates::default())
    }
}

impl Strategy for PodStrategy {
    fn defaults(&self, pod: &mut Value) {
        pod_defaults(pod, None, self.pod_level_resources);
    }

    fn defaults_of_changed(&self, pod: &mut Value, live: &Value) {
        pod_defaults(pod, Some(live), self.pod_level_resources);
    }

    fn prepare_for_create(&self, context: &StrategyContext, pod: &mut Value) {
        set_generation(pod, None);
        // The QoS class must not depend on resources that are dropped.
        drop_disabled_pod_fields(context, pod, None);
        set_late_defaults(context, pod, None);
        let mut status = Value::object();
        status.set("phase", "Pending");
        let requested = pod.str_at(&["status", "qosClass"]);
        // Upstream uses the QoS class that the client sent.
        let class = if requested.is_empty() { qos_class(&context.gates, &pod["spec"]) } else { requested };
        status.set("qosClass", class);
        pod.set("status", status);
        if !pod.items_at(&["spec", "schedulingGates"]).is_empty() {
            let mut condition = Value::object();
            condition.set("type", "PodScheduled");
            condition.set("status", "False");
            condition.set("reason", "SchedulingGated");
            condition.set("message", "Scheduling is blocked due to non-empty scheduling gates");
            set_condition(pod, condition, context.now);
        }
        merge_label_keys(context, pod);
        copy_app_armor_annotations(pod);
    }

    fn prepare_for_update(&self, context: &StrategyContext, pod: &mut Value, old: &Value) {
        keep_old(pod, old, &["status"]);
        drop_disabled_pod_fields(context, pod, Some(old));
        set_late_defaults(context, pod, Some(old));
        set_generation(pod, Some(old));
    }

    fn validate_write(&self, context: &StrategyContext, pod: &Value, old: Option<&Value>) -> Errors {
        match old {
            None => validate_create(context, pod),
            Some(old) => validate_update(context, pod, old),
        }
    }

    fn warnings(&self, _: &StrategyContext, pod: &Value, old: Option<&Value>) -> Vec<String> {
        // Updates come mostly from components, so upstream avoids the cost.
        if old.is_some() {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        let problems = names::dns1123_label(pod.name());
        if !problems.is_empty() {
            warnings.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label \
                 is recommended: [{}]",
                problems.join(" ")
            ));
        }
        warnings.extend(warnings_for_pod(pod));
        warnings
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        match name {
            "status" => Some(&PodStatusStrategy),
            "ephemeralcontainers" => Some(&EphemeralContainersStrategy),
            "resize" => Some(&ResizeStrategy),
            _ => None,
        }
    }

    fn selectable_fields(&self, pod: &Value) -> Vec<(&'static str, Str)> {
        SELECTABLE
            .iter()
            .map(|field| {
                let value = match *field {
                    "spec.hostNetwork" => {
                        if pod.bool_at(&["spec", "hostNetwork"]) {
                            "true"
                        } else {
                            "false"
                        }
                    }
                    "spec.host" => pod.str_at(&["spec", "nodeName"]),
                    "status.podIP" => pod["status"]["podIPs"][0].str_at(&["ip"]),
                    "status.podIPs" => "",
                    _ => field.split_once('.').map_or("", |(part, name)| pod.str_at(&[part, name])),
                };
                (*field, Str::from(value))
            })
            .collect()
    }

    fn selectable_field_names(&self) -> &[&'static str] {
        SELECTABLE
    }

    fn selectable_field_sources(&self) -> Vec<&str> {
        // `status.podIP` is the first item of `status.podIPs`.
        vec![
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIPs",
            "status.nominatedNodeName",
        ]
    }

    fn indexed_field(&self) -> Option<&'static str> {
        Some("spec.nodeName")
    }

    fn graceful_deletion(&self) -> Option<&dyn GracefulDeletion> {
        Some(self)
    }
}

impl GracefulDeletion for PodStrategy {
    fn grace_period(&self, pod: &Value, requested: Option<i64>) -> Option<i64> {
        let own = pod.int_at(&["spec", "terminationGracePeriodSeconds"]).unwrap_or(0);
        let ended = matches!(pod.str_at(&["status", "phase"]), "Failed" | "Succeeded");
        let scheduled = !pod.str_at(&["spec", "nodeName"]).is_empty();
        Some(match requested.unwrap_or(own) {
            _ if !scheduled || ended => 0,
            seconds if seconds < 0 => 1,
            seconds => seconds,
        })
    }
}

/// Adds the values of the pod's own labels to the selectors that request this with `matchLabelKeys`.
fn merge_label_keys(context: &StrategyContext, pod: &mut Value) {
    let labels = pod.at(&["metadata", "labels"]).cloned().unwrap_or_default();
    let merge = |term: &mut Value| {
        for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            let keys = term.items_at(&[field]).to_vec();
            // A term without a selector matches nothing and stays unchanged.
            let Some(selector) = term.get_mut("labelSelector") else { return };
            for key in keys.iter().filter_map(Value::as_str) {
                let Some(value) = labels.get(key) else { continue };
                let mut expression = Value::object();
                expression.set("key", key);
                expression.set("operator", operator);
                expression.set("values", vec![value.clone()]);
                if selector.get("matchExpressions").is_none() {
                    selector.set("matchExpressions", Value::Array(Vec::new()));
                }
                if let Some(list) = selector.get_mut("matchExpressions").and_then(Value::as_array_mut) {
                    list.push(expression);
                }
            }
        }
    };
    for field in ["podAffinity", "podAntiAffinity"] {
        let preferred = ["spec", "affinity", field, "preferredDuringSchedulingIgnoredDuringExecution"];
        for_each_item(pod, &preferred, |weighted| {
            if let Some(term) = weighted.get_mut("podAffinityTerm") {
                merge(term);
            }
        });
        for_each_item(pod, &["spec", "affinity", field, "requiredDuringSchedulingIgnoredDuringExecution"], merge);
    }
    let features = [Feature::MATCH_LABEL_KEYS_IN_SPREAD, Feature::MATCH_LABEL_KEYS_IN_SPREAD_SELECTORS];
    if features.into_iter().all(|feature| context.gates.is_enabled(feature)) {
        for_each_item(pod, &["spec", "topologySpreadConstraints"], merge);
    }
}

/// The strategy for `pods/ephemeralcontainers`.
struct EphemeralContainersStrategy;

impl SubresourceStrategy for EphemeralContainersStrategy {
    fn prepare_for_update(&self, context: &StrategyContext, pod: &mut Value, old: &Value) {
        let containers = pod.at(&["spec", "ephemeralContainers"]).cloned();
        keep_old(pod, old, &["spec"]);
        match containers {
            Some(containers) => pod.set_at(&["spec", "ephemeralContainers"], containers),
            None => {
                pod.remove_at(&["spec", "ephemeralContainers"]);
            }
        }
        keep_old(pod, old, &["status"]);
        restore_metadata(pod, old);
        drop_disabled_pod_fields(context, pod, Some(old));
        set_generation(pod, Some(old));
    }

    fn validate_update(&self, context: &StrategyContext, pod: &Value, old: &Value) -> Errors {
        validate_ephemeral_update(context, pod, old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, context_of, gated_context, messages, object};

    /// Returns the pod that is stored if a client sends this JSON.
    fn stored(json: &str) -> Value {
        let catalog = pintle_catalog::shared();
        let schema = catalog.kind_schema("", "v1", "Pod").unwrap();
        let mut pod = object(json);
        let mut problems = pintle_schema::Problems::default();
        pintle_schema::normalise(&schema.types, schema.root, &mut pod, &mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        pintle_schema::static_defaults(&schema.types, schema.root, &mut pod);
        PodStrategy::default().defaults(&mut pod);
        PodStrategy::default().prepare_for_create(&context(), &mut pod);
        pod
    }

    fn check_stored(json: &str, expect: &str) {
        let pod = stored(json);
        assert_eq!(pod, object(expect), "{pod:#?}");
        assert_eq!(messages(&PodStrategy::default().validate(&context(), &pod)), [""; 0]);
        let once = pod.clone();
        let mut pod = pod;
        PodStrategy::default().defaults(&mut pod);
        assert_eq!(pod, once);
    }

    #[test]
    fn pods_are_stored_as_upstream_stores_them() {
        check_stored(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default"},
                "spec":{"containers":[{"name":"c","image":"nginx:1.27","ports":[{"containerPort":80}],
                "resources":{"limits":{"cpu":"0.5","memory":"128Mi"}},
                "livenessProbe":{"httpGet":{"port":80}},"env":[{"name":"N","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
                "volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","configMap":{"name":"m"}}]},
                "status":{"phase":"Running"}}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default","generation":1},
                "spec":{"containers":[{"name":"c","image":"nginx:1.27","imagePullPolicy":"IfNotPresent",
                "ports":[{"containerPort":80,"protocol":"TCP"}],
                "resources":{"limits":{"cpu":"500m","memory":"128Mi"},"requests":{"cpu":"500m","memory":"128Mi"}},
                "livenessProbe":{"httpGet":{"path":"/","port":80,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,
                "successThreshold":1,"failureThreshold":3},
                "env":[{"name":"N","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}],
                "volumeMounts":[{"name":"v","mountPath":"/v"}],"terminationMessagePath":"/dev/termination-log",
                "terminationMessagePolicy":"File"}],"volumes":[{"name":"v","configMap":{"name":"m","defaultMode":420}}],
                "restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","securityContext":{},
                "schedulerName":"default-scheduler","enableServiceLinks":true},
                "status":{"phase":"Pending","qosClass":"Guaranteed"}}"#,
        );
    }

    #[test]
    fn the_qos_class_follows_the_gate_of_pod_level_resources() {
        let off = [("PodLevelResources", false), ("InPlacePodLevelResourcesVerticalScaling", false)];
        for (context, class) in [(context(), "Burstable"), (gated_context(&off), "BestEffort")] {
            let mut pod = object(
                r#"{"metadata":{"name":"p"},"spec":{"resources":{"requests":{"cpu":"1"}},"containers":[{"name":"c"}]}}"#,
            );
            PodStrategy::default().prepare_for_create(&context, &mut pod);
            assert_eq!(pod["status"]["qosClass"], Value::from(class));
        }
    }

    #[test]
    fn pod_level_resources_get_defaults_late_since_1_37() {
        let sent = object(
            r#"{"metadata":{"name":"p"},"spec":{"resources":{"requests":{"cpu":"1"}},
                "containers":[{"name":"c","resources":{"limits":{"cpu":"2","memory":"1Gi"}}}]}}"#,
        );
        let late = r#"{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"2","memory":"1Gi"}}"#;
        let early = r#"{"requests":{"cpu":"1"}}"#;
        let off = [("PodLevelResourcesFixDefaulting", false)];
        for (context, expect) in [(context(), early), (context_of(37, &[]), late), (context_of(37, &off), early)] {
            let strategy = PodStrategy::new(&context.gates);
            let mut pod = sent.clone();
            strategy.defaults(&mut pod);
            assert_eq!(pod["spec"]["resources"], object(early));
            strategy.prepare_for_create(&context, &mut pod);
            assert_eq!(pod["spec"]["resources"], object(expect));

            // A replacement with the original pod is no change.
            let mut new = sent.clone();
            strategy.defaults(&mut new);
            strategy.prepare_for_update(&context, &mut new, &pod);
            assert_eq!(new["spec"], pod["spec"]);
            assert_eq!(new.generation(), 1);
        }

        // A pod that was stored before the feature existed stays as it is.
        let context = context_of(37, &[]);
        let mut new = sent.clone();
        new.set_at(&["spec", "activeDeadlineSeconds"], 5);
        PodStrategy::new(&context.gates).prepare_for_update(&context, &mut new, &sent);
        assert_eq!(new["spec"]["resources"], sent["spec"]["resources"]);
    }

    #[test]
    fn gates_and_label_keys() {
        let pod = stored(
            r#"{"metadata":{"name":"p","labels":{"app":"a"}},"spec":{"schedulingGates":[{"name":"g/x"}],
                "containers":[{"name":"c","image":"i"}],"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone",
                "whenUnsatisfiable":"DoNotSchedule","labelSelector":{},"matchLabelKeys":["app","gone"]}]}}"#,
        );
        let expect = r#"[{"type":"PodScheduled","status":"False","reason":"SchedulingGated",
            "message":"Scheduling is blocked due to non-empty scheduling gates","lastProbeTime":null,
            "lastTransitionTime":"2023-11-14T22:13:20Z"}]"#;
        assert_eq!(pod["status"]["conditions"], object(expect));
        let selector = &pod["spec"]["topologySpreadConstraints"][0]["labelSelector"];
        assert_eq!(*selector, object(r#"{"matchExpressions":[{"key":"app","operator":"In","values":["a"]}]}"#));
        assert_eq!(messages(&PodStrategy::default().validate(&context(), &pod)), [""; 0]);
    }

    #[test]
    fn new_pods_are_validated() {
        let check = |json: &str, expect: &[&str]| {
            assert_eq!(messages(&PodStrategy::default().validate(&context(), &stored(json))), expect, "{json}");
        };
        check(r#"{"metadata":{"name":"p"},"spec":{}}"#, &["spec.containers: Required value"]);
        check(
            r#"{"metadata":{"name":"p"},"spec":{"containers":[{"image":" nginx"},{"name":"C"}],"nodeName":"n",
                "schedulingGates":[{"name":"g"}],"ephemeralContainers":[{"name":"e","image":"i"}],
                "volumes":[{"name":"t","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]}}"#,
            &[
                "spec.containers[0].name: Required value",
                "spec.containers[1].name: Invalid value: \"C\": a lowercase RFC 1123 label must consist of lower case \
                 alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  \
                 or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "spec.containers[1].image: Required value",
                "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when \
                 serviceAccountName is not set",
                "spec.containers[0].image: Invalid value: \" nginx\": must not have leading or trailing whitespace",
                "spec.ephemeralContainers: Forbidden: cannot be set on create",
                "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
            ],
        );
    }

    #[test]
    fn pods_that_run_have_a_grace_period() {
        let check = |pod: &str, requested: Option<i64>, expect: i64| {
            assert_eq!(PodStrategy::default().grace_period(&object(pod), requested), Some(expect), "{pod}");
        };
        let running = r#"{"spec":{"nodeName":"n","terminationGracePeriodSeconds":30},"status":{"phase":"Running"}}"#;
        check(running, None, 30);
        check(running, Some(5), 5);
        check(running, Some(0), 0);
        check(running, Some(-1), 1);
        check(r#"{"spec":{"terminationGracePeriodSeconds":30}}"#, None, 0);
        check(r#"{"spec":{"nodeName":"n"},"status":{"phase":"Failed"}}"#, Some(30), 0);
    }

    #[test]
    fn selectable_fields_of_pods() {
        let pod = object(
            r#"{"spec":{"nodeName":"n","hostNetwork":true,"restartPolicy":"Never"},
                "status":{"podIP":"1.1.1.1","podIPs":[{"ip":"1.1.1.1"}]}}"#,
        );
        let fields = PodStrategy::default().selectable_fields(&pod);
        let value = |name: &str| fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_str());
        assert_eq!(value("spec.nodeName"), Some("n"));
        assert_eq!(value("spec.hostNetwork"), Some("true"));
        assert_eq!(value("spec.restartPolicy"), Some("Never"));
        assert_eq!(value("status.phase"), Some(""));
        assert_eq!(value("status.podIP"), Some("1.1.1.1"));
        assert_eq!(value("spec.host"), Some("n"));
        assert_eq!(value("spec.hostname"), None);
    }

    #[test]
    fn ephemeral_containers_can_only_be_added() {
        let old = stored(r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#);
        let pods = PodStrategy::default();
        let rules = pods.subresource("ephemeralcontainers").unwrap();
        let update = |old: &Value, containers: &str| {
            let mut new = old.clone();
            new.set_at(&["spec", "ephemeralContainers"], object(containers));
            new.set_at(&["spec", "hostname"], "ignored");
            PodStrategy::default().defaults(&mut new);
            rules.prepare_for_update(&context(), &mut new, old);
            let errors = messages(&rules.validate_update(&context(), &new, old));
            (new, errors)
        };
        let (with_one, errors) = update(&old, r#"[{"name":"e","image":"busybox","resources":{}}]"#);
        assert_eq!(errors, [""; 0]);
        assert_eq!(with_one.generation(), 2);
        assert_eq!(with_one["spec"]["hostname"], Value::Null);
        let (_, errors) = update(
            &with_one,
            r#"[{"name":"c","image":"busybox","resources":{},"livenessProbe":{"exec":{"command":["x"]}}}]"#,
        );
        assert_eq!(
            errors,
            [
                "spec.ephemeralContainers[0].name: Duplicate value: \"c\"",
                "spec.ephemeralContainers[0].livenessProbe: Forbidden: cannot be set for an Ephemeral Container",
                "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be removed\n",
            ]
        );
        let (_, errors) = update(&with_one, r#"[{"name":"e","image":"other:1","resources":{}}]"#);
        assert!(
            errors[0].starts_with(
                "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be changed\n@@ "
            ),
            "{errors:?}"
        );
    }

    #[test]
    fn no_malformed_pod_makes_a_strategy_panic() {
        for json in [
            "null",
            "[]",
            "1",
            r#"{"spec":[],"metadata":1,"status":""}"#,
            r#"{"spec":{"containers":[1,null,[]],
            "volumes":{},"initContainers":[{"ports":[0],"env":{},"resources":{"limits":[]}}],"affinity":[],"tolerations":[3]}}"#,
        ] {
            let mut pod = object(json);
            let old = pod.clone();
            PodStrategy::default().defaults(&mut pod);
            PodStrategy::default().prepare_for_create(&context(), &mut pod);
            PodStrategy::default().prepare_for_update(&context(), &mut pod, &old);
            let _ = (
                PodStrategy::default().validate(&context(), &pod),
                PodStrategy::default().validate_update(&context(), &pod, &old),
            );
            let _ = (
                PodStrategy::default().warnings(&context(), &pod, None),
                PodStrategy::default().selectable_fields(&pod),
                PodStrategy::default().grace_period(&pod, None),
            );
            for name in ["status", "resize", "ephemeralcontainers"] {
                let pods = PodStrategy::default();
                let rules = pods.subresource(name).unwrap();
                rules.prepare_for_update(&context(), &mut pod, &old);
                let _ = rules.validate_update(&context(), &pod, &old);
            }
            let _ = super::super::bind(&context().gates, &mut pod, &old, context().now);
        }
    }
}
