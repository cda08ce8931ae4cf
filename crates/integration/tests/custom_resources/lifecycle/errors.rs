//! Errors of requests for custom resources. The messages are the same as in upstream's handler
//! (`apiextensions-apiserver`).

use pintle_integration::{Cluster, eventually};
use serde_json::{Value, json};

use super::{CRDS, WIDGETS, start_with_widgets, wait_for_condition, widget};

const MERGE: &str = "application/merge-patch+json";
const NOT_FOUND_PAGE: &str = "404 page not found\n";

/// Sends a request, and compares the status code and the message.
async fn check(cluster: &Cluster, method: &str, path: &str, media_type: &str, body: &str, expect: (u16, &str)) {
    let response = cluster.request(method, path).body(media_type, body.to_owned()).send().await;
    let text = response.text();
    let status: Value = serde_json::from_str(&text).unwrap_or_default();
    let message = status["message"].as_str().unwrap_or(&text);
    assert_eq!((response.status.as_u16(), message), expect, "{method} {path}");
}

#[test]
fn invalid_requests_fail_with_upstreams_messages() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let body = widget("a", &json!({"colour": "red"})).to_string();
        let _ = cluster.post(WIDGETS, body.clone()).await.expect(201);
        let no_put = "create is not supported on resources of kind \"widgets.example.com\"";
        let patches = "the body of the request was in an unknown format - accepted media types include: \
                       application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
        let bodies = "the body of the request was in an unknown format - accepted media types include: \
                      application/json, application/yaml, application/vnd.kubernetes.protobuf";
        for (method, path, media_type, body, expect) in [
            (
                "POST",
                "",
                "application/json",
                r#"{"kind": 1e400, "spec": {}}"#,
                (
                    400,
                    "the object provided is unrecognized (must be of type Widget): couldn't get version/kind; json \
                     parse error: json: cannot unmarshal number into Go struct field .kind of type string \
                     ({\"kind\": 1e400, \"spec\": {}})",
                ),
            ),
            (
                "POST",
                "",
                "application/json",
                r#"{"kind": "Widget", "spec": {"size": 1e400}}"#,
                (
                    400,
                    "Widget in version \"v1\" cannot be handled as a Widget: json: cannot unmarshal number 1e400 into \
                     Go value of type float64",
                ),
            ),
            // A create ignores the name in the path.
            ("POST", "/a", "application/json", &*body, (409, "widgets.example.com \"a\" already exists")),
            ("PUT", "", "application/json", &body, (400, "name must be provided")),
            ("PATCH", "", MERGE, "{}", (400, "name must be provided")),
            ("PATCH", "", "application/json", "{}", (415, patches)),
            (
                "OPTIONS",
                "/a",
                "application/json",
                "",
                (405, " is not supported on resources of kind \"widgets.example.com\""),
            ),
            (
                "TRACE",
                "/a",
                "application/json",
                "",
                (405, " is not supported on resources of kind \"widgets.example.com\""),
            ),
            ("GET", "/a/nope", "application/json", "", (404, "widgets.example.com \"a\" not found")),
            ("POST", "/a/nope", "application/json", "{}", (404, "widgets.example.com \"a\" not found")),
            ("POST", "/a/status", "application/json", "{}", (405, no_put)),
            (
                "DELETE",
                "/a/scale",
                "application/json",
                "",
                (405, "delete is not supported on resources of kind \"widgets.example.com\""),
            ),
            ("PATCH", "/a", "application/strategic-merge-patch+json", "{}", (415, patches)),
            ("PATCH", "/a", "application/json", "{}", (415, patches)),
            ("POST", "", "text/plain", "x", (415, bodies)),
        ] {
            check(&cluster, method, &format!("{WIDGETS}{path}"), media_type, body, expect).await;
        }
        let all = "/apis/example.com/v1/widgets";
        for (method, path) in [
            ("GET", "/apis/example.com/v1/widgets/a"),
            ("POST", all),
            ("DELETE", all),
            ("GET", "/apis/example.com/v1/namespaces/default/nopes"),
            ("GET", "/apis/example.com/v2/namespaces/default/widgets"),
            ("GET", "/apis/nope.example.com/v1/widgets"),
            ("GET", "/apis/example.com/v2"),
            ("GET", "/apis/nope.example.com"),
        ] {
            check(&cluster, method, path, "application/json", "", (404, NOT_FOUND_PAGE)).await;
        }
        cluster.stop().await;
    });
}

