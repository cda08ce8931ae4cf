//! What a webhook may answer, and what clients are told of other answers. The rows of `answers.json` are ours; what is
//! shown or told was recorded by `tools/conversion`, which has upstream's converter (`apiextensions-apiserver`, 1.36) convert
//! the widget `a` from v1 to v2.

use std::sync::Arc;
use std::time::Duration;

use pintle::Options;
use pintle_testkit::{Cluster, advance_clock_until, manual_clock};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::hook::{Hook, Manner};
use super::{DEFINITION, convert, define, definition, path, serving, v1, webhook, widgets};

/// An answer and what comes of it.
#[derive(Deserialize)]
struct Row {
    name: String,
    /// The versions of reviews that the definition names; v1 where nothing is said.
    #[serde(default)]
    reviews: Vec<String>,
    code: Option<u16>,
    r#type: Option<String>,
    /// The body: a text as it is, or JSON. `$UID` is that of the question.
    answer: Value,
    /// What a get at v2 shows.
    shown: Option<Value>,
    /// What it says instead.
    error: Option<String>,
}

/// The widget of the rows.
fn widget() -> Value {
    let mut widget = v1("a", "red");
    widget["metadata"]["labels"] = json!({"l": "1"});
    widget["metadata"]["annotations"] = json!({"n": "1"});
    widget
}

/// A definition that takes whatever the rows make of a widget.
fn tolerant(hook: &Hook, reviews: &[String]) -> Value {
    let mut definition = definition("v1", &webhook(&hook.by_url()));
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    definition["spec"]["versions"][1]["schema"]["openAPIV3Schema"] = anything;
    definition["spec"]["versions"][1]["selectableFields"].take();
    if !reviews.is_empty() {
        definition["spec"]["conversion"]["webhook"]["conversionReviewVersions"] = json!(reviews);
    }
    definition
}

async fn check(cluster: &Cluster, hook: &Hook, uid: &str, row: &Row) {
    let body = match &row.answer {
        Value::String(text) => text.clone(),
        json => json.to_string(),
    };
    hook.set(Manner::Says {
        code: row.code.unwrap_or(200),
        media_type: row.r#type.clone().unwrap_or_else(|| "application/json".to_owned()),
        body: body.replace("\"u1\"", &format!("\"{uid}\"")).replace("uid: u1", &format!("uid: {uid}")),
    });
    let answer = cluster.get(&path("v2", "a")).await;
    if let Some(expect) = &row.error {
        let status = answer.expect(500).json();
        let (_, question) = hook.last();
        let asked = question["request"]["uid"].as_str().unwrap_or_default();
        let expect = expect.replace("$UID", asked).replace("u1", uid);
        assert_eq!(status["message"].as_str().unwrap_or_default(), expect, "{}", row.name);
        assert_eq!(status.get("reason"), None, "{}", row.name);
        return;
    }
    let mut shown = answer.expect(200).json();
    assert_eq!(shown["apiVersion"], "example.com/v2", "{}", row.name);
    let metadata = shown.as_object_mut().and_then(|shown| shown.remove("metadata")).unwrap_or_default();
    assert_eq!((&metadata["name"], &metadata["uid"]), (&json!("a"), &json!(uid)), "{}", row.name);
    let mut found = shown;
    for key in ["apiVersion", "kind"] {
        found.as_object_mut().map(|found| found.remove(key));
    }
    found["labels"] = metadata["labels"].clone();
    found["annotations"] = metadata["annotations"].clone();
    assert_eq!(Some(&found), row.shown.as_ref(), "{}", row.name);
}

#[test]
fn answers_are_taken_or_told_as_upstream_does() {
    pintle_testkit::run(async {
        let rows: Vec<Row> = serde_json::from_str(include_str!("answers.json")).expect("rows");
        let hook = Hook::start(Manner::Converts(convert)).await;
        let mut sets: Vec<&[String]> = rows.iter().map(|row| row.reviews.as_slice()).collect();
        sets.sort_unstable();
        sets.dedup();
        for reviews in sets {
            let cluster = Cluster::start().await;
            define(&cluster, &tolerant(&hook, reviews)).await;
            let made = cluster.post(&widgets("v1"), widget().to_string()).await.expect(201).json();
            let uid = made["metadata"]["uid"].as_str().expect("a uid");
            for row in rows.iter().filter(|row| row.reviews == reviews) {
                check(&cluster, &hook, uid, row).await;
            }
            cluster.stop().await;
        }
    });
}

