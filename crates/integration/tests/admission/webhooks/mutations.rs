//! Changes by mutating webhooks.

use pintle_integration::{Cluster, run};
use serde_json::{Value, json};

use super::webhook::{Behavior, MUTATING, VALIDATING, Webhook, allow, configure, patch, rule};
use super::{CONFIGMAPS, config_map};

async fn start(behavior: Behavior) -> (Cluster, Webhook) {
    let cluster = Cluster::start().await;
    let webhook = Webhook::start(behavior).await;
    let rules = [rule(&["*"], &["configmaps", "pods", "services"])];
    configure(&cluster, MUTATING, "m", &[webhook.configured("m.example.com", &rules, &json!({}))]).await;
    (cluster, webhook)
}

/// A patch that sets a key of the data.
fn set_data(key: &str, value: &str) -> Value {
    patch(&json!([{"op": "add", "path": format!("/data/{key}"), "value": value}]))
}

#[test]
fn what_a_webhook_adds_is_in_nobodys_managed_fields() {
    run(async {
        let (cluster, _webhook) = start(Behavior::With(set_data("b", "2"))).await;
        let created = cluster.post(CONFIGMAPS, config_map("c")).await.expect(201).json();
        assert_eq!(created["data"], json!({"a": "1", "b": "2"}));
        let fields = created["metadata"]["managedFields"].to_string();
        assert!(fields.contains("f:a") && !fields.contains("f:b"), "{fields}");
        let configuration =
            r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}, "data": {"a": "1"}}"#;
        let path = format!("{CONFIGMAPS}/d?fieldManager=m");
        let apply = cluster.request("PATCH", &path).body("application/apply-patch+yaml", configuration);
        let applied = apply.send().await.expect(201).json();
        assert_eq!(applied["data"], json!({"a": "1", "b": "2"}));
        let fields = applied["metadata"]["managedFields"].to_string();
        assert!(fields.contains("f:a") && !fields.contains("f:b"), "{fields}");
        cluster.stop().await;
    });
}

#[test]
fn a_patched_object_gets_its_defaults_and_is_validated() {
    run(async {
        let (cluster, webhook) = start(Behavior::With(patch(&json!([
            {"op": "add", "path": "/spec/containers/-", "value": {"name": "sidecar", "image": "s", "unknown": true}}]))))
        .await;
        let pods = "/api/v1/namespaces/default/pods";
        let pod = |name: &str| {
            json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}).to_string()
        };
        let created = cluster.post(pods, pod("p")).await.expect(201).json();
        let sidecar = &created["spec"]["containers"][1];
        assert_eq!((&sidecar["imagePullPolicy"], &sidecar["unknown"]), (&json!("Always"), &Value::Null), "{sidecar}");
        webhook.set(Behavior::With(patch(&json!([{"op": "replace", "path": "/spec/containers", "value": []}]))));
        cluster.post(pods, pod("q")).await.expect_error(
            422,
            "Invalid",
            "Pod \"q\" is invalid: spec.containers: Required value",
        );
        webhook.set(Behavior::With(patch(&json!([{"op": "replace", "path": "/spec/containers", "value": "x"}]))));
        let error = cluster.post(pods, pod("q")).await.expect(500).json();
        let message = error["message"].as_str().unwrap_or_default();
        assert!(
            message.starts_with("Internal error occurred: json: cannot unmarshal string into Go struct field"),
            "{error}"
        );
        webhook.set(Behavior::With(patch(&json!([{"op": "remove", "path": "/spec/nothing"}]))));
        cluster.post(pods, pod("q")).await.expect_error(
            500,
            "InternalError",
            "Internal error occurred: error in remove for path: '/spec/nothing': Unable to remove nonexistent key: nothing: \
             missing value",
        );
        cluster.stop().await;
    });
}

#[test]
fn a_delete_cannot_be_patched() {
    run(async {
        let (cluster, webhook) = start(Behavior::Respond(allow)).await;
        let _ = cluster.post(CONFIGMAPS, config_map("c")).await.expect(201);
        webhook.set(Behavior::With(set_data("b", "2")));
        cluster.delete(&format!("{CONFIGMAPS}/c")).await.expect_error(
            500,
            "InternalError",
            "Internal error occurred: admission webhook \"m.example.com\" attempted to modify the object, which is not \
             supported for this operation",
        );
        cluster.stop().await;
    });
}

#[test]
fn broken_managed_fields_are_as_before_and_warned_about() {
    run(async {
        let fields = json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{"manager": "x", "operation": "Nothing"}]}]);
        let (cluster, _webhook) = start(Behavior::With(patch(&fields))).await;
        let response = cluster.post(&format!("{CONFIGMAPS}?fieldManager=m"), config_map("c")).await.expect(201);
        let warning = response.header("warning").to_owned();
        assert!(warning.contains(".metadata.managedFields was in an invalid state after admission"), "{warning}");
        assert_eq!(response.json()["metadata"]["managedFields"][0]["manager"], "m");
        cluster.stop().await;
    });
}

