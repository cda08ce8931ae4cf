//! The life cycle of CRDs, and of the kinds that they define.

use std::collections::HashSet;

use futures_util::future::join_all;
use pintle::Options;
use pintle_integration::{Cluster, Response};
use serde_json::{Value, json};

use super::{CRDS, WIDGETS, start_with_widgets, wait_for_condition, widget, widget_crd};

#[test]
fn names_are_accepted_and_served() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let _ = cluster.get(WIDGETS).await.expect(404);
        let created = cluster.post(CRDS, widget_crd().to_string()).await.expect(201).json();
        assert_eq!(created["status"]["conditions"], Value::Null, "{created}");
        let established = wait_for_condition(&cluster, "widgets.example.com", "Established", "True").await;
        // The kind is served once the CRD is Established.
        let _ = cluster.get(WIDGETS).await.expect(200);
        let status = &established["status"];
        let condition =
            |i: usize| ["type", "status", "reason", "message"].map(|key| status["conditions"][i][key].clone());
        assert_eq!(condition(0), ["NamesAccepted", "True", "NoConflicts", "no conflicts found"]);
        let initial = "the initial names have been accepted";
        assert_eq!(condition(1), ["Established", "True", "InitialNamesAccepted", initial]);
        assert_eq!(status["acceptedNames"]["listKind"], "WidgetList");
        assert_eq!(status["storedVersions"], json!(["v1"]));

        let group = cluster.get("/apis/example.com").await.expect(200).json();
        let versions: Vec<&Value> =
            group["versions"].as_array().expect("versions").iter().map(|v| &v["version"]).collect();
        assert_eq!(versions, ["v1", "v1beta1"]);
        let resources = cluster.get("/apis/example.com/v1").await.expect(200).json();
        let names: Vec<&Value> =
            resources["resources"].as_array().expect("resources").iter().map(|r| &r["name"]).collect();
        assert_eq!(names, ["widgets", "widgets/status", "widgets/scale"]);
        let paths = cluster.get("/openapi/v3").await.expect(200).json();
        assert!(paths["paths"].get("apis/example.com/v1").is_some(), "{paths}");
        cluster.stop().await;
    });
}

