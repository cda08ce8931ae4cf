//! Events in JSON and in the format `legacy`, compared with upstream's library.

use pintle_audit::{
    AuthenticationMetadata, Event, Level, ObjectReference, ResponseStatus, Stage, StatusCause, StatusDetails,
    event_list_json,
};
use pintle_auth::UserInfo;
use pintle_value::Str;
use pintle_value::time::Time;
use serde_json::Value;

const ROWS: &str = include_str!("recorded/events.jsonl");

fn text<T: for<'t> From<&'t str>>(value: &Value, field: &str) -> T {
    T::from(value[field].as_str().unwrap_or_default())
}

fn texts(value: &Value) -> Vec<Str> {
    value.as_array().into_iter().flatten().map(|text| text.as_str().expect("a text").into()).collect()
}

fn some<T>(value: &Value, make: impl FnOnce(&Value) -> T) -> Option<T> {
    (!value.is_null()).then(|| make(value))
}

fn user(value: &Value) -> UserInfo {
    // The order of the entries must not matter.
    let extra = value["extra"].as_object().into_iter().flatten().rev();
    UserInfo {
        name: text(value, "username"),
        uid: text(value, "uid"),
        groups: texts(&value["groups"]),
        extra: extra.map(|(key, values)| (key.as_str().into(), texts(values))).collect(),
    }
}

fn status(value: &Value) -> ResponseStatus {
    let cause = |value: &Value| StatusCause {
        reason: text(value, "reason"),
        message: text(value, "message"),
        field: text(value, "field"),
    };
    ResponseStatus {
        status: text(value, "status"),
        message: text(value, "message"),
        reason: text(value, "reason"),
        details: some(&value["details"], |value| StatusDetails {
            name: text(value, "name"),
            group: text(value, "group"),
            kind: text(value, "kind"),
            uid: text(value, "uid"),
            causes: value["causes"].as_array().into_iter().flatten().map(cause).collect(),
            retry_after_seconds: value["retryAfterSeconds"].as_i64().unwrap_or_default() as i32,
        }),
        code: value["code"].as_i64().unwrap_or_default() as u16,
    }
}

/// The event of which a row has the JSON. The JSON lacks nanoseconds and the original objects.
fn event(value: &Value, row: &Value) -> Event {
    let time =
        |field: &str| some(&value[field], |_| Time::parse_rfc3339(&text::<String>(value, field)).expect("a time"));
    let object = |field: &str| row[field].as_str().map(|text| text.to_owned().into());
    let annotations = value["annotations"].as_object().into_iter().flatten();
    let nanos = row["ReceivedNanos"].as_u64().unwrap_or_default() as u32;
    Event {
        level: Level::named(&text::<Str>(value, "level")).expect("a level"),
        audit_id: text(value, "auditID"),
        stage: Stage::named(&text::<Str>(value, "stage")).expect("a stage"),
        request_uri: text(value, "requestURI"),
        verb: text(value, "verb"),
        user: user(&value["user"]),
        impersonated_user: some(&value["impersonatedUser"], user),
        authentication_metadata: some(&value["authenticationMetadata"], |value| AuthenticationMetadata {
            impersonation_constraint: text(value, "impersonationConstraint"),
        }),
        source_ips: texts(&value["sourceIPs"]),
        user_agent: text(value, "userAgent"),
        object_ref: some(&value["objectRef"], |value| ObjectReference {
            resource: text(value, "resource"),
            namespace: text(value, "namespace"),
            name: text(value, "name"),
            uid: text(value, "uid"),
            api_group: text(value, "apiGroup"),
            api_version: text(value, "apiVersion"),
            resource_version: text(value, "resourceVersion"),
            subresource: text(value, "subresource"),
        }),
        response_status: some(&value["responseStatus"], status),
        request_object: object("RequestObject"),
        response_object: object("ResponseObject"),
        request_received_timestamp: time("requestReceivedTimestamp").map_or(Time::ZERO, |time| Time { nanos, ..time }),
        stage_timestamp: time("stageTimestamp").unwrap_or(Time::ZERO),
        annotations: annotations
            .map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or("").into()))
            .collect(),
    }
}

#[test]
fn events_are_encoded_as_upstream_encodes_them() {
    let mut all = Vec::new();
    for row in ROWS.lines() {
        let row: Value = serde_json::from_str(row).expect("a row");
        let json: String = text(&row, "Json");
        if json.is_empty() {
            let event =
                Event { request_object: Some(text::<String>(&row, "RequestObject").into()), ..Event::default() };
            assert!(event.to_json().is_err(), "{row}");
            continue;
        }
        // Two objects are JSON that this parser refuses. The row has them as they were.
        let readable = json.replace("\\ud800", "").replace("1e999", "1");
        let value: Value = serde_json::from_str(&readable).expect("an event");
        let encoded = if value["kind"] == "EventList" {
            event_list_json(&all[1..3])
        } else {
            let event = event(&value, &row);
            assert_eq!(event.to_line(), text::<String>(&row, "Legacy"));
            let encoded = event.to_json();
            all.push(event);
            encoded
        };
        assert_eq!(String::from_utf8(encoded.expect("an event")).expect("a text"), json);
    }
    assert!(all.len() > 5);
}

#[test]
fn an_object_that_is_not_json_is_an_error() {
    let event = Event { response_object: Some("a: 1".into()), ..Event::default() };
    let expect = "json: error calling MarshalJSON for type *runtime.Unknown: expected value at line 1 column 1";
    assert_eq!(event.to_json().map_err(|error| error.to_string()), Err(expect.to_owned()));
    assert!(event_list_json(&[event]).is_err());
}
