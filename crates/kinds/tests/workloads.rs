//! Tests which object is stored for an object that a client sends: decoded, defaulted, converted to the storage version
//! and prepared. The expected objects come from kube-apiserver 1.36.

use std::sync::Arc;

use pintle_kinds::strategy;
use pintle_registry::{Strategy, StrategyContext};
use pintle_schema::{Problems, Schema, normalise, static_defaults};
use pintle_value::Value;
use pintle_value::time::Time;

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("the test's JSON is well formed")
}

fn context() -> StrategyContext {
    let now = Time { seconds: 1_700_000_000, nanos: 0 };
    StrategyContext {
        now,
        user: "admin".into(),
        uid: "".into(),
        groups: vec!["system:masters".into()],
        extra: Vec::new(),
        dry_run: false,
        gates: Default::default(),
        allow_privileged: true,
    }
}

/// A resource at one version.
struct VersionedResource {
    schema: Schema,
    strategy: Arc<dyn Strategy>,
}

impl VersionedResource {
    /// Finds a resource by `group/version/plural`.
    fn of(name: &str) -> Self {
        let mut parts = name.rsplitn(3, '/');
        let (plural, version) = (parts.next().expect("plural"), parts.next().expect("version"));
        let group = parts.next().unwrap_or("");
        let catalog = pintle_catalog::shared();
        let facts = catalog.resource(group, version, plural).expect("a built-in resource");
        let schema = catalog.kind_schema(group, version, facts.kind).expect("a schema");
        Self { schema, strategy: strategy(group, version, plural) }
    }

    fn decoded(&self, mut value: Value) -> Value {
        let mut problems = Problems::default();
        normalise(&self.schema.types, self.schema.root, &mut value, &mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        value
    }

    fn defaulted(&self, text: &str) -> Value {
        let mut object = self.decoded(json(text));
        static_defaults(&self.schema.types, self.schema.root, &mut object);
        self.strategy.defaults(&mut object);
        object
    }
}

/// Creates an object through one version, compares the stored object (without kind and version), and checks that it is
/// valid.
fn check_stored(resource: &str, hub: &str, sent: &str, stored: &str) {
    let (resource, hub) = (VersionedResource::of(resource), VersionedResource::of(hub));
    let mut object = resource.defaulted(sent);
    let again = {
        let mut again = resource.decoded(object.clone());
        static_defaults(&resource.schema.types, resource.schema.root, &mut again);
        resource.strategy.defaults(&mut again);
        again
    };
    assert_eq!(again, object, "defaults change nothing the second time");
    resource.strategy.convert_to_hub(&mut object);
    resource.strategy.prepare_for_create(&context(), &mut object);
    let errors = resource.strategy.validate(&context(), &object);
    assert!(errors.is_empty(), "{}", errors.message());
    for field in ["kind", "apiVersion"] {
        object.remove(field);
    }
    let print = |value: &Value| serde_json::to_string_pretty(value).expect("JSON");
    assert_eq!(print(&object), print(&json(stored)), "what is stored");
    let mut reloaded = hub.decoded(object.clone());
    for field in ["kind", "apiVersion"] {
        reloaded.remove(field);
    }
    assert_eq!(print(&reloaded), print(&object), "what is stored is what Go would write");
    let mut update = object.clone();
    resource.strategy.prepare_for_update(&context(), &mut update, &object);
    assert_eq!(print(&update), print(&object), "an update without changes changes nothing");
    let errors = resource.strategy.validate_update(&context(), &update, &object);
    assert!(errors.is_empty(), "{}", errors.message());
}

/// Returns the defaulted spec of a pod with this container and restart policy.
fn pod_spec(container: &str, restart: &str) -> String {
    format!(
        r#"{{"containers":[{container}],"dnsPolicy":"ClusterFirst","restartPolicy":"{restart}","schedulerName":"default-scheduler",
            "securityContext":{{}},"terminationGracePeriodSeconds":30}}"#
    )
}

const NGINX: &str = r#"{"image":"nginx","imagePullPolicy":"Always","name":"nginx","resources":{},
    "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}"#;

#[test]
fn deployment() {
    let resource = "apps/v1/deployments";
    let pod = pod_spec(NGINX, "Always");
    check_stored(
        resource,
        resource,
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"creationTimestamp":null,"labels":{"app":"web"},"name":"web"},
            "spec":{"replicas":1,"selector":{"matchLabels":{"app":"web"}},"strategy":{},
                "template":{"metadata":{"creationTimestamp":null,"labels":{"app":"web"}},"spec":{"containers":[{"image":"nginx","name":"nginx","resources":{}}]}}},
            "status":{}}"#,
        &format!(
            r#"{{"metadata":{{"generation":1,"labels":{{"app":"web"}},"name":"web"}},
                "spec":{{"progressDeadlineSeconds":600,"replicas":1,"revisionHistoryLimit":10,"selector":{{"matchLabels":{{"app":"web"}}}},
                    "strategy":{{"rollingUpdate":{{"maxSurge":"25%","maxUnavailable":"25%"}},"type":"RollingUpdate"}},
                    "template":{{"metadata":{{"labels":{{"app":"web"}}}},"spec":{pod}}}}},
                "status":{{}}}}"#
        ),
    );
}