#[test]
fn a_burst_of_crds_beyond_the_history_is_established_and_cleaned_up() {
    pintle_integration::run(async {
        // No event fits into the history, and a few CRDs fill the buffer of the controller's watch.
        let mut options = Options::default();
        options.history.bytes = 1;
        let cluster = Cluster::with_options(options).await;
        let names: Vec<String> = (0..40).map(|index| format!("things{index}")).collect();
        let bodies = names.iter().map(|plural| {
            let schema = json!({"openAPIV3Schema": {"type": "object", "description": "x".repeat(30_000)}});
            let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
            let names = json!({"plural": plural, "kind": plural.to_uppercase()});
            let spec = json!({"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]});
            json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": spec}).to_string()
        });
        // In the second round, the names belong to other CRDs.
        for _ in 0..2 {
            let creates = bodies.clone().map(|body| async { cluster.post(CRDS, body).await.expect(201) });
            drop(join_all(creates).await);
            for plural in &names {
                let is_established = |found: &Response| found.text().contains("InitialNamesAccepted");
                cluster.get_until(&format!("{CRDS}/{plural}.example.com"), is_established).await;
                cluster.get_until_status(&format!("/apis/example.com/v1/{plural}"), 200).await;
            }
            let deletes = names.iter().map(|plural| {
                let cluster = &cluster;
                async move { cluster.delete(&format!("{CRDS}/{plural}.example.com")).await.expect(200) }
            });
            drop(join_all(deletes).await);
            for plural in &names {
                cluster.get_until_status(&format!("{CRDS}/{plural}.example.com"), 404).await;
            }
        }
        cluster.stop().await;
    });
}

#[test]
fn conflicting_names_are_accepted_once_they_are_free() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let mut other = widget_crd();
        other["metadata"]["name"] = json!("gadgets.example.com");
        other["spec"]["names"] = json!({"plural": "gadgets", "kind": "Widget", "listKind": "GadgetList"});
        let _ = cluster.post(CRDS, other.to_string()).await.expect(201);
        let refused = wait_for_condition(&cluster, "gadgets.example.com", "NamesAccepted", "False").await;
        let condition = &refused["status"]["conditions"][0];
        assert_eq!(condition["reason"], "KindConflict");
        assert_eq!(condition["message"], "\"Widget\" is already in use");
        let _ = cluster.get("/apis/example.com/v1/gadgets").await.expect(404);
        // The deletion of the other CRD frees the name.
        let _ = cluster.delete(&format!("{CRDS}/widgets.example.com")).await.expect(200);
        wait_for_condition(&cluster, "gadgets.example.com", "Established", "True").await;
        let _ = cluster.get("/apis/example.com/v1/gadgets").await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn deletion_of_a_crd_waits_for_its_objects() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let mut with_finalizer = widget("held", &json!({}));
        with_finalizer["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let _ = cluster.post(WIDGETS, widget("free", &json!({})).to_string()).await.expect(201);
        let with_finalizer = cluster.post(WIDGETS, with_finalizer.to_string()).await.expect(201).json();
        let revision = with_finalizer["metadata"]["resourceVersion"].as_str().expect("a revision");
        let mut watch = cluster.watch(&format!("{WIDGETS}?watch=1&resourceVersion={revision}")).await;

        let path = format!("{CRDS}/widgets.example.com");
        let deleted = cluster.delete(&path).await.expect(200).json();
        assert_eq!(deleted["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
        assert_eq!(deleted["metadata"]["generation"], 1);
        assert_eq!(deleted["metadata"]["deletionGracePeriodSeconds"], Value::Null);
        assert_eq!(deleted["status"]["conditions"][2]["reason"], "InstanceDeletionPending");
        let (first, second) = (watch.next().await.expect("an event"), watch.next().await.expect("an event"));
        let mut events = [&first, &second].map(|e| format!("{} {}", e["type"], e["object"]["metadata"]["name"]));
        events.sort();
        assert_eq!(events, ["\"DELETED\" \"free\"", "\"MODIFIED\" \"held\""]);
        let _ = cluster.get(&path).await.expect(200);

        let remove_finalizers = r#"{"metadata": {"finalizers": []}}"#;
        let _ = cluster.patch(&format!("{WIDGETS}/held"), "merge", remove_finalizers).await.expect(200);
        watch.expect("DELETED", "held").await;
        assert_eq!(watch.next().await, None, "a watch ends with its kind");
        let _ = cluster.get(WIDGETS).await.expect(404);
        cluster.get_until_status(&path, 404).await;
        // The same names can be defined again. The new kind has no objects.
        let cluster = start_with_widgets(cluster).await;
        assert_eq!(cluster.get(WIDGETS).await.expect(200).json()["items"], json!([]));
        cluster.stop().await;
    });
}

/// The clean-up writes objects in their stored form. A later write without changes must find no difference.
#[test]
fn a_write_that_changes_nothing_after_the_clean_up_is_not_stored() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let mut object = widget("w", &json!({}));
        object["metadata"]["finalizers"] = json!(["example.com/wait"]);
        let _ = cluster.post(WIDGETS, object.to_string()).await.expect(201);
        let _ = cluster.delete(&format!("{CRDS}/widgets.example.com")).await.expect(200);
        let path = format!("{WIDGETS}/w");
        let terminating = loop {
            let found = cluster.get(&path).await.expect(200).json();
            if found["metadata"].get("deletionTimestamp").is_some() {
                break found;
            }
        };
        for _ in 0..3 {
            let patched = cluster.patch(&path, "merge", "{}").await.expect(200).json();
            assert_eq!(patched["metadata"]["resourceVersion"], terminating["metadata"]["resourceVersion"]);
        }
        let _ = cluster.patch(&path, "merge", r#"{"metadata": {"finalizers": null}}"#).await.expect(200);
        cluster.stop().await;
    });
}

/// In upstream, a request keeps the storage that it found until its end.
#[test]
fn requests_that_began_before_a_crd_was_gone_see_no_error_of_the_server() {
    pintle_integration::run(async {
        let mut cluster = Cluster::start().await;
        let path = format!("{CRDS}/widgets.example.com");
        for _ in 0..10 {
            cluster = start_with_widgets(cluster).await;
            let read = async |path: String| loop {
                let status = cluster.get(&path).await.status;
                assert!(status == 200 || status == 404, "{path}: {status}");
                if status == 404 && cluster.get(CRDS).await.expect(200).json()["items"] == json!([]) {
                    break;
                }
            };
            let list = || read(WIDGETS.to_owned());
            let _ = cluster.post(WIDGETS, widget("w", &json!({})).to_string()).await.expect(201);
            let delete = async { cluster.delete(&path).await.expect(200) };
            let _ = tokio::join!(
                delete,
                list(),
                list(),
                list(),
                read(format!("{WIDGETS}/w")),
                read(format!("{WIDGETS}/w"))
            );
        }
        cluster.stop().await;
    });
}

