//! The strategy for events (upstream: `pkg/apis/core/validation/events.go`, `pkg/registry/core/event`). The validation
//! of `events.k8s.io/v1` is stricter than the validation of the core group, which legacy clients use.

use pintle_registry::{GarbageCollectionPolicy, Strategy, StrategyContext};
use pintle_value::time::Time;
use pintle_value::{Errors, FieldPath, Str, Value, names};

use super::convert;
use crate::generic::{same_at, validate_immutable};
use crate::validation::invalid_each;

const TEXT_LIMIT: usize = 128;
const NOTE_LIMIT: usize = 1024;

/// The selectable fields in the core group. All but the last one are paths of a core event.
const CORE_NAMES: [&str; 11] = [
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "type",
    "source",
];

/// The names of the paths in `events.k8s.io`.
const EVENTS_NAMES: [&str; 10] = [
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

/// The fields that are immutable in `events.k8s.io`, by their names in the core event and in upstream's order. Upstream
/// compares `reason` twice.
const IMMUTABLE: [&str; 9] =
    ["involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "reason", "type"];

/// The API group of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventGroup {
    /// The core group.
    Core,
    /// `events.k8s.io`.
    Events,
}

/// The strategy for events in one of the two groups.
pub(crate) struct EventStrategy {
    /// The group.
    pub(crate) group: EventGroup,
}

impl Strategy for EventStrategy {
    fn convert_to_hub(&self, object: &mut Value) {
        if self.group == EventGroup::Events {
            convert::to_core(object);
        }
    }

    fn convert_from_hub(&self, object: &mut Value) {
        if self.group == EventGroup::Events {
            convert::from_core(object);
        }
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = self.validate_event(object);
        match old.filter(|_| self.group == EventGroup::Events) {
            Some(old) => validate_update_fields(&mut errors, object, old),
            None if self.group == EventGroup::Events => validate_new(&mut errors, object),
            None => {}
        }
        errors
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        match self.group {
            EventGroup::Core => names::path_segment_name(name, prefix),
            EventGroup::Events => names::dns1123_subdomain_name(name, prefix),
        }
    }

    fn validates_own_version(&self) -> bool {
        self.group == EventGroup::Events
    }

    fn has_ttl(&self) -> bool {
        true
    }

    fn default_garbage_collection_policy(&self) -> GarbageCollectionPolicy {
        GarbageCollectionPolicy::Unsupported
    }

    fn selectable_field_names(&self) -> &[&'static str] {
        match self.group {
            EventGroup::Core => &CORE_NAMES,
            EventGroup::Events => &EVENTS_NAMES,
        }
    }

    fn selectable_field_sources(&self) -> Vec<&str> {
        vec!["involvedObject", "reason", "reportingComponent", "source.component", "type"]
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, Str)> {
        let text = |path: &str| Str::from(path.split('.').fold(object, |value, field| &value[field]).str_at(&[]));
        let names = self.selectable_field_names().iter();
        let mut fields: Vec<_> =
            names.zip(EVENTS_NAMES).zip(CORE_NAMES).map(|((name, _), path)| (*name, text(path))).collect();
        if self.group == EventGroup::Core {
            let source = match object.str_at(&["source", "component"]) {
                "" => object.str_at(&["reportingComponent"]),
                component => component,
            };
            fields.push(("source", Str::from(source)));
        }
        fields
    }
}

impl EventStrategy {
    /// Validates the rules for events of both groups.
    fn validate_event(&self, event: &Value) -> Errors {
        let mut errors = Errors::new();
        let namespace = event.namespace();
        let involved = event.str_at(&["involvedObject", "namespace"]);
        let involved_object = FieldPath::new("involvedObject");
        let involved_path = involved_object.child("namespace");
        if event.at(&["eventTime"]).is_none() {
            // Legacy clients do not set the namespace of the involved object.
            let agrees = if involved.is_empty() { ["", "default"].contains(&namespace) } else { namespace == involved };
            if !agrees {
                errors.invalid(&involved_path, involved, "does not match event.namespace");
            }
        } else {
            if involved.is_empty() && !["default", "kube-system"].contains(&namespace) {
                errors.invalid(&involved_path, involved, "does not match event.namespace");
            }
            self.validate_reporter(&mut errors, event);
        }
        invalid_each(&mut errors, &FieldPath::new("namespace"), namespace, names::dns1123_subdomain(namespace));
        errors
    }

    fn validate_reporter(&self, errors: &mut Errors, event: &Value) {
        let controller = event.str_at(&["reportingComponent"]);
        let path = FieldPath::new(match self.group {
            EventGroup::Core => "reportingComponent",
            EventGroup::Events => "reportingController",
        });
        if controller.is_empty() {
            errors.required(&path, "");
        }
        invalid_each(errors, &path, controller, names::qualified_name(controller));
        for name in ["reportingInstance", "action", "reason"] {
            let path = FieldPath::new(name);
            let text = event.str_at(&[name]);
            if text.is_empty() {
                errors.required(&path, "");
            }
            if text.len() > TEXT_LIMIT {
                errors.invalid(&path, "", format!("can have at most {TEXT_LIMIT} characters"));
            }
        }
        if event.str_at(&["message"]).len() > NOTE_LIMIT {
            errors.invalid(&FieldPath::new("message"), "", format!("can have at most {NOTE_LIMIT} characters"));
        }
    }
}

/// Validates the additional rules for new events of `events.k8s.io/v1`.
fn validate_new(errors: &mut Errors, event: &Value) {
    validate_series(errors, event);
    if event.at(&["eventTime"]).is_none() {
        errors.required(&FieldPath::new("eventTime"), "");
    }
    let kind = event.str_at(&["type"]);
    if kind != "Normal" && kind != "Warning" {
        errors.invalid(&FieldPath::new("type"), "", format!("has invalid value: {kind}"));
    }
    let source = |field| event.str_at(&["source", field]).is_empty();
    let unset = [
        ("firstTimestamp", event.at(&["firstTimestamp"]).is_none()),
        ("lastTimestamp", event.at(&["lastTimestamp"]).is_none()),
        ("count", event.int_at(&["count"]).unwrap_or(0) == 0),
        ("source", source("component") && source("host")),
    ];
    for (name, _) in unset.into_iter().filter(|(_, unset)| !unset) {
        errors.invalid(&FieldPath::new(name), "", "needs to be unset");
    }
}

fn validate_series(errors: &mut Errors, event: &Value) {
    let Some(series) = event.at(&["series"]) else { return };
    if series.int_at(&["count"]).unwrap_or(0) < 2 {
        errors.invalid(&FieldPath::new("series.count"), "", "should be at least 2");
    }
    if series.at(&["lastObservedTime"]).is_none() {
        errors.required(&FieldPath::new("series.lastObservedTime"), "");
    }
}

fn validate_update_fields(errors: &mut Errors, event: &Value, old: &Value) {
    if !same_at(event, old, &["series"]) {
        validate_series(errors, event);
    }
    let check = |errors: &mut Errors, name: &str, shown_as: &str| {
        validate_immutable(errors, event.at(&[name]), old.at(&[name]), &FieldPath::new(shown_as));
    };
    for name in IMMUTABLE {
        check(errors, name, name);
    }
    // Differences below a microsecond are tolerated, because clients write times with different precisions.
    let microseconds = |event: &Value| {
        let time = Time::parse_rfc3339(event.str_at(&["eventTime"])).ok()?;
        Some((time.seconds, time.nanos / 1000))
    };
    if microseconds(event) != microseconds(old) {
        check(errors, "eventTime", "eventTime");
    }
    for (name, shown_as) in [
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        check(errors, name, shown_as);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    const CORE: EventStrategy = EventStrategy { group: EventGroup::Core };
    const EVENTS: EventStrategy = EventStrategy { group: EventGroup::Events };

    #[test]
    fn events_of_the_core_group_are_validated_loosely() {
        let check = |json: &str, expect: &[&str]| {
            assert_eq!(messages(&CORE.validate(&context(), &object(json))), expect);
        };
        check(r#"{"metadata":{"namespace":"default"},"involvedObject":{},"eventTime":null}"#, &[]);
        check(
            r#"{"metadata":{"namespace":"a"},"involvedObject":{"namespace":"b"}}"#,
            &["involvedObject.namespace: Invalid value: \"b\": does not match event.namespace"],
        );
        check(
            r#"{"metadata":{"namespace":"a"},"involvedObject":{}}"#,
            &["involvedObject.namespace: Invalid value: \"\": does not match event.namespace"],
        );
        check(
            r#"{"metadata":{"namespace":"a"},"involvedObject":{"namespace":"a"},"eventTime":"2024-01-01T00:00:00.000000Z","reportingComponent":"c","reportingInstance":"i","reason":"r"}"#,
            &["action: Required value"],
        );
    }

    #[test]
    fn events_of_the_new_group_are_validated_strictly() {
        let check = |json: &str, expect: &[&str]| {
            assert_eq!(messages(&EVENTS.validate(&context(), &object(json))), expect);
        };
        check(
            r#"{"metadata":{"namespace":"a"},"involvedObject":{"namespace":"a"},"count":1,"source":{"host":"h"},"series":{"count":1,"lastObservedTime":null}}"#,
            &[
                "series.count: Invalid value: \"\": should be at least 2",
                "series.lastObservedTime: Required value",
                "eventTime: Required value",
                "type: Invalid value: \"\": has invalid value: ",
                "count: Invalid value: \"\": needs to be unset",
                "source: Invalid value: \"\": needs to be unset",
            ],
        );
        check(
            r#"{"metadata":{"namespace":"a"},"involvedObject":{"namespace":"a"},"type":"Normal","eventTime":"2024-01-01T00:00:00.000000Z","reportingComponent":"a b","reportingInstance":"i","reason":"r","action":"a"}"#,
            &[&format!(
                "reportingController: Invalid value: \"a b\": {}",
                names::qualified_name("a b").first().expect("one message")
            )],
        );
    }

    #[test]
    fn updates_through_the_new_group_change_only_the_series() {
        let event = |json: &str| {
            let mut event = object(
                r#"{"metadata":{"namespace":"a"},"involvedObject":{"namespace":"a"},"type":"Normal","eventTime":"2024-01-01T00:00:00.000001Z","reportingComponent":"c","reportingInstance":"i","reason":"r","action":"a"}"#,
            );
            for (key, value) in object(json).as_object().expect("object").iter() {
                event.set(key, value.clone());
            }
            event
        };
        let check = |change: &str, expect: &[&str]| {
            let errors = EVENTS.validate_update(&context(), &event(change), &event("{}"));
            assert_eq!(messages(&errors), expect);
            assert_eq!(messages(&CORE.validate_update(&context(), &event(change), &event("{}"))), [""; 0]);
        };
        check(r#"{"series":{"count":2,"lastObservedTime":"2024-01-01T00:00:00.000000Z"}}"#, &[]);
        check(r#"{"eventTime":"2024-01-01T00:00:00.000001500Z"}"#, &[]);
        check(
            r#"{"reason":"other","reportingComponent":"d"}"#,
            &[
                "reason: Invalid value: \"other\": field is immutable",
                "reason: Invalid value: \"other\": field is immutable",
                "reportingController: Invalid value: \"d\": field is immutable",
            ],
        );
    }

    #[test]
    fn each_group_has_its_own_selectable_fields() {
        let event = object(r#"{"involvedObject":{"kind":"Pod"},"reportingComponent":"c","source":{}}"#);
        for rules in [CORE, EVENTS] {
            let names: Vec<_> = rules.selectable_fields(&event).into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, rules.selectable_field_names());
        }
        assert!(CORE.selectable_fields(&event).contains(&("source", "c".into())));
        assert!(EVENTS.selectable_fields(&event).contains(&("regarding.kind", "Pod".into())));
    }
}
