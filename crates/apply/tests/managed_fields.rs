//! How updates and applies change `managedFields`: entries, times, identities, the cap, conflict messages.

mod model;

use model::Model;
use pintle_apply::managed_fields::{
    FieldManager, FieldManagerRequest, MAX_UPDATE_MANAGERS, Managed, conflict_causes, conflict_message, decode,
    decode_for_update, encode,
};
use pintle_apply::merge::{UpdateError, Updater};
use pintle_value::time::Time;
use pintle_value::{Value, print};

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

fn managed(entries: &str) -> Managed {
    decode(read(entries).as_array().expect("an array")).expect(entries)
}

/// An object with its managed fields. Every operation advances the clock by one second.
struct ManagedObject {
    model: Model,
    live: Value,
    managed: Managed,
    now: i64,
}

impl ManagedObject {
    fn new() -> Self {
        Self { model: Model::new(), live: Value::object(), managed: Managed::default(), now: 0 }
    }

    /// Runs `apply`, `force` or `update` by a manager (`name@version/subresource`). Returns the error message on
    /// failure.
    fn run(&mut self, verb: &str, who: &str, object: &str) -> Result<(), String> {
        let (name, subresource) = who.split_once('/').unwrap_or((who, ""));
        let (manager, version) = name.split_once('@').unwrap_or((name, "v1"));
        let field_manager = FieldManager { updater: Updater { converter: &self.model } };
        self.now += 1;
        let request = FieldManagerRequest { manager, version, subresource, now: Time::from_seconds(self.now) };
        let (object, before) = (read(object), self.managed.clone());
        let done = if verb == "update" {
            field_manager.update(&self.live, &object, before, &request).map(|managed| (Some(object), managed))
        } else {
            field_manager.apply(&self.live, &object, before, &request, verb == "force", None)
        };
        let (object, managed) = done.map_err(|error| match error {
            UpdateError::Conflicts(conflicts) => {
                let causes = conflict_causes(&conflicts);
                let causes: Vec<String> = causes.iter().map(|c| format!("{} at {}", c.message, c.field)).collect();
                format!("{} | {}", conflict_message(&conflicts), causes.join("; "))
            }
            UpdateError::Failed(message) => message,
        })?;
        self.live = object.unwrap_or_else(|| self.live.clone());
        self.managed = managed;
        Ok(())
    }

    /// The entries, each as `operation name@version/subresource second fields`.
    fn entries(&self) -> Vec<String> {
        let entries = encode(&self.managed);
        assert_eq!(decode(&entries).as_ref(), Ok(&self.managed), "entries are read as they were written");
        let in_short = |entry: &Value| {
            let subresource = entry.get("subresource").and_then(Value::as_str).map(|s| format!("/{s}"));
            let seconds = entry.time_at(&["time"]).map_or("-".to_owned(), |time| time.seconds.to_string());
            format!(
                "{} {}@{}{} {seconds} {}",
                entry.str_at(&["operation"]),
                entry.str_at(&["manager"]),
                entry.str_at(&["apiVersion"]),
                subresource.unwrap_or_default(),
                print::json(&entry["fieldsV1"]),
            )
        };
        entries.iter().map(in_short).collect()
    }
}

/// Runs operations (`verb manager object`) on an object, and compares the errors followed by the entries.
#[track_caller]
fn check(operations: &[(&str, &str, &str)], expect: &[&str]) {
    let mut object_state = ManagedObject::new();
    let mut found: Vec<String> = Vec::new();
    for (verb, who, object) in operations {
        found.extend(object_state.run(verb, who, object).err());
    }
    found.extend(object_state.entries());
    assert_eq!(found, expect);
}