/// Upstream closes the buffer of a watcher only after its last event, so a slow client misses nothing.
#[test]
fn a_slow_watch_gets_every_event_before_it_ends_with_its_kind() {
    pintle_integration::run(async {
        // This is more than the connection can buffer.
        const OBJECTS: usize = 48;
        let cluster = start_with_widgets(Cluster::start().await).await;
        let revision = cluster.get(WIDGETS).await.expect(200).json()["metadata"]["resourceVersion"].clone();
        let revision = revision.as_str().expect("a revision");
        let slow = async |query: &str| cluster.watch(&format!("{WIDGETS}?watch=1&{query}")).await;
        let mut watch = slow(&format!("resourceVersion={revision}")).await;
        let large = "x".repeat(1 << 19);
        for i in 0..OBJECTS {
            let mut object = widget(&format!("w{i:02}"), &json!({}));
            object["metadata"]["managedFields"] = json!([{}]);
            object["spec"]["parts"] = json!([{"name": large}]);
            let _ = cluster.post(WIDGETS, object.to_string()).await.expect(201);
        }
        let mut initial = slow("sendInitialEvents=true&resourceVersionMatch=NotOlderThan").await;
        let path = format!("{CRDS}/widgets.example.com");
        let _ = cluster.delete(&path).await.expect(200);
        cluster.get_until_status(&path, 404).await;

        for watch in [&mut watch, &mut initial] {
            for i in 0..OBJECTS {
                watch.expect("ADDED", &format!("w{i:02}")).await;
            }
            let mut deleted = HashSet::new();
            while let Some(event) = watch.next().await {
                assert_eq!(event["type"], "DELETED");
                deleted.insert(event["object"]["metadata"]["name"].to_string());
            }
            assert_eq!(deleted.len(), OBJECTS);
        }
        cluster.stop().await;
    });
}

#[test]
fn crds_and_objects_survive_a_restart() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::durable().await).await;
        let created =
            cluster.post(WIDGETS, widget("a", &json!({"colour": "red"})).to_string()).await.expect(201).json();
        let changed = r#"{"spec": {"colour": "green"}}"#;
        let _ = cluster.patch(&format!("{WIDGETS}/a"), "merge", changed).await.expect(200);
        let before = cluster.get(&format!("{WIDGETS}/a")).await.expect(200).text();
        let cluster = cluster.restart().await;
        assert_eq!(cluster.get(&format!("{WIDGETS}/a")).await.expect(200).text(), before);
        let revision = created["metadata"]["resourceVersion"].as_str().expect("a revision");
        let mut watch = cluster.watch(&format!("{WIDGETS}?watch=1&resourceVersion={revision}")).await;
        assert_eq!(watch.expect("MODIFIED", "a").await["spec"]["colour"], "green");
        cluster.stop().await;
    });
}

#[test]
fn a_changed_schema_takes_effect() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let path = format!("{CRDS}/widgets.example.com");
        let more = json!([{
            "op": "add",
            "path": "/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties/weight",
            "value": {"type": "integer", "default": 7},
        }]);
        let _ = cluster.patch(&path, "json", more.to_string()).await.expect(200);
        let mut generated = widget("", &json!({}));
        generated["metadata"] = json!({"generateName": "w-"});
        loop {
            let created = cluster.post(WIDGETS, generated.to_string()).await.expect(201).json();
            if created["spec"]["weight"] == 7 {
                break;
            }
        }
        cluster.stop().await;
    });
}