#[test]
fn questions_are_upstreams() {
    pintle_testkit::run(async {
        let (cluster, hook) = serving().await;
        let made = cluster.post(&widgets("v1"), v1("a", "red").to_string()).await.expect(201).json();
        let _ = cluster.get(&path("v2", "a")).await.expect(200);
        let (head, question) = hook.last();
        assert!(head.starts_with("POST /convert?timeout=30s HTTP/1.1\r\n"), "{head}");
        for line in [
            "accept: application/json, */*",
            "content-type: application/json",
            "user-agent: kube-apiserver-admission",
            &format!("host: 127.0.0.1:{}", hook.port),
        ] {
            assert!(head.lines().any(|found| found == line), "{line} in {head}");
        }
        let mut stored = made;
        stored["metadata"].as_object_mut().map(|metadata| metadata.remove("resourceVersion"));
        let uid = question["request"]["uid"].clone();
        assert_eq!(uid.as_str().map(str::len), Some(36));
        let expect = json!({
            "kind": "ConversionReview",
            "apiVersion": "apiextensions.k8s.io/v1",
            "request": {"uid": uid, "desiredAPIVersion": "example.com/v2", "objects": [stored]},
            "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}},
        });
        assert_eq!(question, expect);
        let metrics = cluster.get("/metrics").await.expect(200).text();
        let counted = "apiserver_conversion_webhook_request_total{result=\"success\",failure_type=\"\"} 1";
        assert!(metrics.contains(counted), "{metrics}");
        cluster.stop().await;
    });
}

/// What a client is told of a webhook that behaves like this, with `PORT` for its port.
async fn told(cluster: &Cluster, hook: &Hook, manner: Manner, expect: &str) {
    hook.set(manner);
    let status = cluster.get(&path("v2", "a")).await.expect(500).json();
    let message = status["message"].as_str().unwrap_or_default().replace(&hook.port.to_string(), "PORT");
    let expect = format!("conversion webhook for example.com/v1, Kind=Widget failed: {expect}");
    assert_eq!(message, expect);
}