#[test]
fn replica_set_and_daemon_set() {
    let pod = pod_spec(NGINX, "Always");
    let sent = r#"{"metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}},
        "template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"nginx","name":"nginx"}]}}},"status":{"replicas":5}}"#;
    let resource = "apps/v1/replicasets";
    check_stored(
        resource,
        resource,
        sent,
        &format!(
            r#"{{"metadata":{{"generation":1,"name":"web"}},"spec":{{"replicas":1,"selector":{{"matchLabels":{{"app":"web"}}}},
                "template":{{"metadata":{{"labels":{{"app":"web"}}}},"spec":{pod}}}}},"status":{{"replicas":0}}}}"#
        ),
    );
    let resource = "apps/v1/daemonsets";
    check_stored(
        resource,
        resource,
        &sent.replace(r#","status":{"replicas":5}"#, ""),
        &format!(
            r#"{{"metadata":{{"annotations":{{"deprecated.daemonset.template.generation":"1"}},"generation":1,"name":"web"}},
                "spec":{{"revisionHistoryLimit":10,"selector":{{"matchLabels":{{"app":"web"}}}},
                    "template":{{"metadata":{{"labels":{{"app":"web"}}}},"spec":{pod}}},
                    "updateStrategy":{{"rollingUpdate":{{"maxSurge":0,"maxUnavailable":1}},"type":"RollingUpdate"}}}},
                "status":{{"currentNumberScheduled":0,"desiredNumberScheduled":0,"numberMisscheduled":0,"numberReady":0}}}}"#
        ),
    );
}

#[test]
fn stateful_set() {
    let resource = "apps/v1/statefulsets";
    let pod = pod_spec(NGINX, "Always");
    check_stored(
        resource,
        resource,
        r#"{"metadata":{"name":"web"},"spec":{"serviceName":"web","selector":{"matchLabels":{"app":"web"}},
            "template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"nginx","name":"nginx"}]}},
            "volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1024Mi"}}}}]}}"#,
        &format!(
            r#"{{"metadata":{{"generation":1,"name":"web"}},
                "spec":{{"persistentVolumeClaimRetentionPolicy":{{"whenDeleted":"Retain","whenScaled":"Retain"}},"podManagementPolicy":"OrderedReady",
                    "replicas":1,"revisionHistoryLimit":10,"selector":{{"matchLabels":{{"app":"web"}}}},"serviceName":"web",
                    "template":{{"metadata":{{"labels":{{"app":"web"}}}},"spec":{pod}}},
                    "updateStrategy":{{"rollingUpdate":{{"partition":0}},"type":"RollingUpdate"}},
                    "volumeClaimTemplates":[{{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{"name":"data"}},
                        "spec":{{"accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"1Gi"}}}},"volumeMode":"Filesystem"}},
                        "status":{{"phase":"Pending"}}}}]}},
                "status":{{"availableReplicas":0,"replicas":0}}}}"#
        ),
    );
}

#[test]
fn job_and_cron_job() {
    let pod = pod_spec(NGINX, "Never");
    let labels = r#"{"batch.kubernetes.io/controller-uid":"u1","batch.kubernetes.io/job-name":"once","controller-uid":"u1","job-name":"once"}"#;
    let resource = "batch/v1/jobs";
    check_stored(
        resource,
        resource,
        r#"{"metadata":{"name":"once","uid":"u1"},"spec":{"template":{"spec":{"containers":[{"image":"nginx","name":"nginx"}],"restartPolicy":"Never"}}}}"#,
        &format!(
            r#"{{"metadata":{{"generation":1,"labels":{labels},"name":"once","uid":"u1"}},
                "spec":{{"backoffLimit":6,"completionMode":"NonIndexed","completions":1,"manualSelector":false,"parallelism":1,
                    "podReplacementPolicy":"TerminatingOrFailed","selector":{{"matchLabels":{{"batch.kubernetes.io/controller-uid":"u1"}}}},"suspend":false,
                    "template":{{"metadata":{{"labels":{labels}}},"spec":{pod}}}}},
                "status":{{}}}}"#
        ),
    );
    let resource = "batch/v1/cronjobs";
    check_stored(
        resource,
        resource,
        r#"{"metadata":{"name":"often"},"spec":{"schedule":"*/5 * * * *","jobTemplate":{"spec":{"template":{"spec":
            {"containers":[{"image":"nginx","name":"nginx"}],"restartPolicy":"Never"}}}}}}"#,
        &format!(
            r#"{{"metadata":{{"generation":1,"name":"often"}},
                "spec":{{"concurrencyPolicy":"Allow","failedJobsHistoryLimit":1,
                    "jobTemplate":{{"metadata":{{}},"spec":{{"template":{{"metadata":{{}},"spec":{pod}}}}}}},
                    "schedule":"*/5 * * * *","successfulJobsHistoryLimit":3,"suspend":false}},
                "status":{{}}}}"#
        ),
    );
}

