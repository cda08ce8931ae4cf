//! The entries of `metadata.managedFields`: what managers are called, when they have a time, how many are remembered, and
//! what clients may write there themselves.

use serde_json::{Value, json};

use crate::scene::{AUTOSCALER, Conflict, Error, MAP, Owners, Same, Scene, check};

/// The managers of an object with their times, in seconds of the scene.
fn times(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let entries = entries.map(|e| format!("{} {} {}", text(&e["manager"]), text(&e["operation"]), text(&e["time"])));
    entries.collect()
}

#[test]
fn managers_are_called_as_they_say() {
    pintle_testkit::run(async {
        let scene = Scene::of(MAP, "").await;
        let path = format!("{}/o", scene.collection("v1"));
        let _ = scene.ask("create c", r#"{"data": {"k": "0"}}"#).await.expect(201);
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
            let mut ask = scene.cluster.request("PATCH", &format!("{path}?{query}"));
            ask = ask.body("application/merge-patch+json", body);
            if !agent.is_empty() {
                ask = ask.header_bytes("user-agent", agent.as_bytes());
            }
            let object = ask.send().await.expect(200).json();
            let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
            let owner = entries.iter().find(|entry| entry["fieldsV1"]["f:data"].get("f:k").is_some());
            assert_eq!(owner.map(|entry| &entry["manager"]), Some(&json!(name)), "{query} {agent}: {object}");
        }
    });
}