#[test]
fn deletion_of_a_crd_of_a_built_in_kind_keeps_its_objects() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
        let lease = r#"{"metadata": {"name": "held"}, "spec": {"holderIdentity": "me"}}"#;
        let _ = cluster.post(leases, lease).await.expect(201);
        let mut crd = widget_crd();
        crd["metadata"] = json!({
            "name": "leases.coordination.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        });
        crd["spec"]["group"] = json!("coordination.k8s.io");
        crd["spec"]["names"] = json!({"plural": "leases", "kind": "Lease"});
        let _ = cluster.post(CRDS, crd.to_string()).await.expect(201);
        wait_for_condition(&cluster, "leases.coordination.k8s.io", "NamesAccepted", "True").await;
        // The server serves the built-in kind, not the CRD's.
        let refused = r#"{"metadata": {"name": "other"}, "spec": {"colour": "red"}}"#;
        let _ = cluster.post(&format!("{leases}?fieldValidation=Strict"), refused).await.expect(400);
        let path = format!("{CRDS}/leases.coordination.k8s.io");
        let _ = cluster.delete(&path).await.expect(200);
        cluster.get_until_status(&path, 404).await;
        assert_eq!(cluster.get(&format!("{leases}/held")).await.expect(200).json()["spec"]["holderIdentity"], "me");
        cluster.stop().await;
    });
}

/// Upstream establishes such a CRD, but routes requests for the group to the server of the built-in kinds.
#[test]
fn a_crd_of_a_built_in_group_is_not_served() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        for version in ["v1", "v7"] {
            let groups = cluster.get("/apis").await.expect(200).text();
            let resources = cluster.get("/apis/coordination.k8s.io/v1").await.expect(200).text();
            let mut crd = widget_crd();
            crd["metadata"] = json!({
                "name": "widgets.coordination.k8s.io",
                "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
            });
            crd["spec"]["group"] = json!("coordination.k8s.io");
            crd["spec"]["versions"].as_array_mut().expect("versions").truncate(1);
            crd["spec"]["versions"][0]["name"] = json!(version);
            crd["spec"]["versions"][0]["storage"] = json!(true);
            let _ = cluster.post(CRDS, crd.to_string()).await.expect(201);
            wait_for_condition(&cluster, "widgets.coordination.k8s.io", "Established", "True").await;
            for path in [
                format!("/apis/coordination.k8s.io/{version}/namespaces/default/widgets"),
                format!("/apis/coordination.k8s.io/{version}/widgets"),
            ] {
                let _ = cluster.get(&path).await.expect(404);
            }
            assert_eq!(cluster.get("/apis").await.expect(200).text(), groups);
            assert_eq!(cluster.get("/apis/coordination.k8s.io/v1").await.expect(200).text(), resources);
            let _ = cluster.get("/apis/coordination.k8s.io/v1/leases").await.expect(200);
            let path = format!("{CRDS}/widgets.coordination.k8s.io");
            let _ = cluster.delete(&path).await.expect(200);
            cluster.get_until_status(&path, 404).await;
        }
        cluster.stop().await;
    });
}

/// Waits until a condition has a reason, and returns the CRD.
async fn wait_for_reason(cluster: &Cluster, name: &str, condition: &str, reason: &str) -> Value {
    let path = format!("{CRDS}?watch=1&resourceVersion=0&fieldSelector=metadata.name%3D{name}");
    let mut watch = cluster.watch(&path).await;
    loop {
        let event = watch.next().await.expect("an event");
        let conditions = event["object"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|c| c["type"] == condition && c["reason"] == reason) {
            return event["object"].clone();
        }
    }
}

/// The status and reason of each condition.
fn conditions(crd: &Value) -> Vec<String> {
    let conditions = crd["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |condition: &Value| {
        ["type", "status", "reason"].map(|key| condition[key].as_str().unwrap_or_default()).join(" ")
    };
    conditions.iter().map(text).collect()
}

/// Upstream's controllers make one update each.
#[test]
fn a_crd_is_written_once_for_each_step() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let mut watch = cluster.watch(&format!("{CRDS}?watch=1")).await;
        let cluster = start_with_widgets(cluster).await;
        let _ = cluster.delete(&format!("{CRDS}/widgets.example.com")).await.expect(200);
        let names = "NamesAccepted True NoConflicts";
        let established = "Established True InitialNamesAccepted";
        let pending = "Terminating True InstanceDeletionPending";
        let in_progress = "Terminating True InstanceDeletionInProgress";
        for (kind, expect) in [
            ("ADDED", vec![]),
            ("MODIFIED", vec![names, "Established False Installing"]),
            ("MODIFIED", vec![names, established]),
            ("MODIFIED", vec![names, established, pending]),
            ("MODIFIED", vec![names, established, in_progress]),
            // The last update removes the finalizer, so it is the deletion.
            ("DELETED", vec![names, established, in_progress]),
        ] {
            let event = watch.next().await.expect("an event");
            assert_eq!(
                (event["type"].as_str(), conditions(&event["object"])),
                (Some(kind), expect.iter().map(|c| (*c).to_owned()).collect())
            );
        }
        cluster.stop().await;
    });
}

