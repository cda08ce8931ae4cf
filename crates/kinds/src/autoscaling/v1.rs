//! Converts HorizontalPodAutoscaler between `autoscaling/v1` and `v2` (upstream:
//! `pkg/apis/autoscaling/v1/conversion.go`). Annotations store values for which `v1` has no fields.

use pintle_value::{Value, object};

use super::annotations::{self, BEHAVIOR, CONDITIONS, CURRENT_METRICS, FieldReader, METRICS, present, read, read_list};
use super::hpa::{DEFAULT_CPU_UTILIZATION, cpu_metric};
use super::metrics_v1 as metrics;
use crate::go_json::{self, GoType};

/// The fields of everything that is written into annotations, in an order that is correct for all of their structs.
const ORDER: [&str; 31] = [
    "type",
    "status",
    "lastTransitionTime",
    "reason",
    "message",
    "observedGeneration",
    "object",
    "pods",
    "resource",
    "containerResource",
    "external",
    "target",
    "kind",
    "name",
    "apiVersion",
    "metricName",
    "metricSelector",
    "targetValue",
    "currentValue",
    "targetAverageUtilization",
    "currentAverageUtilization",
    "targetAverageValue",
    "currentAverageValue",
    "selector",
    "averageValue",
    "container",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
];

/// `spec.behavior` in the internal version.
const BEHAVIOR_SHAPE: GoType = GoType::Of("autoscaling/v2.HorizontalPodAutoscalerBehavior");

/// The field names in `spec.behavior`. Go reads them case-insensitively.
const BEHAVIOR_FIELDS: [&str; 9] = [
    "scaleUp",
    "scaleDown",
    "stabilizationWindowSeconds",
    "selectPolicy",
    "policies",
    "tolerance",
    "type",
    "value",
    "periodSeconds",
];

/// Converts an autoscaler from `v2` to `v1`.
pub(super) fn from_hub(object: &mut Value) {
    annotations::drop_all(object);
    let spec = object["spec"].clone();
    let status = object["status"].clone();

    let others: Vec<Value> =
        spec.items_at(&["metrics"]).iter().filter(|m| utilization(m).is_none()).map(metrics::spec_from_hub).collect();
    if !others.is_empty() {
        object.annotate(METRICS, go_json::ordered(&Value::Array(others), &ORDER));
    }
    let current: Vec<Value> = status.items_at(&["currentMetrics"]).iter().map(metrics::status_from_hub).collect();
    if !current.is_empty() {
        object.annotate(CURRENT_METRICS, go_json::ordered(&Value::Array(current), &ORDER));
    }
    if let Some(behavior) = spec.get("behavior") {
        object.annotate(BEHAVIOR, go_json::internal(Some(behavior), &BEHAVIOR_SHAPE));
    }
    let conditions = status.items_at(&["conditions"]);
    if !conditions.is_empty() {
        object.annotate(CONDITIONS, go_json::ordered(&Value::Array(conditions.to_vec()), &ORDER));
    }

    let mut spec_v1 = copy(&spec, &["scaleTargetRef", "minReplicas", "maxReplicas"]);
    if let Some(percentage) = spec.items_at(&["metrics"]).iter().find_map(utilization) {
        spec_v1.set("targetCPUUtilizationPercentage", percentage);
    }
    object.set("spec", spec_v1);
    let mut status_v1 = copy(&status, &["observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas"]);
    status_v1.set_default("currentReplicas", 0);
    status_v1.set_default("desiredReplicas", 0);
    if let Some(percentage) = status.items_at(&["currentMetrics"]).iter().rev().find_map(current_utilization) {
        status_v1.set("currentCPUUtilizationPercentage", percentage);
    }
    object.set("status", status_v1);
}

/// Converts an autoscaler from `v1` to `v2`. Conditions in the annotation may have generations.
pub(super) fn to_hub(object: &mut Value, with_generations: bool) {
    let (spec_v1, status_v1) = (object["spec"].clone(), object["status"].clone());
    let mut spec = copy(&spec_v1, &["scaleTargetRef", "minReplicas", "maxReplicas"]);
    let cpu = spec_v1.int_at(&["targetCPUUtilizationPercentage"]).map(cpu_metric);
    let mut all = read_list(object, METRICS, metrics::spec_to_hub).unwrap_or_default();
    all.extend(cpu);
    if all.is_empty() {
        // The one default that is part of a conversion in upstream, too: it depends on the annotations.
        all.push(cpu_metric(DEFAULT_CPU_UTILIZATION));
    }
    spec.set("metrics", all);
    if let Some(behavior) = read(object, BEHAVIOR).as_ref().and_then(read_behavior) {
        spec.set("behavior", behavior);
    }

    let mut status = copy(&status_v1, &["observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas"]);
    if status.int_at(&["currentReplicas"]) == Some(0) {
        status.remove("currentReplicas");
    }
    status.set_default("desiredReplicas", 0);
    let current = read_list(object, CURRENT_METRICS, metrics::status_to_hub).or_else(|| {
        let percentage = status_v1.int_at(&["currentCPUUtilizationPercentage"])?;
        let current = object! { "averageUtilization": percentage };
        let resource = object! { "name": "cpu", "current": current };
        Some(vec![object! { "type": "Resource", "resource": resource }])
    });
    status.set("currentMetrics", current.map(Value::Array));
    if let Some(conditions) = conditions(object, with_generations).filter(|list| !list.is_empty()) {
        status.set("conditions", conditions);
    }
    object.set("spec", spec);
    object.set("status", status);
    annotations::drop_all(object);
}