#[test]
fn hostile_webhooks_harm_nobody() {
    pintle_testkit::run(async {
        let (cluster, hook) = serving().await;
        let _ = cluster.post(&widgets("v1"), v1("a", "red").to_string()).await.expect(201);
        told(&cluster, &hook, Manner::Floods, "the response is too large").await;
        let broken = "unexpected error when reading response body. Please retry. Original error: unexpected EOF";
        told(&cluster, &hook, Manner::Breaks, broken).await;
        // It sends nobody anywhere else.
        let away = Manner::Adds(307, "Location: https://127.0.0.1:1/", "");
        told(
            &cluster,
            &hook,
            away,
            "the server responded with the status code 307 but did not return more information",
        )
        .await;
        let deep = Manner::Says {
            code: 200,
            media_type: String::new(),
            body: format!("{{\"response\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000)),
        };
        hook.set(deep);
        let _ = cluster.get(&path("v2", "a")).await.expect(500);
        // Whoever does not need it does not notice.
        let _ = cluster.get(&path("v1", "a")).await.expect(200);
        hook.set(Manner::Converts(convert));
        let _ = cluster.get(&path("v2", "a")).await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn webhooks_that_are_not_there_are_told_of() {
    pintle_testkit::run(async {
        let (cluster, hook) = serving().await;
        let _ = cluster.post(&widgets("v1"), v1("a", "red").to_string()).await.expect(201);
        let rows = [
            (
                json!({"url": "https://127.0.0.1:1/"}),
                "Post \"https://127.0.0.1:1/?timeout=30s\": dial tcp 127.0.0.1:1: connect: connection refused",
            ),
            (
                json!({"url": format!("https://127.0.0.1:{}", hook.port)}),
                "Post \"https://127.0.0.1:PORT/?timeout=30s\": tls: failed to verify certificate: x509: certificate signed by unknown authority",
            ),
            (
                json!({"service": {"namespace": "default", "name": "none", "path": "/a/b/"}}),
                "Post \"https://none.default.svc:443/a/b?timeout=30s\": service \"none\" not found",
            ),
        ];
        for (client, expect) in rows {
            let merge = json!({"spec": {"conversion": webhook(&client)}});
            // A merge leaves what the other way to it was.
            let clear = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
            let _ = cluster.patch(DEFINITION, "merge", clear.to_string()).await.expect(200);
            let _ = cluster.patch(DEFINITION, "merge", merge.to_string()).await.expect(200);
            let prefix = "conversion webhook for example.com/v1, Kind=Widget failed: ";
            loop {
                let answer = cluster.get(&path("v2", "a")).await;
                let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
                if message.replace(&hook.port.to_string(), "PORT") == format!("{prefix}{expect}") {
                    break;
                }
                // The definition may not be followed yet.
                assert!(!message.contains(expect.split(": ").next().unwrap_or_default()), "{message}");
            }
        }
        cluster.stop().await;
    });
}

#[test]
fn webhooks_behind_services_are_found() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let hook = Hook::start(Manner::Converts(convert)).await;
        let service =
            json!({"service": {"namespace": "default", "name": "hooks", "path": "/convert"}, "caBundle": hook.bundle});
        define(&cluster, &definition("v1", &webhook(&service))).await;
        let _ = cluster.post(&widgets("v1"), v1("a", "red").to_string()).await.expect(201);
        let service = json!({
            "metadata": {"name": "hooks"},
            "spec": {"clusterIP": "None", "ports": [{"name": "https", "port": 443}]},
        });
        let _ = cluster.post("/api/v1/namespaces/default/services", service.to_string()).await.expect(201);
        let refused = cluster.get(&path("v2", "a")).await.expect(500).json();
        let message = refused["message"].as_str().unwrap_or_default();
        assert!(message.ends_with("cannot route to service with ClusterIP \"None\""), "{message}");
        // Endpoints may not be on the machine itself, but another name may.
        let outside =
            json!({"spec": {"type": "ExternalName", "externalName": "localhost", "clusterIP": "", "clusterIPs": null}});
        let _ =
            cluster.patch("/api/v1/namespaces/default/services/hooks", "merge", outside.to_string()).await.expect(200);
        let port = json!([{"op": "replace", "path": "/spec/conversion/webhook/clientConfig/service/port", "value": hook.port}]);
        let _ = cluster.patch(DEFINITION, "json", port.to_string()).await.expect(200);
        while cluster.get(&path("v2", "a")).await.status != 200 {}
        let (head, _) = hook.last();
        let host = format!("host: hooks.default.svc:{}", hook.port);
        assert!(head.lines().any(|line| line == host), "{head}");
        cluster.stop().await;
    });
}

#[test]
fn slow_webhooks_hold_up_nobody_else_and_are_given_up() {
    pintle_testkit::run(async {
        let clock = manual_clock();
        let cluster = Cluster::with_options(Options { clock: clock.clone(), ..Options::default() }).await;
        let hook = Hook::start(Manner::Converts(convert)).await;
        define(&cluster, &definition("v1", &webhook(&hook.by_url()))).await;
        let _ = cluster.post(&widgets("v1"), v1("a", "red").to_string()).await.expect(201);
        let _ = hook.asked();
        let go_on = Arc::new(Semaphore::new(0));
        hook.set(Manner::Waits(go_on.clone(), convert));
        let (v2_path, list) = (path("v2", "a"), widgets("v2"));
        let waiting = futures_util::future::join(cluster.get(&v2_path), cluster.get(&list));
        let meanwhile = async {
            while hook.count() < 2 {
                tokio::task::yield_now().await;
            }
            for _ in 0..3 {
                let _ = cluster.get(&path("v1", "a")).await.expect(200);
                let change = r#"{"spec": {"colour": "green"}}"#;
                let _ = cluster.patch(&path("v1", "a"), "merge", change).await.expect(200);
            }
            go_on.add_permits(2);
        };
        let ((one, all), ()) = futures_util::future::join(waiting, meanwhile).await;
        assert_eq!(one.expect(200).json()["spec"]["hue"], "red");
        assert_eq!(all.expect(200).json()["items"][0]["spec"]["hue"], "red");
        // One that puts us off is asked again.
        hook.set(Manner::Adds(429, "Retry-After: 1", ""));
        let _ = hook.asked();
        let recovers = async {
            while hook.count() == 0 {
                tokio::task::yield_now().await;
            }
            hook.set(Manner::Converts(convert));
        };
        let asking = futures_util::future::join(advance_clock_until(&clock, cluster.get(&v2_path)), recovers);
        let _ = asking.await.0.expect(200);
        hook.set(Manner::Waits(Arc::new(Semaphore::new(0)), convert));
        let given_up = advance_clock_until(&clock, cluster.get(&v2_path)).await.expect(500).json();
        let message = given_up["message"].as_str().unwrap_or_default().replace(&hook.port.to_string(), "PORT");
        assert_eq!(
            message,
            "conversion webhook for example.com/v1, Kind=Widget failed: Post \"https://127.0.0.1:PORT/convert?timeout=30s\": net/http: request canceled (Client.Timeout exceeded while awaiting headers)"
        );
        tokio::time::timeout(Duration::from_secs(60), cluster.stop()).await.expect("a stop");
    });
}