#[test]
fn every_write_has_its_manager() {
    check(
        MAP,
        "",
        &[
            ("create c", r#"{"data": {"k": "1"}}"#, Owners(201, "{}", &["c Update v1: .data .data.k"])),
            ("merge c", r#"{"data": {"k": "1"}}"#, Same),
            // What was the manager's stays, also where others have it now too.
            (
                "put p",
                r#"{"data": {"m": "1"}, "metadata": {"labels": {"l": "x"}}}"#,
                Owners(
                    200,
                    "{}",
                    &["c Update v1: .data .data.k", "p Update v1: .data.m .metadata.labels .metadata.labels.l"],
                ),
            ),
            (
                "merge m",
                r#"{"data": {"k": "2"}}"#,
                Owners(
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
                Owners(
                    200,
                    "{}",
                    &["p Update v1: .data.m .metadata.labels .metadata.labels.l", "c Update v1: .data .data.k .data.n"],
                ),
            ),
        ],
    );
}

#[test]
fn versions_have_entries_of_their_own() {
    const TARGET: &str = r#"{"spec": {"maxReplicas": 3, "minReplicas": 2,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}}"#;
    check(
        AUTOSCALER,
        ".spec.m",
        &[
            (
                "create c @autoscaling/v1",
                TARGET,
                Owners(201, "{}", &["c Update autoscaling/v1: .spec.maxReplicas .spec.minReplicas"]),
            ),
            (
                "merge c",
                r#"{"spec": {"maxReplicas": 4}}"#,
                Owners(
                    200,
                    "{}",
                    &["c Update autoscaling/v1: .spec.minReplicas", "c Update autoscaling/v2: .spec.maxReplicas"],
                ),
            ),
            // Conflicts are told at the version of who applies, and name that of the other.
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
                Owners(
                    200,
                    "{}",
                    &["a Apply autoscaling/v2: .spec.minReplicas", "c Update autoscaling/v2: .spec.maxReplicas"],
                ),
            ),
            // Who applies is one manager at all versions.
            (
                "apply a @autoscaling/v1",
                r#"{"spec": {"minReplicas": 1}}"#,
                Owners(
                    200,
                    "{}",
                    &["a Apply autoscaling/v1: .spec.minReplicas", "c Update autoscaling/v2: .spec.maxReplicas"],
                ),
            ),
        ],
    );
}

#[test]
fn times_are_those_of_changes() {
    pintle_testkit::run(async {
        let scene = Scene::of(MAP, "").await;
        for (i, (request, body, expect)) in [
            ("apply a", r#"{"data": {"k": "1"}}"#, vec![("a Apply", 21)]),
            ("apply a", r#"{"data": {"k": "1"}}"#, vec![("a Apply", 21)]),
            ("merge b", r#"{"data": {"m": "1"}}"#, vec![("a Apply", 21), ("b Update", 23)]),
            ("merge b", r#"{"data": {"m": "1"}}"#, vec![("a Apply", 21), ("b Update", 23)]),
            ("put b", "{}", vec![("a Apply", 21), ("b Update", 23)]),
            ("merge b", r#"{"data": {"m": "2"}}"#, vec![("a Apply", 21), ("b Update", 26)]),
            ("apply a", r#"{"data": {"k": "2", "j": "1"}}"#, vec![("a Apply", 27), ("b Update", 26)]),
            // Who loses something keeps the time.
            ("merge c", r#"{"data": {"k": "3"}}"#, vec![("a Apply", 27), ("b Update", 26), ("c Update", 28)]),
            ("force a", r#"{"data": {"k": "4", "j": "1"}}"#, vec![("a Apply", 29), ("b Update", 26)]),
        ]
        .into_iter()
        .enumerate()
        {
            scene.tick();
            let object = scene.ask(request, body).await.json();
            let expect: Vec<String> = expect.iter().map(|(who, at)| format!("{who} 2023-11-14T22:13:{at}Z")).collect();
            assert_eq!(times(&object), expect, "step {}, {request} {body}", i + 1);
        }
    });
}

#[test]
fn of_many_updaters_the_oldest_become_one() {
    pintle_testkit::run(async {
        let scene = Scene::of(MAP, ".data.").await;
        let _ = scene.ask("create u0", r#"{"data": {"k0": "1"}}"#).await.expect(201);
        let _ = scene.ask("apply a", r#"{"data": {"a": "1"}}"#).await.expect(200);
        let mut owners = vec!["a Apply v1: .data.a".to_owned(), "u0 Update v1: .data.k0".to_owned()];
        for i in 1..10 {
            owners.push(format!("u{i} Update v1: .data.k{i}"));
            let expect: Vec<&str> = owners.iter().map(String::as_str).collect();
            let (request, body) = (format!("merge u{i}"), format!(r#"{{"data": {{"k{i}": "1"}}}}"#));
            scene.play(&[(&request, &body, Owners(200, "{}", &expect))]).await;
        }
        for i in 10..13 {
            let old: Vec<String> = (0..i - 8).map(|i| format!(".data.k{i}")).collect();
            let mut owners =
                vec!["a Apply v1: .data.a".to_owned(), format!("ancient-changes Update v1: {}", sorted(old))];
            owners.extend((i - 8..=i).map(|i| format!("u{i} Update v1: .data.k{i}")));
            let expect: Vec<&str> = owners.iter().map(String::as_str).collect();
            let (request, body) = (format!("merge u{i}"), format!(r#"{{"data": {{"k{i}": "1"}}}}"#));
            scene.play(&[(&request, &body, Owners(200, "{}", &expect))]).await;
        }
        let conflict = r#"conflict with "ancient-changes" using v1"#;
        let message = format!("Apply failed with 1 conflict: {conflict}: .data.k1");
        let body = r#"{"data": {"a": "1", "k1": "2"}}"#;
        scene.play(&[("apply a", body, Conflict(&message, &[(".data.k1", conflict)]))]).await;
    });
}

fn sorted(mut paths: Vec<String>) -> String {
    paths.sort();
    paths.join(" ")
}

#[test]
fn what_was_there_before_the_first_apply_has_an_owner() {
    for reset in ["[]", "[{}]", "[null]"] {
        for verb in ["put", "merge", "strategic"] {
            pintle_testkit::run(async move {
                let scene = Scene::of(MAP, "").await;
                let sent = format!(r#"{{"metadata": {{"managedFields": {reset}}}}}"#);
                let request = format!("{verb} r");
                scene
                    .play(&[
                        ("create c", r#"{"data": {"k": "1"}}"#, Owners(201, "{}", &["c Update v1: .data .data.k"])),
                        (&request, &sent, Owners(200, r#"{"metadata": {"managedFields": null}}"#, &[])),
                        // Who is not followed is not followed again by an update.
                        ("merge c", r#"{"data": {"k": "2"}}"#, Owners(200, "{}", &[])),
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
                            Owners(
                                200,
                                "{}",
                                &["a Apply v1: .data.k .data.m", "before-first-apply Update v1: .data .data.k"],
                            ),
                        ),
                        (
                            "merge c",
                            r#"{"data": {"m": "2"}}"#,
                            Owners(
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
fn owners_are_reset_by_a_body_with_fields_twice() {
    pintle_testkit::run(async {
        let scene = Scene::of(MAP, "").await;
        let first = Owners(201, "{}", &["c Update v1: .data .data.k"]);
        scene.play(&[("create c", r#"{"data": {"k": "1"}}"#, first)]).await;
        let body = r#"{"metadata": {"name": "o", "managedFields": []}, "data": {"k": "2"}, "data": {"l": "3"}}"#;
        let path = format!("{}/o", scene.collection("v1"));
        let put = scene.cluster.put(&path, body.to_owned()).await.expect(200).json();
        assert_eq!(put["data"], serde_json::json!({"k": "2", "l": "3"}));
        assert!(put["metadata"]["managedFields"].is_null(), "{put}");
    });
}

/// An update that sends entries.
fn sending(entries: &Value) -> String {
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
fn updates_may_hand_fields_over() {
    pintle_testkit::run(async {
        let scene = Scene::of(MAP, "").await;
        let made = r#"{"data": {"k": "1"}}"#;
        scene.play(&[("apply a", made, Owners(201, "{}", &["a Apply v1: .data.k"]))]).await;
        let others = sending(&json!([entry("b", "Apply", &Value::Null)]));
        scene.play(&[("put c", &others, Owners(200, "{}", &["b Apply v1: .data.k"]))]).await;
        // What cannot be read is as if it had not been sent.
        let unreadable = [
            entry("c", "Create", &Value::Null),
            entry("c", "", &Value::Null),
            entry("c", "Update", &json!({"apiVersion": ""})),
            entry("c", "Update", &json!({"fieldsType": "FieldsV2"})),
            entry("c", "Update", &json!({"fieldsType": ""})),
            entry("c", "Update", &json!({"fieldsV1": {"data": {}}})),
        ];
        for entry in unreadable {
            scene.play(&[("put c", &sending(&json!([entry])), Same)]).await;
        }
        scene.play(&[("put c", r#"{"metadata": {"managedFields": null}}"#, Same)]).await;
        // Who wrote at a version that there is not is forgotten.
        let old = entry("o", "Update", &json!({"apiVersion": "v0"}));
        let both = sending(&json!([entry("b", "Apply", &Value::Null), old]));
        scene.play(&[("put c", &both, Same)]).await;
        let changed = r#"{"data": {"k": "2"}}"#;
        scene.play(&[("merge c", changed, Owners(200, "{}", &["c Update v1: .data.k"]))]).await;
    });
}

#[test]
fn what_is_sent_is_checked() {
    pintle_testkit::run(async {
        let scene = Scene::of(MAP, "").await;
        let _ = scene.ask("create c", r#"{"data": {"k": "1"}}"#).await.expect(201);
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
            scene.play(&[("put u", &sending(&json!([sent])), Error(422, "Invalid", &message))]).await;
        }
    });
}

#[test]
fn who_creates_owns_whatever_the_entries_say() {
    pintle_testkit::run(async {
        let scene = Scene::of(MAP, "").await;
        let mut body = json!({"data": {"k": "1", "m": "1"}});
        body["metadata"] = json!({"managedFields": [entry("a", "Apply", &Value::Null)]});
        let owners = ["c Update v1: .data .data.k .data.m"];
        scene.play(&[("create c", &body.to_string(), Owners(201, "{}", &owners))]).await;
    });
}