#[test]
fn creates_fail_while_the_crd_is_terminating() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let mut with_finalizer = widget("held", &json!({"colour": "red"}));
        with_finalizer["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let _ = cluster.post(WIDGETS, with_finalizer.to_string()).await.expect(201);
        let mut watch = cluster.watch(&format!("{WIDGETS}?watch=1")).await;
        watch.expect("ADDED", "held").await;
        let _ = cluster.delete(&format!("{CRDS}/widgets.example.com")).await.expect(200);
        wait_for_condition(&cluster, "widgets.example.com", "Terminating", "True").await;
        watch.expect("MODIFIED", "held").await;
        let verbs = async || {
            let group = cluster.get("/apis/example.com/v1").await.expect(200).json();
            group["resources"][0]["verbs"].to_string()
        };
        let left = r#"["delete","deletecollection","get","list","watch"]"#;
        eventually("creates are not served", || async { verbs().await == left }).await;
        let refused = "widgets.example.com \"new\" is forbidden: create not allowed while custom resource definition is \
                       terminating";
        let new = widget("new", &json!({})).to_string();
        cluster.post(WIDGETS, new.clone()).await.expect_error(403, "Forbidden", refused);
        let apply = format!("{WIDGETS}/new?fieldManager=m");
        let applied = cluster.request("PATCH", &apply).body("application/apply-patch+yaml", new).send().await;
        applied.expect_error(403, "Forbidden", refused);
        // Existing objects can still be updated, and the watch continues until the CRD is deleted.
        let remove_finalizers = r#"{"metadata": {"finalizers": null}}"#;
        let _ = cluster.patch(&format!("{WIDGETS}/held"), "merge", remove_finalizers).await.expect(200);
        watch.expect("DELETED", "held").await;
        while watch.next().await.is_some() {}
        check(&cluster, "GET", WIDGETS, "application/json", "", (404, NOT_FOUND_PAGE)).await;
        cluster.stop().await;
    });
}

/// Upstream's handler and its clients see a CRD through informers. Here both see the same stored CRD.
#[test]
fn no_create_is_accepted_after_a_client_has_seen_the_crd_terminate() {
    pintle_integration::run(async {
        let mut cluster = Cluster::start().await;
        let path = format!("{CRDS}/widgets.example.com");
        let mut held = widget("held", &json!({}));
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let new = widget("new", &json!({})).to_string();
        for _ in 0..20 {
            cluster = start_with_widgets(cluster).await;
            let _ = cluster.post(WIDGETS, held.to_string()).await.expect(201);
            let _ = cluster.delete(&path).await.expect(200);
            let apply = format!("{WIDGETS}/new?fieldManager=m&dryRun=All");
            let apply = cluster.request("PATCH", &apply).body("application/apply-patch+yaml", new.clone());
            let (created, applied) = tokio::join!(cluster.post(WIDGETS, new.clone()), apply.send());
            assert!(created.status == 403 && applied.status == 403, "{} {}", created.status, applied.status);
            let _ = cluster.patch(&format!("{WIDGETS}/held"), "merge", r#"{"metadata": {"finalizers": null}}"#).await;
            cluster.get_until_status(&path, 404).await;
        }
        cluster.stop().await;
    });
}

#[test]
fn no_create_outlives_the_crd_that_is_deleted_at_the_same_time() {
    pintle_integration::run(async {
        let mut cluster = Cluster::start().await;
        let path = format!("{CRDS}/widgets.example.com");
        for round in 0..20 {
            cluster = start_with_widgets(cluster).await;
            let create_until_refused = async |client: usize| {
                for i in 0.. {
                    let new = widget(&format!("w{client}-{i}"), &json!({}));
                    let status = cluster.post(WIDGETS, new.to_string()).await.status;
                    if status != 201 {
                        assert!(status == 403 || status == 404, "{status}");
                        return;
                    }
                }
            };
            // Each round deletes the CRD at another moment.
            let delete = async {
                tokio::time::sleep(std::time::Duration::from_millis(round)).await;
                let _ = cluster.delete(&path).await.expect(200);
            };
            tokio::join!(delete, create_until_refused(0), create_until_refused(1), create_until_refused(2));
            cluster.get_until_status(&path, 404).await;
            cluster = start_with_widgets(cluster).await;
            assert_eq!(cluster.get(WIDGETS).await.expect(200).json()["items"], json!([]), "round {round}");
            let _ = cluster.delete(&path).await.expect(200);
            cluster.get_until_status(&path, 404).await;
        }
        cluster.stop().await;
    });
}