#[test]
fn horizontal_pod_autoscaler() {
    let stored = r#"{"metadata":{"name":"web"},
        "spec":{"maxReplicas":5,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"averageUtilization":80,"type":"Utilization"}}}],
            "minReplicas":1,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}},
        "status":{"currentMetrics":null,"desiredReplicas":0}}"#;
    let sent = r#"{"metadata":{"name":"web"},"spec":{"maxReplicas":5,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}}"#;
    for version in ["v1", "v2"] {
        let resource = format!("autoscaling/{version}/horizontalpodautoscalers");
        check_stored(&resource, "autoscaling/v2/horizontalpodautoscalers", sent, stored);
    }
    let v1 = VersionedResource::of("autoscaling/v1/horizontalpodautoscalers");
    let mut converted = json(stored);
    v1.strategy.convert_from_hub(&mut converted);
    let mut reloaded = v1.decoded(converted.clone());
    for field in ["kind", "apiVersion"] {
        reloaded.remove(field);
    }
    assert_eq!(reloaded, converted);
    assert_eq!(converted["status"], json(r#"{"currentReplicas":0,"desiredReplicas":0}"#));
}

#[test]
fn budgets_classes_and_leases() {
    let resource = "policy/v1/poddisruptionbudgets";
    check_stored(
        resource,
        resource,
        r#"{"metadata":{"name":"b"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}}"#,
        r#"{"metadata":{"generation":1,"name":"b"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}},
            "status":{"currentHealthy":0,"desiredHealthy":0,"disruptionsAllowed":0,"expectedPods":0}}"#,
    );
    let resource = "scheduling.k8s.io/v1/priorityclasses";
    check_stored(
        resource,
        resource,
        r#"{"metadata":{"name":"high"},"value":100,"globalDefault":false,"description":"d"}"#,
        r#"{"metadata":{"generation":1,"name":"high"},"value":100,"description":"d","preemptionPolicy":"PreemptLowerPriority"}"#,
    );
    let resource = "coordination.k8s.io/v1/leases";
    check_stored(
        resource,
        resource,
        r#"{"metadata":{"name":"l"},"spec":{"holderIdentity":"me","leaseDurationSeconds":15,"renewTime":"2024-01-01T00:00:00.500000Z"}}"#,
        r#"{"metadata":{"name":"l"},"spec":{"holderIdentity":"me","leaseDurationSeconds":15,"renewTime":"2024-01-01T00:00:00.500000Z"}}"#,
    );
}

#[test]
fn events_through_either_group() {
    let stored = r#"{"metadata":{"name":"e","namespace":"n"},"eventTime":"2024-01-01T00:00:00.000000Z","firstTimestamp":null,"lastTimestamp":null,
        "involvedObject":{"kind":"Pod","namespace":"n"},"message":"m","reason":"r","action":"a","type":"Normal",
        "reportingComponent":"c","reportingInstance":"i","source":{}}"#;
    check_stored(
        "events.k8s.io/v1/events",
        "v1/events",
        r#"{"metadata":{"name":"e","namespace":"n"},"eventTime":"2024-01-01T00:00:00.000000Z","regarding":{"kind":"Pod","namespace":"n"},
            "note":"m","reason":"r","action":"a","type":"Normal","reportingController":"c","reportingInstance":"i"}"#,
        stored,
    );
    check_stored(
        "v1/events",
        "v1/events",
        r#"{"metadata":{"name":"e","namespace":"n"},"eventTime":"2024-01-01T00:00:00.000000Z","involvedObject":{"kind":"Pod","namespace":"n"},
            "message":"m","reason":"r","action":"a","type":"Normal","reportingComponent":"c","reportingInstance":"i"}"#,
        stored,
    );
    let resource = VersionedResource::of("events.k8s.io/v1/events");
    let mut converted = json(stored);
    resource.strategy.convert_from_hub(&mut converted);
    let mut reloaded = resource.decoded(converted.clone());
    for field in ["kind", "apiVersion"] {
        reloaded.remove(field);
    }
    assert_eq!(reloaded, converted);
}
