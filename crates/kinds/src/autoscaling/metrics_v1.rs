//! Converts metrics and their status between the forms of `autoscaling/v1` and `v2` (upstream: the conversion functions
//! of `pkg/apis/autoscaling/v1`). Annotations still use the form of `v1`.

use pintle_value::{Quantity, Value, object};

use super::annotations::{FieldReader, present};

const ZERO: &str = "0";

/// The source fields of metrics.
const SOURCES: [&str; 5] = ["object", "pods", "resource", "containerResource", "external"];

fn or_zero(value: Option<&Value>) -> Value {
    value.cloned().unwrap_or_else(|| Value::from(ZERO))
}

fn copy(value: &Value, path: &[&str]) -> Value {
    value.at(path).cloned().unwrap_or_default()
}

/// Converts a metric from `v2` to `v1`.
pub(super) fn spec_from_hub(metric: &Value) -> Value {
    from_hub(metric, |field, source| {
        let target = |name: &str| copy(source, &["target", name]);
        match field {
            "object" => vec![
                ("target", copy(source, &["describedObject"])),
                ("targetValue", or_zero(source.at(&["target", "value"]))),
                ("averageValue", target("averageValue")),
            ],
            "pods" => vec![("targetAverageValue", or_zero(source.at(&["target", "averageValue"])))],
            "external" => vec![("targetValue", target("value")), ("targetAverageValue", target("averageValue"))],
            _ => vec![
                ("targetAverageUtilization", target("averageUtilization")),
                ("targetAverageValue", target("averageValue")),
            ],
        }
    })
}

/// Converts the status of a metric from `v2` to `v1`.
pub(super) fn status_from_hub(metric: &Value) -> Value {
    from_hub(metric, |field, source| {
        let current = |name: &str| copy(source, &["current", name]);
        match field {
            "object" => vec![
                ("target", copy(source, &["describedObject"])),
                ("currentValue", or_zero(source.at(&["current", "value"]))),
                ("averageValue", current("averageValue")),
            ],
            "pods" => vec![("currentAverageValue", or_zero(source.at(&["current", "averageValue"])))],
            "external" => vec![
                ("currentValue", or_zero(source.at(&["current", "value"]))),
                ("currentAverageValue", current("averageValue")),
            ],
            _ => vec![
                ("currentAverageUtilization", current("averageUtilization")),
                ("currentAverageValue", or_zero(source.at(&["current", "averageValue"]))),
            ],
        }
    })
}

fn from_hub(metric: &Value, values: impl Fn(&'static str, &Value) -> Vec<(&'static str, Value)>) -> Value {
    let mut out = object! { "type": metric.str_at(&["type"]) };
    for field in SOURCES {
        let Some(source) = metric.get(field) else { continue };
        let mut entries = values(field, source);
        match field {
            "object" | "pods" | "external" => {
                let selector = if field == "external" { "metricSelector" } else { "selector" };
                entries.push(("metricName", Value::from(source.str_at(&["metric", "name"]))));
                entries.push((selector, copy(source, &["metric", "selector"])));
            }
            _ => {
                entries.push(("name", Value::from(source.str_at(&["name"]))));
                if field == "containerResource" {
                    entries.push(("container", Value::from(source.str_at(&["container"]))));
                }
            }
        }
        entries.retain(|(_, value)| !value.is_null());
        out.set(field, Value::Object(entries.into_iter().collect()));
    }
    out
}

/// Converts a metric from `v1` to `v2`. Returns `None` if it is malformed.
pub(super) fn spec_to_hub(metric: &Value) -> Option<Value> {
    to_hub(metric, |field, source| {
        let target = match field {
            "object" => {
                let (value, average) = (source.quantity_or_zero("targetValue")?, source.quantity("averageValue")?);
                if average.is_null() {
                    present([("type", "Value".into()), ("value", value)])
                } else {
                    // `v1` cannot omit the value, so zero stands for absence.
                    let value = if is_zero(&value) { Value::Null } else { value };
                    present([("type", "AverageValue".into()), ("value", value), ("averageValue", average)])
                }
            }
            "pods" => {
                let average = source.quantity_or_zero("targetAverageValue")?;
                present([("type", "AverageValue".into()), ("averageValue", average)])
            }
            "external" => {
                let (value, average) = (source.quantity("targetValue")?, source.quantity("targetAverageValue")?);
                let kind = if value.is_null() { "AverageValue" } else { "Value" };
                present([("type", kind.into()), ("value", value), ("averageValue", average)])
            }
            _ => {
                let utilization = source.int("targetAverageUtilization")?;
                let average = source.quantity("targetAverageValue")?;
                let kind = if utilization.is_null() { "AverageValue" } else { "Utilization" };
                present([("type", kind.into()), ("averageUtilization", utilization), ("averageValue", average)])
            }
        };
        Some(("target", target))
    })
}

/// Converts the status of a metric from `v1` to `v2`. Returns `None` if it is malformed.
pub(super) fn status_to_hub(metric: &Value) -> Option<Value> {
    to_hub(metric, |field, source| {
        let current = match field {
            "object" => {
                let (value, average) = (source.quantity_or_zero("currentValue")?, source.quantity("averageValue")?);
                present([("value", value), ("averageValue", average)])
            }
            "pods" => present([("averageValue", source.quantity_or_zero("currentAverageValue")?)]),
            "external" => {
                let value = source.quantity_or_zero("currentValue")?;
                present([("value", value), ("averageValue", source.quantity("currentAverageValue")?)])
            }
            _ => {
                let average = source.quantity_or_zero("currentAverageValue")?;
                let utilization = source.int("currentAverageUtilization")?;
                present([("averageValue", average), ("averageUtilization", utilization)])
            }
        };
        Some(("current", current))
    })
}

fn to_hub(
    metric: &Value,
    values: impl Fn(&'static str, &FieldReader<'_>) -> Option<(&'static str, Value)>,
) -> Option<Value> {
    let metric = FieldReader::of(metric)?;
    let mut out = object! { "type": metric.text("type")? };
    for field in SOURCES {
        let Some(source) = metric.part(field)? else { continue };
        let mut converted = Value::object();
        let (name, value) = values(field, &source)?;
        converted.set(name, value);
        match field {
            "object" | "pods" | "external" => {
                let selector = if field == "external" { "metricSelector" } else { "selector" };
                let identifier = [("name", source.text("metricName")?), ("selector", source.label_selector(selector)?)];
                converted.set("metric", present(identifier));
                if field == "object" {
                    converted.set("describedObject", reference(&source)?);
                }
            }
            _ => {
                converted.set("name", source.text("name")?);
                if field == "containerResource" {
                    converted.set("container", source.text("container")?);
                }
            }
        }
        out.set(field, converted);
    }
    Some(out)
}

/// Returns the described object of an object metric.
fn reference(source: &FieldReader<'_>) -> Option<Value> {
    let Some(target) = source.part("target")? else { return Some(object! { "kind": "", "name": "" }) };
    let version = target.text("apiVersion")?;
    let version = if version.is_empty() { Value::Null } else { version };
    Some(present([("kind", target.text("kind")?), ("name", target.text("name")?), ("apiVersion", version)]))
}

fn is_zero(quantity: &Value) -> bool {
    Quantity::from_value(quantity).is_ok_and(|q| q.is_zero())
}
