//! `DeleteOptions` in queries and bodies, and their validation. The messages come from upstream's decoder and its
//! `ValidateDeleteOptions`.

use pintle_gates::Gates;
use pintle_integration::{Cluster, Options};
use serde_json::{Value, json};

use super::{NO_BODY, Scenario, configmap, deleted_status, failure_status};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn invalid(errors: &str) -> String {
    format!("DeleteOptions.meta.k8s.io \"\" is invalid: {errors}")
}

/// Sends options as a body, or as a query if the media type is empty. Valid options lead to 404, as the object does not
/// exist.
async fn check(cluster: &Cluster, media_type: &str, options: &str, expect: Result<(), (u16, &str)>) {
    let name = CONFIGMAPS.to_owned() + "/a";
    let response = match media_type {
        "" => cluster.delete(&format!("{name}?{options}")).await,
        media_type => cluster.request("DELETE", &name).body(media_type, options.to_owned()).send().await,
    };
    // A request with valid options gets as far as the missing object.
    let (code, message) = expect.err().unwrap_or((404, "configmaps \"a\" not found"));
    let status = response.expect(code).json();
    assert_eq!(status["message"], message, "{media_type} {options}");
}

#[test]
fn options_in_the_query_are_validated() {
    const BOTH_SET: &str =
        "propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set";
    let unsupported = |policy: &str| {
        format!(
            "propagationPolicy: Unsupported value: \"{policy}\": supported values: \"Foreground\", \"Background\", \
             \"Orphan\", \"nil\""
        )
    };
    let unsupported_dry_run =
        |given: &str| invalid(&format!("dryRun: Unsupported value: [{given}]: supported values: \"All\""));
    let two_errors = format!(
        "[propagationPolicy: Invalid value: \"Nope\": orphanDependents and deletionPropagation cannot be both set, {}]",
        unsupported("Nope"),
    );
    pintle_integration::run(async move {
        let cluster = Cluster::start().await;
        let valid = [
            "",
            "gracePeriodSeconds=-1",
            "gracePeriodSeconds=1&gracePeriodSeconds=x",
            "orphanDependents=",
            "orphanDependents=x",
            "dryRun=All&dryRun=All",
            "kind=Foo&apiVersion=v9&unknown=1",
            "uid=1&resourceVersion=x",
            // The feature gate is disabled.
            "ignoreStoreReadErrorWithClusterBreakingPotential=true&dryRun=All&gracePeriodSeconds=1&orphanDependents=1",
        ];
        for options in valid {
            check(&cluster, "", options, Ok(())).await;
        }
        for (options, code, message) in [
            ("gracePeriodSeconds=", 400, "strconv.ParseInt: parsing \"\": invalid syntax".to_owned()),
            ("gracePeriodSeconds=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax".to_owned()),
            (
                "gracePeriodSeconds=99999999999999999999",
                400,
                "strconv.ParseInt: parsing \"99999999999999999999\": value out of range".to_owned(),
            ),
            ("orphanDependents=true&propagationPolicy=Orphan", 422, invalid(BOTH_SET)),
            ("orphanDependents=true&propagationPolicy=Nope", 422, invalid(&two_errors)),
            ("propagationPolicy=", 422, invalid(&unsupported(""))),
            ("propagationPolicy=orphan", 422, invalid(&unsupported("orphan"))),
            ("dryRun=", 422, unsupported_dry_run("\"\"")),
            ("dryRun=All&dryRun=None", 422, unsupported_dry_run("\"All\",\"None\"")),
        ] {
            check(&cluster, "", options, Err((code, &message))).await;
        }
        cluster.stop().await;
    });
}