fn copy(value: &Value, fields: &[&str]) -> Value {
    fields.iter().filter_map(|field| Some((*field, value.get(field)?.clone()))).collect::<pintle_value::Object>().into()
}

/// Returns the target utilization of a CPU metric.
fn utilization(metric: &Value) -> Option<i64> {
    let cpu = metric.str_at(&["type"]) == "Resource" && metric.str_at(&["resource", "name"]) == "cpu";
    metric.int_at(&["resource", "target", "averageUtilization"]).filter(|_| cpu)
}

fn current_utilization(metric: &Value) -> Option<i64> {
    let cpu = metric.str_at(&["type"]) == "Resource" && metric.str_at(&["resource", "name"]) == "cpu";
    metric.int_at(&["resource", "current", "averageUtilization"]).filter(|_| cpu)
}

fn conditions(object: &Value, with_generations: bool) -> Option<Vec<Value>> {
    read_list(object, CONDITIONS, |condition| read_condition(condition, with_generations))
}

fn read_condition(condition: &Value, with_generation: bool) -> Option<Value> {
    let condition = FieldReader::of(condition)?;
    let optional = |field: &str| condition.text(field).map(|text| if text.is_empty() { Value::Null } else { text });
    let mut out = present([
        ("type", condition.text("type")?),
        ("status", condition.text("status")?),
        ("reason", optional("reason")?),
        ("message", optional("message")?),
        ("observedGeneration", if with_generation { condition.long("observedGeneration")? } else { Value::Null }),
    ]);
    out.set("lastTransitionTime", optional("lastTransitionTime")?);
    Some(out)
}

/// Reads `spec.behavior` from the form of the internal version. Returns `None` if it is malformed or empty.
fn read_behavior(annotation: &Value) -> Option<Value> {
    let annotation = with_json_names(annotation);
    let behavior = FieldReader::of(&annotation)?;
    let mut out = Value::object();
    for direction in ["scaleUp", "scaleDown"] {
        let Some(rules) = behavior.part(direction)? else { continue };
        let policy = rules.text("selectPolicy")?;
        let mut read = present([
            ("stabilizationWindowSeconds", rules.int("stabilizationWindowSeconds")?),
            ("selectPolicy", if policy.is_empty() { Value::Null } else { policy }),
            ("tolerance", rules.quantity("tolerance")?),
        ]);
        if let Some(policies) = annotation.at(&[direction, "policies"]) {
            let policies: Option<Vec<Value>> = policies.as_array()?.iter().map(read_policy).collect();
            read.set("policies", policies?);
        }
        out.set(direction, read);
    }
    (!out.is_empty()).then_some(out)
}

fn read_policy(policy: &Value) -> Option<Value> {
    let policy = FieldReader::of(policy)?;
    let number = |field: &str| policy.int(field).map(|n| if n.is_null() { Value::Int(0) } else { n });
    Some(present([
        ("type", policy.text("type")?),
        ("value", number("value")?),
        ("periodSeconds", number("periodSeconds")?),
    ]))
}

