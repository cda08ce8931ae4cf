//! The entries of `metadata.managedFields`: manager names, times, the maximum number of update entries, and the entries
//! that clients send themselves.

use pintle_integration::{Cluster, RuntimeConfig};
use serde_json::{Value, json};

use super::scenario::{CONFIGMAP, Conflict, Error, HPA, Managed, POD, Scenario, Unchanged, check};

/// Returns the managers of an object with their operations and times.
fn manager_times(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let entries = entries.map(|e| format!("{} {} {}", text(&e["manager"]), text(&e["operation"]), text(&e["time"])));
    entries.collect()
}

#[test]
fn manager_names_come_from_the_field_manager_or_the_user_agent() {
    pintle_integration::run(async {
        let scenario = Scenario::new(CONFIGMAP, "").await;
        let path = format!("{}/o", scenario.collection("v1"));
        let _ = scenario.send("create c", r#"{"data": {"k": "0"}}"#).await.expect(201);
        let long = "x".repeat(200);
        for (i, (query, agent, name)) in [
            ("", "", "unknown"),
            ("", "kubectl/v1.36.0 (linux/amd64) kubernetes/abc", "kubectl"),
            ("", "with space/1", "with space"),
            ("", "a\tb/1", "ab"),
            ("", "/1", "unknown"),
            ("", &long, &long[..128]),
            ("", "einfach-schön/1", "einfach-schön"),
            ("fieldManager=", "curl/8", "curl"),
            ("fieldManager=said", "curl/8", "said"),
            ("fieldManager=with%2Fslash", "curl/8", "with/slash"),
        ]
        .into_iter()
        .enumerate()
        {
            let body = json!({"data": {"k": (i + 1).to_string()}}).to_string();
            let mut request = scenario.cluster.request("PATCH", &format!("{path}?{query}"));
            request = request.body("application/merge-patch+json", body);
            if !agent.is_empty() {
                request = request.header_bytes("user-agent", agent.as_bytes());
            }
            let object = request.send().await.expect(200).json();
            let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
            let owner = entries.iter().find(|entry| entry["fieldsV1"]["f:data"].get("f:k").is_some());
            assert_eq!(owner.map(|entry| &entry["manager"]), Some(&json!(name)), "{query} {agent}: {object}");
        }
    });
}

#[test]
fn every_write_is_attributed_to_its_manager() {
    check(
        CONFIGMAP,
        "",
        &[
            ("create c", r#"{"data": {"k": "1"}}"#, Managed(201, "{}", &["c Update v1: .data .data.k"])),
            ("merge c", r#"{"data": {"k": "1"}}"#, Unchanged),
            // An unchanged field keeps its manager even if another manager sends it.
            (
                "put p",
                r#"{"data": {"m": "1"}, "metadata": {"labels": {"l": "x"}}}"#,
                Managed(
                    200,
                    "{}",
                    &["c Update v1: .data .data.k", "p Update v1: .data.m .metadata.labels .metadata.labels.l"],
                ),
            ),
            (
                "merge m",
                r#"{"data": {"k": "2"}}"#,
                Managed(
                    200,
                    "{}",
                    &[
                        "c Update v1: .data",
                        "p Update v1: .data.m .metadata.labels .metadata.labels.l",
                        "m Update v1: .data.k",
                    ],
                ),
            ),
            (
                "merge c",
                r#"{"data": {"k": "3", "n": "1"}}"#,
                Managed(
                    200,
                    "{}",
                    &["p Update v1: .data.m .metadata.labels .metadata.labels.l", "c Update v1: .data .data.k .data.n"],
                ),
            ),
        ],
    );
}

#[test]
fn updates_have_one_entry_per_version() {
    const TARGET: &str = r#"{"spec": {"maxReplicas": 3, "minReplicas": 2,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}}"#;
    check(
        HPA,
        ".spec.m",
        &[
            (
                "create c @autoscaling/v1",
                TARGET,
                Managed(201, "{}", &["c Update autoscaling/v1: .spec.maxReplicas .spec.minReplicas"]),
            ),
            (
                "merge c",
                r#"{"spec": {"maxReplicas": 4}}"#,
                Managed(
                    200,
                    "{}",
                    &["c Update autoscaling/v1: .spec.minReplicas", "c Update autoscaling/v2: .spec.maxReplicas"],
                ),
            ),
            // A conflict is reported with the paths of the applied version and names the version of the other manager.
            (
                "apply a",
                r#"{"spec": {"minReplicas": 1}}"#,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "c" using autoscaling/v1: .spec.minReplicas"#,
                    &[(".spec.minReplicas", r#"conflict with "c" using autoscaling/v1"#)],
                ),
            ),
            (
                "force a",
                r#"{"spec": {"minReplicas": 1}}"#,
                Managed(
                    200,
                    "{}",
                    &["a Apply autoscaling/v2: .spec.minReplicas", "c Update autoscaling/v2: .spec.maxReplicas"],
                ),
            ),
            // An apply manager has one entry for all versions.
            (
                "apply a @autoscaling/v1",
                r#"{"spec": {"minReplicas": 1}}"#,
                Managed(
                    200,
                    "{}",
                    &["a Apply autoscaling/v1: .spec.minReplicas", "c Update autoscaling/v2: .spec.maxReplicas"],
                ),
            ),
        ],
    );
}

#[test]
fn entry_times_change_with_the_owned_fields() {
    pintle_integration::run(async {
        let scenario = Scenario::new(CONFIGMAP, "").await;
        for (i, (request, body, expect)) in [
            ("apply a", r#"{"data": {"k": "1"}}"#, vec![("a Apply", 21)]),
            ("apply a", r#"{"data": {"k": "1"}}"#, vec![("a Apply", 21)]),
            ("merge b", r#"{"data": {"m": "1"}}"#, vec![("a Apply", 21), ("b Update", 23)]),
            ("merge b", r#"{"data": {"m": "1"}}"#, vec![("a Apply", 21), ("b Update", 23)]),
            ("put b", "{}", vec![("a Apply", 21), ("b Update", 23)]),
            ("merge b", r#"{"data": {"m": "2"}}"#, vec![("a Apply", 21), ("b Update", 26)]),
            ("apply a", r#"{"data": {"k": "2", "j": "1"}}"#, vec![("a Apply", 27), ("b Update", 26)]),
            // A manager that only loses a field keeps its time.
            ("merge c", r#"{"data": {"k": "3"}}"#, vec![("a Apply", 27), ("b Update", 26), ("c Update", 28)]),
            ("force a", r#"{"data": {"k": "4", "j": "1"}}"#, vec![("a Apply", 29), ("b Update", 26)]),
        ]
        .into_iter()
        .enumerate()
        {
            scenario.advance_clock();
            let object = scenario.send(request, body).await.json();
            let expect: Vec<String> = expect.iter().map(|(who, at)| format!("{who} 2023-11-14T22:13:{at}Z")).collect();
            assert_eq!(manager_times(&object), expect, "step {}, {request} {body}", i + 1);
        }
    });
}

/// The apply of a value that is stored in another form computes a new time each time. Upstream's server does the same.
/// It keeps the old time only if the order of the entries stays the same, and entries are ordered by time.
#[test]
fn an_apply_without_a_change_keeps_the_time_unless_the_order_changes() {
    pintle_integration::run(async {
        let scenario = Scenario::new(POD, "").await;
        let spec =
            r#"{"spec": {"containers": [{"name": "m", "image": "i", "resources": {"limits": {"cpu": "1000m"}}}]}}"#;
        let status = r#"{"status": {"message": "x"}}"#;
        let mut stored = Value::Null;
        for (i, (request, body, expect, is_written)) in [
            ("apply a", spec, vec![("a Apply", 21)], true),
            ("apply a", spec, vec![("a Apply", 21)], false),
            ("apply s /status", status, vec![("a Apply", 21), ("s Apply", 23)], true),
            ("apply s /status", status, vec![("a Apply", 21), ("s Apply", 23)], false),
            ("apply a", spec, vec![("s Apply", 23), ("a Apply", 25)], true),
            ("apply a", spec, vec![("s Apply", 23), ("a Apply", 25)], false),
            // A value that is stored in the applied form changes nothing at all.
            ("apply s /status", status, vec![("s Apply", 23), ("a Apply", 25)], false),
        ]
        .into_iter()
        .enumerate()
        {
            scenario.advance_clock();
            let object = scenario.send(request, body).await.json();
            let expect: Vec<String> = expect.iter().map(|(who, at)| format!("{who} 2023-11-14T22:13:{at}Z")).collect();
            assert_eq!(manager_times(&object), expect, "step {}, {request}", i + 1);
            assert_eq!(object != stored, is_written, "step {}, {request}", i + 1);
            stored = object;
        }
    });
}

#[test]
fn the_oldest_update_entries_are_merged_above_ten() {
    pintle_integration::run(async {
        let scenario = Scenario::new(CONFIGMAP, ".data.").await;
        let _ = scenario.send("create u0", r#"{"data": {"k0": "1"}}"#).await.expect(201);
        let _ = scenario.send("apply a", r#"{"data": {"a": "1"}}"#).await.expect(200);
        let mut owners = vec!["a Apply v1: .data.a".to_owned(), "u0 Update v1: .data.k0".to_owned()];
        for i in 1..10 {
            owners.push(format!("u{i} Update v1: .data.k{i}"));
            let expect: Vec<&str> = owners.iter().map(String::as_str).collect();
            let (request, body) = (format!("merge u{i}"), format!(r#"{{"data": {{"k{i}": "1"}}}}"#));
            scenario.run_steps(&[(&request, &body, Managed(200, "{}", &expect))]).await;
        }
        for i in 10..13 {
            let old: Vec<String> = (0..i - 8).map(|i| format!(".data.k{i}")).collect();
            let mut owners =
                vec!["a Apply v1: .data.a".to_owned(), format!("ancient-changes Update v1: {}", sorted(old))];
            owners.extend((i - 8..=i).map(|i| format!("u{i} Update v1: .data.k{i}")));
            let expect: Vec<&str> = owners.iter().map(String::as_str).collect();
            let (request, body) = (format!("merge u{i}"), format!(r#"{{"data": {{"k{i}": "1"}}}}"#));
            scenario.run_steps(&[(&request, &body, Managed(200, "{}", &expect))]).await;
        }
        let conflict = r#"conflict with "ancient-changes" using v1"#;
        let message = format!("Apply failed with 1 conflict: {conflict}: .data.k1");
        let body = r#"{"data": {"a": "1", "k1": "2"}}"#;
        scenario.run_steps(&[("apply a", body, Conflict(&message, &[(".data.k1", conflict)]))]).await;
    });
}

fn sorted(mut paths: Vec<String>) -> String {
    paths.sort();
    paths.join(" ")
}

#[test]
fn the_first_apply_adds_an_entry_for_existing_fields() {
    for reset in ["[]", "[{}]", "[null]"] {
        for verb in ["put", "merge", "strategic"] {
            pintle_integration::run(async move {
                let scenario = Scenario::new(CONFIGMAP, "").await;
                let sent = format!(r#"{{"metadata": {{"managedFields": {reset}}}}}"#);
                let request = format!("{verb} r");
                scenario
                    .run_steps(&[
                        ("create c", r#"{"data": {"k": "1"}}"#, Managed(201, "{}", &["c Update v1: .data .data.k"])),
                        (&request, &sent, Managed(200, r#"{"metadata": {"managedFields": null}}"#, &[])),
                        // An update does not turn on tracking of managed fields again.
                        ("merge c", r#"{"data": {"k": "2"}}"#, Managed(200, "{}", &[])),
                        (
                            "apply a",
                            r#"{"data": {"k": "3"}}"#,
                            Conflict(
                                r#"Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.k"#,
                                &[(".data.k", r#"conflict with "before-first-apply" using v1"#)],
                            ),
                        ),
                        (
                            "apply a",
                            r#"{"data": {"k": "2", "m": "1"}}"#,
                            Managed(
                                200,
                                "{}",
                                &["a Apply v1: .data.k .data.m", "before-first-apply Update v1: .data .data.k"],
                            ),
                        ),
                        (
                            "merge c",
                            r#"{"data": {"m": "2"}}"#,
                            Managed(
                                200,
                                "{}",
                                &[
                                    "a Apply v1: .data.k",
                                    "before-first-apply Update v1: .data .data.k",
                                    "c Update v1: .data.m",
                                ],
                            ),
                        ),
                    ])
                    .await;
            });
        }
    }
}

#[test]
fn managed_fields_are_reset_by_a_body_with_duplicate_fields() {
    pintle_integration::run(async {
        let scenario = Scenario::new(CONFIGMAP, "").await;
        let first = Managed(201, "{}", &["c Update v1: .data .data.k"]);
        scenario.run_steps(&[("create c", r#"{"data": {"k": "1"}}"#, first)]).await;
        let body = r#"{"metadata": {"name": "o", "managedFields": []}, "data": {"k": "2"}, "data": {"l": "3"}}"#;
        let path = format!("{}/o", scenario.collection("v1"));
        let put = scenario.cluster.put(&path, body.to_owned()).await.expect(200).json();
        assert_eq!(put["data"], serde_json::json!({"k": "2", "l": "3"}));
        assert!(put["metadata"]["managedFields"].is_null(), "{put}");
    });
}

/// Returns the body of an update that sends managed fields entries.
fn with_managed_fields(entries: &Value) -> String {
    json!({"metadata": {"managedFields": entries}}).to_string()
}

fn entry(manager: &str, operation: &str, more: &Value) -> Value {
    let mut entry = json!({
        "manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:k": {}}},
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        entry[key] = value.clone();
    }
    entry
}

#[test]
fn updates_can_replace_managed_fields() {
    pintle_integration::run(async {
        let scenario = Scenario::new(CONFIGMAP, "").await;
        let created = r#"{"data": {"k": "1"}}"#;
        scenario.run_steps(&[("apply a", created, Managed(201, "{}", &["a Apply v1: .data.k"]))]).await;
        let others = with_managed_fields(&json!([entry("b", "Apply", &Value::Null)]));
        scenario.run_steps(&[("put c", &others, Managed(200, "{}", &["b Apply v1: .data.k"]))]).await;
        // Invalid entries are ignored.
        let unreadable = [
            entry("c", "Create", &Value::Null),
            entry("c", "", &Value::Null),
            entry("c", "Update", &json!({"apiVersion": ""})),
            entry("c", "Update", &json!({"fieldsType": "FieldsV2"})),
            entry("c", "Update", &json!({"fieldsType": ""})),
            entry("c", "Update", &json!({"fieldsV1": {"data": {}}})),
        ];
        for entry in unreadable {
            scenario.run_steps(&[("put c", &with_managed_fields(&json!([entry])), Unchanged)]).await;
        }
        scenario.run_steps(&[("put c", r#"{"metadata": {"managedFields": null}}"#, Unchanged)]).await;
        // Entries of versions that do not exist are dropped.
        let old = entry("o", "Update", &json!({"apiVersion": "v0"}));
        let both = with_managed_fields(&json!([entry("b", "Apply", &Value::Null), old]));
        scenario.run_steps(&[("put c", &both, Unchanged)]).await;
        let changed = r#"{"data": {"k": "2"}}"#;
        scenario.run_steps(&[("merge c", changed, Managed(200, "{}", &["c Update v1: .data.k"]))]).await;
    });
}

#[test]
fn sent_managed_fields_are_validated() {
    pintle_integration::run(async {
        let scenario = Scenario::new(CONFIGMAP, "").await;
        let _ = scenario.send("create c", r#"{"data": {"k": "1"}}"#).await.expect(201);
        let long = "m".repeat(129);
        let invalid = |what: &str| format!("ConfigMap \"o\" is invalid: metadata.managedFields[0].{what}");
        for (sent, message) in [
            (entry(&long, "Apply", &Value::Null), invalid("manager: Too long: may not be more than 128 bytes")),
            (
                entry("a\u{1}", "Apply", &Value::Null),
                invalid(r#"manager: Invalid value: "a\x01": invalid character U+0001 (at position 1)"#),
            ),
            (
                entry("a", "Apply", &json!({"subresource": "s".repeat(257)})),
                invalid("subresource: Too long: may not be more than 256 bytes"),
            ),
        ] {
            scenario
                .run_steps(&[("put u", &with_managed_fields(&json!([sent])), Error(422, "Invalid", &message))])
                .await;
        }
    });
}

#[test]
fn create_ignores_sent_managed_fields() {
    pintle_integration::run(async {
        let scenario = Scenario::new(CONFIGMAP, "").await;
        let mut body = json!({"data": {"k": "1", "m": "1"}});
        body["metadata"] = json!({"managedFields": [entry("a", "Apply", &Value::Null)]});
        let owners = ["c Update v1: .data .data.k .data.m"];
        scenario.run_steps(&[("create c", &body.to_string(), Managed(201, "{}", &owners))]).await;
    });
}

/// The managers of an object in the order of its entries.
fn managers(object: &Value) -> Vec<&str> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries.filter_map(|entry| entry["manager"].as_str()).collect()
}

#[test]
fn entries_of_a_version_that_is_turned_off_are_dropped() {
    pintle_integration::run(async {
        const PATH: &str = "namespaces/default/horizontalpodautoscalers";
        let cluster = Cluster::durable().await;
        let hpa = json!({"metadata": {"name": "o"}, "spec": {"maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
        let path = format!("/apis/autoscaling/v1/{PATH}?fieldManager=first");
        let _ = cluster.post(&path, hpa.to_string()).await.expect(201);
        let path = format!("/apis/autoscaling/v2/{PATH}/o?fieldManager=");
        let patch = |labels: Value| json!({"metadata": {"labels": labels}}).to_string();
        let served =
            cluster.patch(&format!("{path}second"), "merge", patch(json!({"a": "1"}))).await.expect(200).json();
        assert_eq!(managers(&served), ["first", "second"], "{served}");

        let off = RuntimeConfig::from_flags(Default::default(), &["autoscaling/v1=false"]).expect("a valid value");
        let cluster = cluster.restart_with(|options| options.runtime_config = off).await;
        let stored = cluster.get(&path).await.expect(200).json();
        assert_eq!(managers(&stored), ["first", "second"], "nothing is dropped before a write");
        let written =
            cluster.patch(&format!("{path}third"), "merge", patch(json!({"b": "1"}))).await.expect(200).json();
        assert_eq!(managers(&written), ["second", "third"], "{written}");
        cluster.stop().await;
    });
}

#[test]
fn writes_through_one_api_of_events_drop_the_entries_of_the_other() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let event = json!({"metadata": {"name": "o"}, "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Run",
            "reason": "Ran", "type": "Normal", "reportingController": "example.com/c", "reportingInstance": "c-1"});
        let events = "/apis/events.k8s.io/v1/namespaces/default/events";
        let created = cluster.post(&format!("{events}?fieldManager=first"), event.to_string()).await.expect(201).json();
        assert_eq!(managers(&created), ["first"]);
        let patch = |label: &str| json!({"metadata": {"labels": {"step": label}}}).to_string();
        for (path, manager, label) in
            [("/api/v1/namespaces/default/events/o", "second", "1"), (&format!("{events}/o"), "third", "2")]
        {
            let path = format!("{path}?fieldManager={manager}");
            let written = cluster.patch(&path, "merge", patch(label)).await.expect(200).json();
            assert_eq!(managers(&written), [manager], "{written}");
        }
        cluster.stop().await;
    });
}