/// A CRD with another finalizer shows the end of the deletion of its objects.
#[test]
fn the_clean_up_removes_its_finalizer_together_with_its_last_condition() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let path = format!("{CRDS}/widgets.example.com");
        let hold = r#"{"metadata": {"finalizers": ["example.com/hold"]}}"#;
        let held = cluster.patch(&path, "merge", hold).await.expect(200).json();
        let revision = held["metadata"]["resourceVersion"].as_str().expect("a revision");
        let mut watch = cluster.watch(&format!("{CRDS}?watch=1&resourceVersion={revision}")).await;
        let _ = cluster.delete(&path).await.expect(200);
        for reason in ["InstanceDeletionPending", "InstanceDeletionInProgress", "InstanceDeletionCompleted"] {
            let event = watch.expect("MODIFIED", "widgets.example.com").await;
            assert_eq!(event["status"]["conditions"][2]["reason"], reason);
            let finalizers = event["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
            assert_eq!(finalizers, if reason == "InstanceDeletionCompleted" { 1 } else { 2 });
        }
        // An object that is created now would remain after the deletion of the CRD.
        let _ = cluster.post(WIDGETS, widget("a", &json!({})).to_string()).await.expect(403);
        let _ = cluster.patch(&path, "merge", r#"{"metadata": {"finalizers": null}}"#).await.expect(200);
        watch.expect("DELETED", "widgets.example.com").await;
        cluster.stop().await;
    });
}

#[test]
fn a_crd_with_an_invalid_ca_bundle_is_neither_established_nor_resolved() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let mut crd = widget_crd();
        crd["spec"]["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"url": "https://127.0.0.1:1/", "caBundle": "bm8gcGVt"},
                "conversionReviewVersions": ["v1"],
            },
        });
        let _ = cluster.post(CRDS, crd.to_string()).await.expect(201);
        let invalid = wait_for_reason(&cluster, "widgets.example.com", "Established", "InvalidCABundle").await;
        let expect = ["NamesAccepted True NoConflicts", "Established False InvalidCABundle"];
        assert_eq!(conditions(&invalid), expect);
        assert_eq!(invalid["status"]["conditions"][1]["message"], "The conversion webhook CABundle is invalid");
        let refused = cluster.post(WIDGETS, widget("a", &json!({})).to_string()).await.expect(500);
        assert_eq!(refused.json()["message"], "Internal error occurred: error resolving resource");
        let _ = cluster.get(WIDGETS).await.expect(500);
        // As in upstream, discovery shows only established CRDs.
        let _ = cluster.get("/apis/example.com").await.expect(404);
        let _ = cluster.get("/apis/example.com/v1").await.expect(404);
        let _ = cluster.get("/openapi/v3/apis/example.com/v1").await.expect(404);
        assert!(!cluster.get("/apis").await.expect(200).text().contains("example.com"));
        let mended = r#"{"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": null}}}}}"#;
        let path = format!("{CRDS}/widgets.example.com");
        let _ = cluster.patch(&path, "merge", mended).await.expect(200);
        let established = wait_for_condition(&cluster, "widgets.example.com", "Established", "True").await;
        assert_eq!(established["status"]["conditions"][1]["reason"], "InitialNamesAccepted");
        let _ = cluster.post(WIDGETS, widget("a", &json!({})).to_string()).await.expect(201);
        let _ = cluster.get("/apis/example.com/v1").await.expect(200);
        let _ = cluster.get("/openapi/v3/apis/example.com/v1").await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn crds_of_protected_groups_report_their_api_approval() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let annotations = |text: &str| json!({"annotations": {"api-approved.kubernetes.io": text}});
        let mut crd = widget_crd();
        crd["metadata"] = annotations("unapproved, for a test");
        crd["metadata"]["name"] = json!("widgets.example.k8s.io");
        crd["spec"]["group"] = json!("example.k8s.io");
        let _ = cluster.post(CRDS, crd.to_string()).await.expect(201);
        let name = "widgets.example.k8s.io";
        let established = wait_for_condition(&cluster, name, "Established", "True").await;
        let approval = |crd: &Value| {
            let all = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = all.into_iter().find(|c| c["type"] == "KubernetesAPIApprovalPolicyConformant");
            let found = found.expect("a condition");
            ["status", "reason", "message"].map(|key| found[key].as_str().unwrap_or_default().to_owned())
        };
        let message = "not approved: \"unapproved, for a test\"";
        assert_eq!(approval(&established), ["False", "UnapprovedAnnotation", message]);
        let path = format!("{CRDS}/{name}");
        let approved = json!({"metadata": annotations("https://example.com/1")});
        let _ = cluster.patch(&path, "merge", approved.to_string()).await.expect(200);
        let kind = "KubernetesAPIApprovalPolicyConformant";
        let approved = wait_for_condition(&cluster, name, kind, "True").await;
        let message = "approved in https://example.com/1";
        assert_eq!(approval(&approved), ["True", "ApprovedAnnotation", message]);
        cluster.stop().await;
    });
}