/// Adds a step to the list in `data.steps`.
fn add_step(request: &Value, step: &str) -> Value {
    let steps = request["object"]["data"]["steps"].as_str().unwrap_or_default();
    patch(&json!([{"op": "add", "path": "/data/steps", "value": format!("{steps}{step}")}]))
}

#[test]
fn webhooks_run_in_order_and_again_if_they_ask_for_it() {
    run(async {
        let cluster = Cluster::start().await;
        let first = Webhook::start(Behavior::Respond(|request| add_step(request, "1"))).await;
        let second = Webhook::start(Behavior::Respond(|request| add_step(request, "2"))).await;
        let third = Webhook::start(Behavior::Respond(|request| add_step(request, "3"))).await;
        let rules = [rule(&["CREATE"], &["configmaps"])];
        let again = json!({"reinvocationPolicy": "IfNeeded"});
        configure(
            &cluster,
            MUTATING,
            "b",
            &[
                second.configured("second.example.com", &rules, &json!({})),
                third.configured("third.example.com", &rules, &again),
            ],
        )
        .await;
        configure(&cluster, MUTATING, "a", &[first.configured("first.example.com", &rules, &again)]).await;
        let create = async |name: &str| {
            cluster.post(CONFIGMAPS, config_map(name)).await.expect(201).json()["data"]["steps"].clone()
        };
        // The first webhook sees the changes of the others in its second call, and the third webhook sees the first's
        // second change. There is no third round.
        assert_eq!(create("a").await, "12313");
        assert_eq!([&first, &second, &third].map(|webhook| webhook.take().len()), [2, 1, 2]);
        // No webhook changes the object after the first one.
        second.set(Behavior::Respond(allow));
        third.set(Behavior::Respond(allow));
        assert_eq!(create("b").await, "1");
        assert_eq!([&first, &second, &third].map(|webhook| webhook.take().len()), [1, 1, 1]);
        cluster.stop().await;
    });
}

#[test]
fn built_in_plugins_run_again_after_a_change() {
    run(async {
        let (cluster, webhook) = start(Behavior::With(patch(&json!([
            {"op": "add", "path": "/spec/priorityClassName", "value": "system-node-critical"},
            {"op": "remove", "path": "/spec/priority"}]))))
        .await;
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}).to_string();
        let created = cluster.post("/api/v1/namespaces/default/pods", pod).await;
        let created = created.json();
        assert_eq!(created["spec"]["priority"], 2_000_001_000_i64, "{created}");
        assert_eq!(webhook.take().len(), 1);
        cluster.stop().await;
    });
}

#[test]
fn validating_webhooks_see_the_result_of_mutating_ones() {
    run(async {
        let (cluster, _webhook) = start(Behavior::With(set_data("b", "2"))).await;
        let validating = Webhook::start(Behavior::Respond(allow)).await;
        let rules = [rule(&["*"], &["configmaps"])];
        configure(&cluster, VALIDATING, "v", &[validating.configured("v.example.com", &rules, &json!({}))]).await;
        let _ = cluster.post(CONFIGMAPS, config_map("c")).await.expect(201);
        assert_eq!(validating.last().1["request"]["object"]["data"], json!({"a": "1", "b": "2"}));
        cluster.stop().await;
    });
}

#[test]
fn webhooks_see_the_old_and_the_new_object_of_an_update() {
    run(async {
        let cluster = Cluster::start().await;
        let webhook = Webhook::start(Behavior::Respond(allow)).await;
        let rules = [rule(&["UPDATE"], &["nodes"])];
        configure(&cluster, VALIDATING, "v", &[webhook.configured("v.example.com", &rules, &json!({}))]).await;
        let node = |label: &str, cidr: &str| {
            json!({"metadata": {"name": "n", "labels": {"l": label}}, "spec": {"podCIDR": cidr}}).to_string()
        };
        let _ = cluster.post("/api/v1/nodes", node("old", "")).await.expect(201);
        let _ = cluster.put("/api/v1/nodes/n", node("new", "10.1.0.0/24")).await.expect(200);
        let request = &webhook.last().1["request"];
        for (field, label, cidr) in [("oldObject", "old", Value::Null), ("object", "new", json!("10.1.0.0/24"))] {
            let seen = &request[field];
            assert_eq!((&seen["metadata"]["labels"]["l"], &seen["spec"]["podCIDR"]), (&json!(label), &cidr), "{field}");
        }
        cluster.stop().await;
    });
}