#[test]
fn options_in_the_body_are_validated() {
    const REGISTER: &str = "in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\"";
    let unknown = |kind: &str| format!("no kind \"{kind}\" is registered for version \"v1\" {REGISTER}");
    let no_kind = |what: &str| {
        format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {what} into Go value of type struct {{ \
             APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        )
    };
    let wrong_type =
        |what: &str, field: &str| format!("json: cannot unmarshal {what} into Go struct field DeleteOptions.{field}");
    let unknown_conversion = |kind: &str| format!("converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion");
    let (json, yaml) = ("application/json", "application/yaml");
    pintle_integration::run(async move {
        let cluster = Cluster::start().await;
        for options in [
            "{}",
            "null",
            r#"{"kind":"DeleteOptions"}"#,
            r#"{"apiVersion":"v1"}"#,
            r#"{"kind":"DeleteOptions","apiVersion":"apps/v1"}"#,
            r#"{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"}"#,
            r#"{"kind":"DeleteOptions","apiVersion":"example.com/v7"}"#,
            r#"{"gracePeriodSeconds":null,"orphanDependents":null,"preconditions":{},"dryRun":[]}"#,
            r#"{"unknown":1,"GracePeriodSeconds":"x"}"#,
            r#"{"gracePeriodSeconds":3,"gracePeriodSeconds":4}"#,
            r#"{"preconditions":{"uid":"","resourceVersion":""}}"#,
            r#"{"ignoreStoreReadErrorWithClusterBreakingPotential":true,"preconditions":{}}"#,
        ] {
            check(&cluster, json, options, Ok(())).await;
        }
        for options in ["gracePeriodSeconds: 3", "kind: DeleteOptions\napiVersion: v1\npropagationPolicy: Orphan", "~"]
        {
            check(&cluster, yaml, options, Ok(())).await;
        }
        for (media_type, options, code, message) in [
            (json, "[]", 400, no_kind("array")),
            (json, "\"x\"", 400, no_kind("string")),
            (json, "5", 400, no_kind("number")),
            (yaml, "a", 400, no_kind("string")),
            (json, " ", 400, "couldn't get version/kind; json parse error: unexpected end of JSON input".into()),
            (json, r#"{"kind":"DeleteOptions","apiVersion":"a/b/c"}"#, 400, "unexpected GroupVersion string: a/b/c".into()),
            (json, r#"{"kind":"deleteoptions","apiVersion":"v1"}"#, 400, unknown("deleteoptions")),
            (json, r#"{"kind":"Pod"}"#, 400, unknown("Pod").replace("\"v1\"", "\"meta.k8s.io/v1\"")),
            (yaml, "kind: Pod\napiVersion: v1", 400, unknown("Pod")),
            (json, r#"{"kind":"ListOptions","apiVersion":"v1"}"#, 400, unknown("ListOptions")),
            (json, r#"{"kind":"PatchOptions","apiVersion":"v1"}"#, 400, unknown("PatchOptions")),
            (json, r#"{"kind":"PatchOptions","apiVersion":"meta.k8s.io/v1"}"#, 400, unknown_conversion("PatchOptions")),
            (json, r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1"}"#, 400, unknown_conversion("Table")),
            (json, r#"{"kind":"Status","apiVersion":"v1"}"#, 400, unknown_conversion("Status")),
            (json, r#"{"kind":"CreateOptions","apiVersion":"v1"}"#, 400, unknown_conversion("CreateOptions")),
            (json, r#"{"gracePeriodSeconds":"5"}"#, 400, wrong_type("string", "gracePeriodSeconds of type int64")),
            (json, r#"{"gracePeriodSeconds":5.5}"#, 400, wrong_type("number 5.5", "gracePeriodSeconds of type int64")),
            (json, r#"{"propagationPolicy":5}"#, 400, wrong_type("number", "propagationPolicy of type v1.DeletionPropagation")),
            (json, r#"{"dryRun":"All"}"#, 400, wrong_type("string", "dryRun of type []string")),
            (json, r#"{"preconditions":[]}"#, 400, wrong_type("array", "preconditions of type v1.Preconditions")),
            (json, r#"{"orphanDependents":"x"}"#, 400, wrong_type("string", "orphanDependents of type bool")),
            (yaml, "gracePeriodSeconds: \"3\"", 400, wrong_type("string", "gracePeriodSeconds of type int64")),
            (
                json,
                r#"{"kind":5}"#,
                400,
                "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of \
                 type string"
                    .into(),
            ),
            (
                json,
                r#"{"gracePeriodSeconds":3"#,
                400,
                "couldn't get version/kind; json parse error: unexpected end of JSON input".into(),
            ),
            (json, r#"{"dryRun":[null]}"#, 422, invalid("dryRun: Unsupported value: [\"\"]: supported values: \"All\"")),
            (
                json,
                r#"{"propagationPolicy":"Nope"}"#,
                422,
                invalid(
                    "propagationPolicy: Unsupported value: \"Nope\": supported values: \"Foreground\", \"Background\", \
                     \"Orphan\", \"nil\"",
                ),
            ),
        ] {
            check(&cluster, media_type, options, Err((code, &message))).await;
        }
        cluster.stop().await;
    });
}

/// If the request has a body, the query is ignored.
#[test]
fn the_body_takes_precedence_over_the_query() {
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        scenario
            .run_steps(&[
                ("POST configmaps", configmap("a"), 201, json!({})),
                ("DELETE configmaps/a?dryRun=All", NO_BODY, 200, deleted_status("configmaps", "a")),
                ("GET configmaps/a", NO_BODY, 200, json!({"metadata": {"uid": "$a.uid"}})),
                (
                    "DELETE configmaps/a?dryRun=All&uid=no&propagationPolicy=Nope",
                    json!({}),
                    200,
                    deleted_status("configmaps", "a"),
                ),
                ("GET configmaps/a", NO_BODY, 404, json!({})),
                ("POST configmaps", configmap("a"), 201, json!({})),
                ("DELETE configmaps/a", json!({"dryRun": ["All"]}), 200, deleted_status("configmaps", "a")),
                ("GET configmaps/a", NO_BODY, 200, json!({})),
            ])
            .await;
        scenario.stop().await;
    });
}

/// This includes custom resources, which have no Protobuf encoding themselves.
#[test]
fn options_are_accepted_in_every_encoding() {
    // `DeleteOptions` with a policy in the Kubernetes Protobuf envelope.
    let message = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x08\x22\x06Orphan";
    let cbor = b"\xd9\xd9\xf7\xa1\x51propagationPolicy\x46Orphan";
    let crd = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}).to_string();
    pintle_integration::run(async move {
        let (gates, _) =
            Gates::with_overrides(&[("CBORServingAndStorage".to_owned(), true)].into_iter().collect()).expect("gates");
        let cluster = Cluster::with_options(Options { gates, ..Options::default() }).await;
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let _ = cluster.post(crds, crd.to_string()).await.expect(201);
        cluster.get_until_status(widgets, 200).await;
        for (collection, object) in [(CONFIGMAPS, configmap("a").to_string()), (widgets, widget)] {
            for (media_type, body) in [
                ("application/json", &br#"{"propagationPolicy":"Orphan"}"#[..]),
                ("", br#"{"propagationPolicy":"Orphan"}"#),
                ("application/yaml", b"propagationPolicy: Orphan"),
                ("application/vnd.kubernetes.protobuf", message),
                ("application/cbor", cbor),
            ] {
                let _ = cluster.post(collection, object.clone()).await.expect(201);
                let path = format!("{collection}/a");
                let request = cluster.request("DELETE", &path);
                let request = if media_type.is_empty() { request.raw(body) } else { request.body(media_type, body) };
                let response = request.send().await.expect(200).json();
                assert_eq!(response["metadata"]["finalizers"], json!(["orphan"]), "{path} {media_type}");
                cluster.get_until_status(&path, 404).await;
            }
            let path = format!("{collection}/a");
            let error = cluster.request("DELETE", &path).body("text/plain", "x").send().await.expect(415).json();
            assert_eq!(error["reason"], Value::from("UnsupportedMediaType"));
        }
        cluster.stop().await;
    });
}

/// Jobs warn about the default propagation policy, and some objects cannot be deleted.
#[test]
fn some_kinds_warn_or_forbid_deletion() {
    const WARNING: &str = "299 - \"child pods are preserved by default when jobs are deleted; set \
                           propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this \
                           warning\"";
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        let jobs = "/apis/batch/v1/namespaces/default/jobs";
        for (path, warning) in [
            (format!("{jobs}/x"), WARNING),
            (jobs.to_owned(), WARNING),
            (format!("{jobs}?dryRun=All"), WARNING),
            (format!("{jobs}/x?propagationPolicy=Orphan"), ""),
            (format!("{jobs}?orphanDependents=false"), ""),
            ("/api/v1/namespaces/default/replicationcontrollers/x".to_owned(), ""),
        ] {
            let response = scenario.cluster.delete(&path).await;
            assert_eq!(response.header("warning"), warning, "{path}");
        }
        let system = failure_status(
            "Forbidden",
            "priorityclasses.scheduling.k8s.io \"system-node-critical\" is forbidden: this is a system priority class and \
             cannot be deleted",
        );
        scenario
            .run_steps(&[
                ("DELETE /apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical", NO_BODY, 403, system),
                // Deletecollection can delete it.
                (
                    "DELETE /apis/scheduling.k8s.io/v1/priorityclasses",
                    NO_BODY,
                    200,
                    json!({"kind": "PriorityClassList"}),
                ),
                ("GET /apis/scheduling.k8s.io/v1/priorityclasses", NO_BODY, 200, json!({"items": []})),
                (
                    "DELETE /api/v1/namespaces/kube-system",
                    NO_BODY,
                    403,
                    failure_status(
                        "Forbidden",
                        "namespaces \"kube-system\" is forbidden: this namespace may not be deleted",
                    ),
                ),
            ])
            .await;
        scenario.stop().await;
    });
}
