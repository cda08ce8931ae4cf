//! No rule of workloads, autoscalers, budgets, leases and events panics, whatever tree it is given.

use pintle_kinds::behaviour;
use pintle_kinds::scale::{ScalePaths, apply_scale, scale_of};
use pintle_registry::{Behaviour, Context};
use pintle_value::time::Time;
use pintle_value::{Object, Value};

const TEMPLATE: &str = r#"{"metadata":{"labels":{"app":"x"},"annotations":{"a":"b"}},"spec":{"restartPolicy":"Never","activeDeadlineSeconds":1,
    "hostname":"h","subdomain":"s","affinity":{"nodeAffinity":{}},"nodeSelector":{"a":"b"},"volumes":[{"name":"v","emptyDir":{}}],
    "containers":[{"name":"c","image":"i:1","resources":{"limits":{"cpu":"1"}}}],"initContainers":[{"name":"i","image":"i"}]}}"#;

const SELECTOR: &str = r#"{"matchLabels":{"app":"x"},"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}"#;

/// One object of each kind with as many fields as its rules look at; TEMPLATE and SELECTOR stand for the ones above.
const SAMPLES: [(&str, &str, &str, &str); 15] = [
    (
        "apps",
        "v1",
        "deployments",
        r#"{"metadata":{"name":"d","generation":1,"annotations":{"deprecated.deployment.rollback.to":"1"}},"spec":{"replicas":1,"selector":SELECTOR,
        "strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}},"minReadySeconds":1,"progressDeadlineSeconds":2,
        "revisionHistoryLimit":1,"template":TEMPLATE},"status":{"replicas":1,"readyReplicas":1,"collisionCount":1}}"#,
    ),
    (
        "apps",
        "v1",
        "replicasets",
        r#"{"spec":{"replicas":1,"selector":SELECTOR,"template":TEMPLATE},"status":{"replicas":1,"fullyLabeledReplicas":1}}"#,
    ),
    (
        "apps",
        "v1",
        "statefulsets",
        r#"{"spec":{"replicas":1,"serviceName":"s","selector":SELECTOR,"template":TEMPLATE,"podManagementPolicy":"Parallel","ordinals":{"start":1},
        "updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":1,"maxUnavailable":"10%"}},
        "persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Delete"},"revisionHistoryLimit":-1,
        "volumeClaimTemplates":[{"metadata":{"name":"v"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}]},
        "status":{"replicas":1,"currentReplicas":1,"collisionCount":1}}"#,
    ),
    (
        "apps",
        "v1",
        "daemonsets",
        r#"{"metadata":{"annotations":{"deprecated.daemonset.template.generation":"3"}},"spec":{"selector":SELECTOR,"template":TEMPLATE,
        "updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}},"status":{"numberReady":1,"collisionCount":1}}"#,
    ),
    ("apps", "v1", "controllerrevisions", r#"{"data":{"a":1},"revision":1}"#),
    (
        "batch",
        "v1",
        "jobs",
        r#"{"metadata":{"name":"j","uid":"u"},"spec":{"completionMode":"Indexed","completions":200000,"parallelism":20000,"backoffLimitPerIndex":1,
        "maxFailedIndexes":10,"managedBy":"a.b/c","suspend":true,"manualSelector":false,"selector":SELECTOR,"template":TEMPLATE,
        "podFailurePolicy":{"rules":[{"action":"FailJob","onExitCodes":{"containerName":"c","operator":"In","values":[1,2]}},
            {"action":"Ignore","onPodConditions":[{"type":"a","status":"True"}]}]},
        "successPolicy":{"rules":[{"succeededCount":1,"succeededIndexes":"0-3"}]},"podReplacementPolicy":"Failed"},
        "status":{"active":1,"ready":2,"terminating":1,"startTime":"2024-01-01T00:00:00Z","completionTime":"2023-01-01T00:00:00Z","completedIndexes":"0-3",
        "failedIndexes":"3","uncountedTerminatedPods":{"succeeded":["a"],"failed":["b"]},
        "conditions":[{"type":"Complete","status":"True"},{"type":"Failed","status":"True"},{"type":"SuccessCriteriaMet","status":"True"}]}}"#,
    ),
    (
        "batch",
        "v1",
        "cronjobs",
        r#"{"metadata":{"name":"c"},"spec":{"schedule":"TZ=UTC 0 0 * * *","timeZone":"Europe/Berlin","concurrencyPolicy":"Allow","startingDeadlineSeconds":1,
        "jobTemplate":{"metadata":{},"spec":{"manualSelector":true,"selector":SELECTOR,"template":TEMPLATE}}}}"#,
    ),
    (
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        r#"{"metadata":{"annotations":{"a":"b"}},"spec":{"minReplicas":1,"maxReplicas":2,"scaleTargetRef":{"kind":"K","name":"n","apiVersion":"a/v1"},
        "metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":1,"averageValue":"1"}}},
            {"type":"ContainerResource","containerResource":{"name":"cpu","container":"c","target":{"type":"AverageValue","averageValue":"1"}}},
            {"type":"Object","object":{"describedObject":{"kind":"K","name":"n"},"metric":{"name":"m","selector":SELECTOR},"target":{"type":"Value","value":"1"}}},
            {"type":"Pods","pods":{"metric":{"name":"m"},"target":{"type":"AverageValue","averageValue":"1"}}},
            {"type":"External","external":{"metric":{"name":"m"},"target":{"type":"Value","value":"1"}}}],
        "behavior":{"scaleUp":{"stabilizationWindowSeconds":1,"selectPolicy":"Max","policies":[{"type":"Pods","value":1,"periodSeconds":1}],"tolerance":"0.1"}}},
        "status":{"currentReplicas":1,"desiredReplicas":1,"conditions":[{"type":"a","status":"True","lastTransitionTime":null}],
        "currentMetrics":[{"type":"Object","object":{"describedObject":{},"metric":{"name":"m"},"current":{"value":"1"}}},
            {"type":"Resource","resource":{"name":"cpu","current":{"averageUtilization":1}}}]}}"#,
    ),
    (
        "autoscaling",
        "v1",
        "horizontalpodautoscalers",
        r#"{"metadata":{"annotations":{"autoscaling.alpha.kubernetes.io/metrics":"[{\"type\":\"Pods\",\"pods\":{}}]",
        "autoscaling.alpha.kubernetes.io/behavior":"{\"ScaleUp\":{\"Policies\":[{}]}}","autoscaling.alpha.kubernetes.io/conditions":"[{}]"}},
        "spec":{"maxReplicas":2,"targetCPUUtilizationPercentage":5},"status":{"currentReplicas":0,"currentCPUUtilizationPercentage":5}}"#,
    ),
    (
        "policy",
        "v1",
        "poddisruptionbudgets",
        r#"{"spec":{"minAvailable":"1%","maxUnavailable":1,"selector":{"matchExpressions":[{"key":"pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match",
        "operator":"DoesNotExist"}]},"unhealthyPodEvictionPolicy":"AlwaysAllow"},"status":{"conditions":[{"type":"a","status":"True"}],"currentHealthy":1}}"#,
    ),
    (
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        r#"{"metadata":{"name":"system-x"},"value":1,"preemptionPolicy":"Never","globalDefault":true}"#,
    ),
    (
        "coordination.k8s.io",
        "v1",
        "leases",
        r#"{"spec":{"leaseDurationSeconds":1,"leaseTransitions":1,"strategy":"a/b","preferredHolder":"h"}}"#,
    ),
    (
        "",
        "v1",
        "events",
        r#"{"metadata":{"name":"e","namespace":"n"},"involvedObject":{"namespace":"n"},"eventTime":"2024-01-01T00:00:00.000000Z","series":{"count":1},
        "reportingComponent":"c","reportingInstance":"i","action":"a","reason":"r","message":"m","source":{"component":"c"},"type":"Normal"}"#,
    ),
    (
        "events.k8s.io",
        "v1",
        "events",
        r#"{"metadata":{"name":"e","namespace":"n"},"regarding":{"namespace":"n"},"eventTime":"2024-01-01T00:00:00.000000Z","series":{"count":1},
        "reportingController":"c","note":"m","deprecatedSource":{"component":"c"},"deprecatedCount":1,"type":"Normal"}"#,
    ),
    (
        "events.k8s.io",
        "v1",
        "events",
        r#"{"metadata":{"name":"e","namespace":"n"},"involvedObject":{"namespace":"n"},"eventTime":"2024-01-01T00:00:00.000000Z","series":{"count":1}}"#,
    ),
];