#[test]
fn a_webhook_cannot_move_an_object_and_its_name_in_reviews_is_the_given_one() {
    run(async {
        let (cluster, webhook) = start(Behavior::Respond(allow)).await;
        let validating = Webhook::start(Behavior::Respond(allow)).await;
        let rules = [rule(&["*"], &["configmaps"])];
        configure(&cluster, VALIDATING, "v", &[validating.configured("v.example.com", &rules, &json!({}))]).await;
        let replace =
            |path: &str, value: &str| Behavior::With(patch(&json!([{"op": "add", "path": path, "value": value}])));
        webhook.set(replace("/metadata/name", "other"));
        let created = cluster.post(CONFIGMAPS, config_map("c")).await.expect(201).json();
        assert_eq!(created["metadata"]["name"], "other");
        let seen = validating.last().1["request"].clone();
        assert_eq!((&seen["name"], &seen["object"]["metadata"]["name"]), (&json!("c"), &json!("other")));
        let _ = cluster
            .put(&format!("{CONFIGMAPS}/other"), config_map("other").replace("\"1\"", "\"2\""))
            .await
            .expect(200);
        webhook.set(replace("/metadata/name", "third"));
        let error = cluster.put(&format!("{CONFIGMAPS}/other"), config_map("other")).await.expect(422).json();
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("ConfigMap \"third\" is invalid: metadata.name: Invalid value"), "{error}");
        webhook.set(replace("/metadata/namespace", "kube-system"));
        let create = cluster.post(CONFIGMAPS, config_map("d")).await;
        let update = cluster.put(&format!("{CONFIGMAPS}/other"), config_map("other")).await;
        for response in [create, update] {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            response.expect_error(400, "BadRequest", why);
        }
        cluster.stop().await;
    });
}

#[test]
fn a_mutating_webhook_sees_an_update_as_the_client_has_sent_it() {
    run(async {
        let (cluster, webhook) = start(Behavior::Respond(allow)).await;
        let path = format!("{CONFIGMAPS}/c");
        let _ = cluster.post(CONFIGMAPS, config_map("c")).await.expect(201);
        let _ = cluster.put(&path, config_map("c")).await.expect(200);
        let request = webhook.last().1["request"].clone();
        let (object, old) = (&request["object"]["metadata"], &request["oldObject"]["metadata"]);
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            assert_eq!((&object[field], old[field].is_string()), (&Value::Null, true), "{field} of {request}");
        }
        cluster.stop().await;
    });
}

#[test]
fn bindings_and_reviews_are_checked_between_the_phases() {
    run(async {
        let cluster = Cluster::start().await;
        let pods = "/api/v1/namespaces/default/pods";
        for name in ["p", "q"] {
            let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
            let _ = cluster.post(pods, pod.to_string()).await.expect(201);
        }
        let set =
            |path: &str, value: Value| Behavior::With(patch(&json!([{"op": "add", "path": path, "value": value}])));
        let mutating = Webhook::start(set("/metadata/name", json!("q"))).await;
        let validating = Webhook::start(Behavior::Respond(allow)).await;
        let rules = [rule(&["*"], &["pods/binding", "subjectaccessreviews", "tokenreviews"])];
        configure(&cluster, MUTATING, "m", &[mutating.configured("m.example.com", &rules, &json!({}))]).await;
        configure(&cluster, VALIDATING, "v", &[validating.configured("v.example.com", &rules, &json!({}))]).await;
        let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}).to_string();
        let bind = || cluster.post("/api/v1/namespaces/default/pods/p/binding", binding.clone());
        let other_name = "name in URL does not match name in Binding object";
        bind().await.expect_error(400, "BadRequest", other_name);
        mutating.set(set("/target/name", json!("")));
        let refused = bind().await.expect(500).json();
        assert_eq!(refused["message"], "target.name: Required value");
        let review = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        mutating.set(set("/spec/user", json!("")));
        let spec = json!({"spec": {"user": "u", "nonResourceAttributes": {"path": "/", "verb": "get"}}}).to_string();
        let _ = cluster.post(review, spec.clone()).await.expect(422);
        mutating.set(set("/spec/token", json!("")));
        let token = json!({"spec": {"token": "t"}}).to_string();
        let _ = cluster.post("/apis/authentication.k8s.io/v1/tokenreviews", token).await.expect(400);
        assert_eq!((mutating.take().len(), validating.take()), (4, Vec::new()));
        for name in ["p", "q"] {
            let pod = cluster.get(&format!("{pods}/{name}")).await.expect(200).json();
            assert_eq!(pod["spec"]["nodeName"], Value::Null);
        }
        mutating.set(Behavior::Respond(allow));
        let _ = bind().await.expect(201);
        let _ = cluster.post(review, spec).await.expect(201);
        assert_eq!(validating.take().len(), 2);
        cluster.stop().await;
    });
}

/// The server compares the objects before and after the patch, before it sets defaults.
#[test]
fn a_patch_that_removes_a_default_is_a_change() {
    run(async {
        let cluster = Cluster::start().await;
        let first = Webhook::start(Behavior::Respond(allow)).await;
        let path = "/spec/containers/0/terminationMessagePath";
        let second = Webhook::start(Behavior::With(patch(&json!([{"op": "remove", "path": path}])))).await;
        let rules = [rule(&["*"], &["pods"])];
        let reinvoked = first.configured("a.example.com", &rules, &json!({"reinvocationPolicy": "IfNeeded"}));
        let webhooks = [reinvoked, second.configured("b.example.com", &rules, &json!({}))];
        configure(&cluster, MUTATING, "m", &webhooks).await;
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let created = cluster.post("/api/v1/namespaces/default/pods", pod.to_string()).await.expect(201).json();
        assert_eq!(created["spec"]["containers"][0]["terminationMessagePath"], "/dev/termination-log");
        assert_eq!((first.take().len(), second.take().len()), (2, 1));
        cluster.stop().await;
    });
}