fn with_json_names(value: &Value) -> Value {
    let name = |key: &str| {
        let known = BEHAVIOR_FIELDS.into_iter().find(|field| field.eq_ignore_ascii_case(key));
        known.unwrap_or(key).to_owned()
    };
    match value {
        Value::Array(items) => Value::Array(items.iter().map(with_json_names).collect()),
        Value::Object(object) => {
            let entries = object.iter().map(|(key, value)| (name(key), with_json_names(value)));
            Value::Object(entries.collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn v1_stores_other_metrics_in_annotations() {
        let hub = object(
            r#"{"metadata":{"name":"h"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"},"minReplicas":1,"maxReplicas":5,
                "metrics":[{"type":"Pods","pods":{"metric":{"name":"m","selector":{"matchLabels":{"a":"b"}}},"target":{"type":"AverageValue","averageValue":"5"}}},
                    {"type":"Object","object":{"describedObject":{"kind":"K","name":"n"},"metric":{"name":"o"},"target":{"type":"Value","value":"10"}}},
                    {"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":70}}}],
                "behavior":{"scaleUp":{"stabilizationWindowSeconds":0,"selectPolicy":"Max","policies":[{"type":"Pods","value":4,"periodSeconds":15}]}}},
              "status":{"currentReplicas":2,"desiredReplicas":3,
                "currentMetrics":[{"type":"Resource","resource":{"name":"cpu","current":{"averageValue":"100m","averageUtilization":50}}}],
                "conditions":[{"type":"AbleToScale","status":"True","lastTransitionTime":"2024-01-01T00:00:00Z","reason":"R"}]}}"#,
        );
        let mut v1 = hub.clone();
        from_hub(&mut v1);
        assert_eq!(
            v1["spec"],
            object(
                r#"{"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"},"minReplicas":1,"maxReplicas":5,"targetCPUUtilizationPercentage":70}"#
            )
        );
        assert_eq!(
            v1["status"],
            object(r#"{"currentReplicas":2,"desiredReplicas":3,"currentCPUUtilizationPercentage":50}"#)
        );
        let check = |name: &str, expect: &str| assert_eq!(v1.annotation(name), Some(expect));
        check(
            METRICS,
            r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"5","selector":{"matchLabels":{"a":"b"}}}},{"type":"Object","object":{"target":{"kind":"K","name":"n"},"metricName":"o","targetValue":"10"}}]"#,
        );
        check(
            CURRENT_METRICS,
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":50,"currentAverageValue":"100m"}}]"#,
        );
        check(
            CONDITIONS,
            r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":"2024-01-01T00:00:00Z","reason":"R"}]"#,
        );
        check(
            BEHAVIOR,
            r#"{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":null},"ScaleDown":null}"#,
        );
        let mut back = v1.clone();
        to_hub(&mut back, true);
        assert_eq!(back, hub);
    }

    #[test]
    fn conditions_have_generations() {
        let check = |condition: &str, with_generations: bool, expect: Option<&str>| {
            let mut hpa = object(r#"{"metadata":{},"spec":{},"status":{}}"#);
            hpa.annotate(CONDITIONS, format!("[{condition}]"));
            to_hub(&mut hpa, with_generations);
            assert_eq!(hpa.items_at(&["status", "conditions"]).first(), expect.map(object).as_ref());
            if with_generations && expect.is_some() {
                from_hub(&mut hpa);
                assert_eq!(hpa.annotation(CONDITIONS), Some(format!("[{condition}]").as_str()));
            }
        };
        let condition = r#"{"type":"T","status":"True","lastTransitionTime":null,"observedGeneration":4000000000}"#;
        check(condition, true, Some(condition));
        check(condition, false, Some(r#"{"type":"T","status":"True","lastTransitionTime":null}"#));
        let malformed = r#"{"type":"T","status":"True","observedGeneration":"1"}"#;
        check(malformed, true, None);
        check(malformed, false, Some(r#"{"type":"T","status":"True","lastTransitionTime":null}"#));
    }

    #[test]
    fn malformed_annotations_are_ignored() {
        let check = |annotations: &str, spec: &str, expect: &str| {
            let mut hpa =
                object(&format!(r#"{{"metadata":{{"annotations":{annotations}}},"spec":{spec},"status":{{}}}}"#));
            to_hub(&mut hpa, true);
            assert_eq!(hpa["spec"], object(expect));
            assert_eq!(hpa["status"], object(r#"{"desiredReplicas":0,"currentMetrics":null}"#));
        };
        let cpu = r#"{"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]}"#;
        check("{}", "{}", cpu);
        for text in ["x", "{}", "[1]", "[{\\\"type\\\":1}]", "[{\\\"pods\\\":{\\\"targetAverageValue\\\":\\\"x\\\"}}]"]
        {
            check(&format!(r#"{{"{METRICS}":"{text}","{BEHAVIOR}":"{text}"}}"#), "{}", cpu);
        }
        for selector in
            [r#"{"matchLabels":{"a":1}}"#, r#"{"matchExpressions":{}}"#, r#"{"matchExpressions":[{"key":1}]}"#, "[]"]
        {
            let metrics = format!(r#"[{{"type":"Pods","pods":{{"metricName":"m","selector":{selector}}}}}]"#);
            check(&serde_json::json!({ METRICS: metrics }).to_string(), "{}", cpu);
        }
        let selector = r#"{"matchLabels":{"a":null},"matchExpressions":[{"key":"k","operator":null,"values":[null]}]}"#;
        let metrics =
            format!(r#"[{{"type":"Pods","pods":{{"metricName":null,"selector":{selector}}},"object":null}}]"#);
        check(
            &serde_json::json!({ METRICS: metrics }).to_string(),
            "{}",
            r#"{"metrics":[{"type":"Pods","pods":{
                "metric":{"name":"","selector":{"matchLabels":{"a":""},"matchExpressions":[{"key":"k","operator":"","values":[""]}]}},
                "target":{"type":"AverageValue","averageValue":"0"}}}]}"#,
        );
        check(
            &format!(
                r#"{{"{METRICS}":"[{{\"type\":\"Resource\",\"resource\":{{\"name\":\"memory\",\"targetAverageValue\":\"1024Ki\"}}}}]"}}"#
            ),
            r#"{"targetCPUUtilizationPercentage":50}"#,
            r#"{"metrics":[{"type":"Resource","resource":{"name":"memory","target":{"type":"AverageValue","averageValue":"1Mi"}}},
                {"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}"#,
        );
    }
}
