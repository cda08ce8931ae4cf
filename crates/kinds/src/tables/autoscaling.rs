//! Cells of HorizontalPodAutoscalers, at `autoscaling/v2`.

use pintle_value::Value;

use super::cells;

/// The current and the wanted values of the first metrics.
pub(super) fn targets(o: &Value) -> String {
    const SHOWN: usize = 2;
    let (specs, statuses) = (o.items_at(&["spec", "metrics"]), o.items_at(&["status", "currentMetrics"]));
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let shown: Vec<String> = specs.iter().take(SHOWN).enumerate().map(|(i, s)| metric(s, statuses.get(i))).collect();
    let shown = shown.join(", ");
    if specs.len() > SHOWN { format!("{shown} + {} more...", specs.len() - SHOWN) } else { shown }
}

/// Returns one metric as `current/target`.
fn metric(spec: &Value, status: Option<&Value>) -> String {
    const UNKNOWN: &str = "<unknown>";
    let field = match spec.str_at(&["type"]) {
        "External" => "external",
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let current = status.and_then(|s| s.get(field)).map(|s| &s["current"]);
    let target = &spec[field]["target"];
    let average = target.get("averageValue");
    // An absent quantity prints as Go's nil.
    let quantity = |q: Option<&Value>| q.map_or_else(|| "<nil>".to_owned(), cells::scalar);
    let currently = |name: &str| current.map_or_else(|| UNKNOWN.to_owned(), |c| quantity(c.get(name)));
    match field {
        "pods" => format!("{}/{}", currently("averageValue"), quantity(average)),
        "external" | "object" => match average {
            Some(average) => {
                let current = current.and_then(|c| c.get("averageValue"));
                format!(
                    "{}/{} (avg)",
                    current.map_or_else(|| UNKNOWN.to_owned(), cells::scalar),
                    cells::scalar(average)
                )
            }
            None => format!("{}/{}", currently("value"), quantity(target.get("value"))),
        },
        _ => {
            let name = spec.str_at(&[field, "name"]);
            if let Some(average) = average {
                return format!("{name}: {}/{}", currently("averageValue"), cells::scalar(average));
            }
            let percent = |value: Option<i64>| value.map(|n| format!("{n}%"));
            let now = percent(current.and_then(|c| c.int_at(&["averageUtilization"])));
            let goal = percent(target.int_at(&["averageUtilization"]));
            format!("{name}: {}/{}", now.as_deref().unwrap_or(UNKNOWN), goal.as_deref().unwrap_or("<auto>"))
        }
    }
}