#[test]
fn times_change_only_when_the_owned_fields_change() {
    check(
        &[("apply", "one", r#"{"numeric":1}"#), ("apply", "one", r#"{"numeric":1}"#)],
        &[r#"Apply one@v1 1 {"f:numeric":{}}"#],
    );
    check(
        &[("apply", "one", r#"{"numeric":1}"#), ("apply", "one", r#"{"numeric":2}"#)],
        &[r#"Apply one@v1 2 {"f:numeric":{}}"#],
    );
    check(
        &[("update", "one", r#"{"numeric":1}"#), ("update", "one", r#"{"numeric":1}"#)],
        &[r#"Update one@v1 1 {"f:numeric":{}}"#],
    );
    // Removing fields adds no ownership, so the time stays.
    check(
        &[("update", "one", r#"{"numeric":1,"string":"a"}"#), ("update", "one", r#"{"numeric":1}"#)],
        &[r#"Update one@v1 1 {"f:numeric":{}}"#],
    );
    check(
        &[("update", "one", r#"{"numeric":1}"#), ("update", "one", r#"{"numeric":1,"string":"a"}"#)],
        &[r#"Update one@v1 2 {"f:numeric":{},"f:string":{}}"#],
    );
    // An apply that changes nothing has no time.
    check(
        &[("update", "one", r#"{"numeric":1}"#), ("apply", "two", r#"{"numeric":1}"#)],
        &[r#"Apply two@v1 - {"f:numeric":{}}"#, r#"Update one@v1 1 {"f:numeric":{}}"#],
    );
}

#[test]
fn managers_are_identified_by_name_operation_version_and_subresource() {
    // Updates through another version or subresource are another manager. Applies at another version are the same
    // manager.
    check(
        &[
            ("update", "one@v1", r#"{"numeric":1}"#),
            ("update", "one@v1/status", r#"{"numeric":1,"bool":1}"#),
            ("apply", "one@v1", r#"{"labels":{"a":"1"}}"#),
        ],
        &[
            r#"Apply one@v1 3 {"f:labels":{"f:a":{}}}"#,
            r#"Update one@v1 1 {"f:numeric":{}}"#,
            r#"Update one@v1/status 2 {"f:bool":{}}"#,
        ],
    );
    check(
        &[("apply", "one@v1", r#"{"numeric":1}"#), ("apply", "one@v2", r#"{"numeric":2}"#)],
        &[r#"Apply one@v2 2 {"f:numeric":{}}"#],
    );
    check(
        &[("update", "one@v1", r#"{"numeric":1}"#), ("update", "one@v2", r#"{"numeric":2}"#)],
        &[r#"Update one@v2 2 {"f:numeric":{}}"#],
    );
    check(&[("update", "", r#"{"numeric":1}"#)], &[r#"Update unknown@v1 1 {"f:numeric":{}}"#]);
}

#[test]
fn conflicts_name_the_manager_and_the_fields() {
    check(
        &[("update", "ctrl", r#"{"numeric":1}"#), ("apply", "one", r#"{"numeric":2}"#)],
        &[
            r#"Apply failed with 1 conflict: conflict with "ctrl" using v1: .numeric | conflict with "ctrl" using v1 at .numeric"#,
            r#"Update ctrl@v1 1 {"f:numeric":{}}"#,
        ],
    );
    check(
        &[
            ("apply", "one", r#"{"numeric":1,"labels":{"a":"1"}}"#),
            ("update", "ctrl/status", r#"{"numeric":1,"labels":{"a":"1"},"bool":1}"#),
            ("apply", "two", r#"{"numeric":2,"labels":{"a":"2"},"bool":2}"#),
        ],
        &[
            "Apply failed with 3 conflicts: conflicts with \"ctrl\" with subresource \"status\" using v1:\n- .bool\nconflicts with \"one\":\n- .numeric\n- .labels.a | conflict with \"ctrl\" with subresource \"status\" using v1 at .bool; conflict with \"one\" at .numeric; conflict with \"one\" at .labels.a",
            r#"Apply one@v1 1 {"f:labels":{"f:a":{}},"f:numeric":{}}"#,
            r#"Update ctrl@v1/status 2 {"f:bool":{}}"#,
        ],
    );
}

#[test]
fn the_oldest_update_managers_are_merged() {
    let mut object_state = ManagedObject::new();
    let mut object = Value::object();
    for i in 0..MAX_UPDATE_MANAGERS + 3 {
        object.set_at(&["labels", &format!("l{i:02}")], "x");
        object_state.run("update", &format!("m{i:02}"), &print::json(&object)).expect("an update");
    }
    let entries = object_state.entries();
    assert_eq!(entries.len(), MAX_UPDATE_MANAGERS, "{entries:?}");
    assert_eq!(
        entries[0],
        r#"Update ancient-changes@v1 4 {"f:labels":{".":{},"f:l00":{},"f:l01":{},"f:l02":{},"f:l03":{}}}"#
    );
    assert_eq!(entries[1], r#"Update m04@v1 5 {"f:labels":{"f:l04":{}}}"#);
}

#[test]
fn identity_and_system_fields_are_never_owned() {
    let mut object_state = ManagedObject { model: Model::deduced(), ..ManagedObject::new() };
    let object = r#"{"apiVersion":"v1","kind":"K","metadata":{"name":"n","namespace":"d","uid":"u","generation":1,
        "resourceVersion":"1","labels":{"a":"1"}},"spec":1}"#;
    object_state.run("update", "one", object).expect("an update");
    assert_eq!(
        object_state.entries(),
        [r#"Update one@v1 1 {"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{}}"#]
    );
}

#[test]
fn malformed_entries_are_rejected() {
    for (entry, expect) in [
        ("{}", "operation must be `Apply` or `Update`"),
        (r#"{"operation":"Delete"}"#, "operation must be `Apply` or `Update`"),
        (r#"{"operation":"Apply"}"#, "apiVersion must not be empty"),
        (r#"{"operation":"Apply","apiVersion":"v1"}"#, "missing fieldsType in managed fields entry 0"),
        (
            r#"{"operation":"Apply","apiVersion":"v1","fieldsType":"V2"}"#,
            r#"invalid fieldsType "V2" in managed fields entry 0"#,
        ),
        (
            r#"{"operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f":{}}}"#,
            "error decoding set: parsing key as path element: key must be 2 characters long:",
        ),
    ] {
        let found = decode(&[read(entry)]).map_err(|e| e.to_string());
        assert_eq!(found, Err(expect.to_owned()), "{entry}");
    }
}

#[test]
fn updates_may_replace_or_reset_the_managed_fields() {
    let entry = |name: &str| {
        format!(
            r#"[{{"manager":"{name}","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{{"f:a":{{}}}}}}]"#
        )
    };
    let (live, sent) = (entry("live"), entry("sent"));
    let check = |sent: &str, subresource: &str, expect: Managed| {
        assert_eq!(decode_for_update(&read(&live), &read(sent), subresource), expect, "{sent} {subresource}");
    };
    check(&sent, "", managed(&sent));
    check(&sent, "status", managed(&live));
    check("null", "", managed(&live));
    check("[]", "", Managed::default());
    check("[{}]", "", Managed::default());
    check("[]", "status", managed(&live));
    check(r#"[{"manager":"x"}]"#, "", managed(&live));
    assert_eq!(decode_for_update(&read(r#"[{"manager":"x"}]"#), &Value::Null, ""), Managed::default());
}
