//! Converts events between `events.k8s.io/v1` and the core group, which have different field names (upstream:
//! `pkg/apis/events/v1/conversion.go`).

use pintle_value::{Object, Value};

/// The name of a field in `events.k8s.io/v1` and in the core group, and how Go writes its zero value in each.
const FIELDS: [(&str, GoZero, &str, GoZero); 10] = [
    ("reportingController", GoZero::Absent, "reportingComponent", GoZero::Text),
    ("reportingInstance", GoZero::Absent, "reportingInstance", GoZero::Text),
    ("regarding", GoZero::Object, "involvedObject", GoZero::Object),
    ("note", GoZero::Absent, "message", GoZero::Absent),
    ("deprecatedSource", GoZero::Object, "source", GoZero::Object),
    ("deprecatedFirstTimestamp", GoZero::Null, "firstTimestamp", GoZero::Null),
    ("deprecatedLastTimestamp", GoZero::Null, "lastTimestamp", GoZero::Null),
    ("deprecatedCount", GoZero::Absent, "count", GoZero::Absent),
    ("eventTime", GoZero::Null, "eventTime", GoZero::Null),
    ("metadata", GoZero::Object, "metadata", GoZero::Object),
];

/// The fields of a series, in the same form.
const SERIES: [(&str, GoZero, &str, GoZero); 2] = [
    ("count", GoZero::Number, "count", GoZero::Absent),
    ("lastObservedTime", GoZero::Null, "lastObservedTime", GoZero::Null),
];

#[derive(Clone, Copy)]
enum GoZero {
    Absent,
    Null,
    Text,
    Number,
    Object,
}

impl GoZero {
    fn value(self) -> Option<Value> {
        match self {
            GoZero::Absent => None,
            GoZero::Null => Some(Value::Null),
            GoZero::Text => Some(Value::from("")),
            GoZero::Number => Some(Value::Int(0)),
            GoZero::Object => Some(Value::object()),
        }
    }
}

/// Converts an event from `events.k8s.io/v1` to the core group.
pub(super) fn to_core(event: &mut Value) {
    rename(event, FIELDS.map(|(events, _, core, zero)| (events, core, zero)));
    if let Some(series) = event.get_mut("series") {
        rename(series, SERIES.map(|(events, _, core, zero)| (events, core, zero)));
    }
}

/// Converts an event from the core group to `events.k8s.io/v1`.
pub(super) fn from_core(event: &mut Value) {
    rename(event, FIELDS.map(|(events, zero, core, _)| (core, events, zero)));
    if let Some(series) = event.get_mut("series") {
        rename(series, SERIES.map(|(events, zero, core, _)| (core, events, zero)));
    }
}

fn rename<const N: usize>(value: &mut Value, fields: [(&str, &'static str, GoZero); N]) {
    let Some(object) = value.as_object_mut() else { return };
    let values: Vec<Option<Value>> = fields.iter().map(|(from, _, _)| object.remove(from)).collect();
    for ((_, to, zero), value) in fields.into_iter().zip(values) {
        set(object, to, zero, value);
    }
}

fn set(object: &mut Object, key: &'static str, zero: GoZero, value: Option<Value>) {
    let value = value.filter(|v| !v.is_empty() || matches!((zero, v), (GoZero::Object, Value::Object(_))));
    if let Some(value) = value.or_else(|| zero.value()) {
        object.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn conversions_between_groups_are_inverse() {
        let check = |events: &str, core: &str| {
            let (events, core) = (object(events), object(core));
            let mut there = events.clone();
            to_core(&mut there);
            assert_eq!(there, core);
            let mut back = core.clone();
            from_core(&mut back);
            assert_eq!(back, events);
        };
        check(
            r#"{"metadata":{"name":"e"},"eventTime":"2024-01-01T00:00:00.000000Z","series":{"count":3,"lastObservedTime":"2024-01-01T00:00:01.000000Z"},
                "reportingController":"c","reportingInstance":"i","action":"a","reason":"r","regarding":{"kind":"Pod"},"note":"n","type":"Normal",
                "related":{"kind":"Node"},"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null}"#,
            r#"{"metadata":{"name":"e"},"eventTime":"2024-01-01T00:00:00.000000Z","series":{"count":3,"lastObservedTime":"2024-01-01T00:00:01.000000Z"},
                "reportingComponent":"c","reportingInstance":"i","action":"a","reason":"r","involvedObject":{"kind":"Pod"},"message":"n","type":"Normal",
                "related":{"kind":"Node"},"source":{},"firstTimestamp":null,"lastTimestamp":null}"#,
        );
        check(
            r#"{"metadata":{},"eventTime":null,"series":{"count":0,"lastObservedTime":null},"regarding":{},"deprecatedSource":{"component":"k"},
                "deprecatedFirstTimestamp":"2024-01-01T00:00:00Z","deprecatedLastTimestamp":"2024-01-01T00:00:01Z","deprecatedCount":2}"#,
            r#"{"metadata":{},"eventTime":null,"series":{"lastObservedTime":null},"reportingComponent":"","reportingInstance":"","involvedObject":{},
                "source":{"component":"k"},"firstTimestamp":"2024-01-01T00:00:00Z","lastTimestamp":"2024-01-01T00:00:01Z","count":2}"#,
        );
    }
}