/// What takes the place of each part of a sample.
const ODDITIES: [&str; 10] = [
    "null",
    "-9223372036854775808",
    "9223372036854775807",
    "1.5",
    "\"\"",
    "\"99999999999999999999%\"",
    "\"\\u0000é/-\"",
    "[]",
    "{}",
    "[null,{\"\":[1]},true]",
];

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("the test's JSON is well formed")
}

/// Calls `see` with every tree that differs from `sample` in one part, which is an oddity or not there.
fn for_each_variant(sample: &Value, see: &mut dyn FnMut(Value)) {
    for oddity in ODDITIES {
        see(json(oddity));
    }
    match sample {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                for_each_variant(item, &mut |odd| {
                    let mut items = items.clone();
                    items[i] = odd;
                    see(Value::Array(items));
                });
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields.iter() {
                for_each_variant(field, &mut |odd| {
                    let mut fields = fields.clone();
                    fields.insert(key, odd);
                    see(Value::Object(fields));
                });
                let others = fields.iter().filter(|(other, _)| *other != key);
                see(Value::Object(others.map(|(key, value)| (key, value.clone())).collect::<Object>()));
            }
        }
        _ => {}
    }
}

fn exercise(rules: &dyn Behaviour, context: &Context, object: &Value, old: &Value) {
    let mut defaulted = object.clone();
    rules.defaults(&mut defaulted);
    rules.convert_to_hub(&mut defaulted);
    let mut shown = object.clone();
    rules.convert_from_hub(&mut shown);
    for object in [object, &defaulted] {
        let mut created = object.clone();
        rules.prepare_for_create(context, &mut created);
        let _ = rules.validate(context, &created);
        let _ = rules.warnings(context, &created, None);
        let mut updated = object.clone();
        rules.prepare_for_update(context, &mut updated, old);
        let _ = rules.validate_update(context, &updated, old);
        let _ = rules.warnings(context, &updated, Some(old));
        let _ = rules.selectable_fields(&updated);
        if let Some(status) = rules.subresource("status") {
            let mut updated = object.clone();
            status.prepare_for_update(context, &mut updated, old);
            let _ = status.validate_update(context, &updated, old);
        }
    }
}

#[test]
fn no_rule_panics() {
    let now = Time { seconds: 1_700_000_000, nanos: 0 };
    let context =
        Context { now, user: "u".into(), uid: "".into(), groups: Vec::new(), extra: Vec::new(), dry_run: false };
    for (group, version, plural, text) in SAMPLES {
        let rules = behaviour(group, version, plural);
        let sample = json(&text.replace("SELECTOR", SELECTOR).replace("TEMPLATE", TEMPLATE));
        for_each_variant(&sample, &mut |odd| {
            exercise(rules.as_ref(), &context, &odd, &sample);
            exercise(rules.as_ref(), &context, &sample, &odd);
            if let Some(paths) = ScalePaths::built_in(group, plural) {
                let _ = scale_of(&odd, &paths);
                let _ = apply_scale(&mut odd.clone(), &odd, &paths);
            }
        });
    }
}