#[test]
fn a_crd_needs_the_name_of_its_plural_and_group() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let causes = async |metadata: Value| {
            let mut crd = widget_crd();
            crd["metadata"] = metadata;
            let status = cluster.post(CRDS, crd.to_string()).await.expect(422).json();
            let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
            let text = |cause: &Value| ["field", "reason"].map(|key| cause[key].as_str().unwrap_or_default()).join(" ");
            causes.iter().map(text).collect::<Vec<_>>()
        };
        let name = "metadata.name FieldValueInvalid";
        assert_eq!(causes(json!({})).await, ["metadata.name FieldValueRequired"]);
        assert_eq!(causes(json!({"name": "other"})).await, [name]);
        assert_eq!(causes(json!({"generateName": "w-"})).await, ["metadata.generateName FieldValueInvalid", name]);
        // Errors of the name come before errors of other metadata.
        let labels = json!({"generateName": "W", "labels": {"": ""}});
        let generate_name = "metadata.generateName FieldValueInvalid";
        let labels_cause = "metadata.labels FieldValueInvalid";
        let expect = [generate_name, generate_name, name, name, labels_cause, labels_cause];
        assert_eq!(causes(labels).await, expect);
        cluster.stop().await;
    });
}

#[test]
fn the_default_deprecation_warning_names_the_replacement() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let mut crd = widget_crd();
        let versions = crd["spec"]["versions"].as_array_mut().expect("versions");
        let version = versions[0].clone();
        for (name, served, deprecated, warning) in [
            ("v1alpha1", true, true, Value::Null),
            ("v2", true, true, Value::Null),
            ("v3", false, false, Value::Null),
            ("v1beta2", true, false, Value::Null),
            ("v0", true, true, json!("going away")),
        ] {
            let mut version = version.clone();
            version["name"] = json!(name);
            (version["served"], version["deprecated"]) = (json!(served), json!(deprecated));
            version["deprecationWarning"] = warning;
            versions.push(version);
        }
        let _ = cluster.post(CRDS, crd.to_string()).await.expect(201);
        wait_for_condition(&cluster, "widgets.example.com", "Established", "True").await;
        for (version, expect) in [
            ("v1", ""),
            ("v1beta1", ""),
            ("v1alpha1", "299 - \"example.com/v1alpha1 Widget is deprecated; use example.com/v1 Widget\""),
            ("v2", "299 - \"example.com/v2 Widget is deprecated\""),
            ("v0", "299 - \"going away\""),
        ] {
            let response = cluster.get(&format!("/apis/example.com/{version}/widgets")).await.expect(200);
            assert_eq!(response.header("warning"), expect, "{version}");
        }
        cluster.stop().await;
    });
}

/// Upstream decodes and encodes defaults with each conversion: `-0.0` becomes `-0`, and `-0` becomes the integer 0.
#[test]
fn a_default_of_negative_zero_becomes_zero() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let mut crd = widget_crd().to_string();
        crd = crd.replace(r#""default":1"#, r#""default":-0.0,"example":{"a":-0e1}"#);
        let created = cluster.post(CRDS, crd).await.expect(201).text();
        assert!(created.contains(r#""default":0"#) && created.contains(r#""example":{"a":0}"#), "{created}");
        wait_for_condition(&cluster, "widgets.example.com", "Established", "True").await;
        let created = cluster.post(WIDGETS, widget("a", &json!({})).to_string()).await.expect(201).text();
        assert!(created.contains(r#""replicas":0}"#), "{created}");
        cluster.stop().await;
    });
}
