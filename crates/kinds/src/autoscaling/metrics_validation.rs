//! Validates the metrics of an autoscaler: exactly one source, which matches the type, with a target of the right type
//! (upstream: `validateMetrics` and its callees).

use pintle_value::{Errors, FieldPath, Value};

use super::hpa_validation::{ReferenceOptions, validate_reference, version_error};
use crate::declarative::Rules;

static CONTAINER_RESOURCE: Rules = Rules::own("autoscaling/v2", "ContainerResourceMetricSource");
static RESOURCE: Rules = Rules::own("autoscaling/v2", "ResourceMetricSource");
static METRIC: Rules = Rules::own("autoscaling/v2", "MetricIdentifier");
static TARGET: Rules = Rules::own("autoscaling/v2", "MetricTarget");

const METRIC_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// The source fields with the metric type of each, in upstream's order.
const SOURCES: [(&str, &str); 5] = [
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];

/// Validates the metrics of a spec.
pub(super) fn validate(errors: &mut Errors, spec: &Value, old: Option<&Value>, path: &FieldPath<'_>) {
    let mut options = ReferenceOptions { core_group: true, any_version: false };
    let metrics = spec.items_at(&["metrics"]);
    let old_metrics = old.map_or(&[][..], |old| old.items_at(&["metrics"]));
    options.any_version = old_metrics
        .iter()
        .filter(|metric| metric.str_at(&["type"]) == "Object")
        .filter_map(|metric| metric.at(&["object"]))
        .any(|object| version_error(&object["describedObject"], options).is_some());
    for (i, metric) in metrics.iter().enumerate() {
        validate_metric(errors, metric, &path.index(i), options);
    }
    let from_outside = metrics.iter().any(|metric| ["Object", "External"].contains(&metric.str_at(&["type"])));
    if spec.int_at(&["minReplicas"]) == Some(0) && !from_outside {
        let text = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(path, text);
    }
}

fn validate_metric(errors: &mut Errors, metric: &Value, path: &FieldPath<'_>, options: ReferenceOptions) {
    let kind = metric.str_at(&["type"]);
    let type_path = path.child("type");
    if kind.is_empty() {
        errors.required(&type_path, "must specify a metric source type");
    }
    if !METRIC_TYPES.contains(&kind) {
        errors.not_supported(&type_path, kind, &METRIC_TYPES);
    }
    let mut present: Vec<&str> =
        SOURCES.iter().map(|(field, _)| *field).filter(|field| metric.get(field).is_some()).collect();
    // Upstream only validates the first source.
    if let Some(field) = present.first() {
        validate_source(errors, field, &metric[*field], &path.child(field), options);
    }
    match SOURCES.iter().find(|(_, name)| *name == kind) {
        Some((field, _)) => {
            if !present.contains(field) {
                errors.required(&path.child(field), "must populate information for the given metric source");
            }
            if present.len() != 1 {
                present.retain(|other| other != field);
            } else {
                present.clear();
            }
        }
        None => {
            errors.not_supported(&type_path, kind, &METRIC_TYPES);
            if present.len() == 1 {
                present.clear();
            }
        }
    }
    for field in present {
        errors.forbidden(&path.child(field), "must populate the given metric source only");
    }
}

fn validate_source(errors: &mut Errors, field: &str, source: &Value, path: &FieldPath<'_>, options: ReferenceOptions) {
    let target = &source["target"];
    let target_path = path.child("target");
    let has = |field: &str| target.get(field).is_some();
    match field {
        "object" => {
            validate_reference(errors, &source["describedObject"], &path.child("describedObject"), options);
            METRIC.validate_part(errors, &source["metric"], &path.child("metric"));
            TARGET.validate_part(errors, target, &target_path);
            if !has("value") && !has("averageValue") {
                let text = "must set either a target value or averageValue";
                errors.required(&target_path.child("averageValue"), text);
            }
        }
        "external" => {
            METRIC.validate_part(errors, &source["metric"], &path.child("metric"));
            TARGET.validate_part(errors, target, &target_path);
            if !has("value") && !has("averageValue") {
                let text = "must set either a target value for metric or a per-pod target";
                errors.required(&target_path.child("averageValue"), text);
            }
            if has("value") && has("averageValue") {
                let text = "may not set both a target value for metric and a per-pod target";
                errors.forbidden(&target_path.child("value"), text);
            }
        }
        "pods" => {
            METRIC.validate_part(errors, &source["metric"], &path.child("metric"));
            TARGET.validate_part(errors, target, &target_path);
            if !has("averageValue") {
                let text = "must specify a positive target averageValue";
                errors.required(&target_path.child("averageValue"), text);
            }
        }
        _ => {
            let rules = if field == "containerResource" { &CONTAINER_RESOURCE } else { &RESOURCE };
            rules.validate_part(errors, source, path);
            TARGET.validate_part(errors, target, &target_path);
            if !has("averageUtilization") && !has("averageValue") {
                let text = "must set either a target raw value or a target utilization";
                errors.required(&target_path.child("averageUtilization"), text);
            }
            if has("averageUtilization") && has("averageValue") {
                let text = "may not set both a target raw value and a target utilization";
                errors.forbidden(&target_path.child("averageValue"), text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    #[test]
    fn metrics_are_validated() {
        let check = |metric: &str, expect: &[&str]| {
            let spec = object(&format!(r#"{{"metrics":[{metric}]}}"#));
            let mut errors = Errors::new();
            validate(&mut errors, &spec, None, &FieldPath::new("m"));
            assert_eq!(messages(&errors), expect);
        };
        check(
            r#"{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}"#,
            &[],
        );
        check(
            r#"{"type":"Resource","resource":{"name":"","target":{"type":"","averageUtilization":0,"averageValue":"0"}}}"#,
            &[
                "m[0].resource.name: Required value: must specify a resource name",
                "m[0].resource.target.type: Required value: must specify a metric target type",
                "m[0].resource.target.type: Invalid value: \"\": must be either Utilization, Value, or AverageValue",
                "m[0].resource.target.averageValue: Invalid value: \"0\": must be positive",
                "m[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
                "m[0].resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization",
            ],
        );
        check(
            r#"{"type":"Pods"}"#,
            &["m[0].pods: Required value: must populate information for the given metric source"],
        );
        check(
            r#"{"type":"Other"}"#,
            &[
                "m[0].type: Unsupported value: \"Other\": supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"",
                "m[0].type: Unsupported value: \"Other\": supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"",
            ],
        );
        let pods = r#""pods":{"metric":{"name":"m"},"target":{"type":"AverageValue","averageValue":"1"}}"#;
        check(
            &format!(r#"{{"type":"Resource",{pods},"resource":{{}}}}"#),
            &["m[0].pods: Forbidden: must populate the given metric source only"],
        );
        check(
            r#"{"type":"Object","object":{"describedObject":{"kind":"K","name":"n","apiVersion":"v1"},"metric":{"name":"a/b"},"target":{"type":"Value"}}}"#,
            &[
                "m[0].object.metric.name: Invalid value: \"a/b\": may not contain '/'",
                "m[0].object.target.averageValue: Required value: must set either a target value or averageValue",
            ],
        );
    }
}
