//! Watches with label and field selectors, of a single object, and at the deprecated paths.

use serde_json::json;

use super::{
    CONFIGMAPS, PODS, check, create, current_revision, delete, open_watch, revision, set_color, start_cluster,
};

#[test]
fn objects_that_stop_matching_are_reported_as_deleted() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        let at = current_revision(&cluster).await;
        let mut red =
            open_watch(&cluster, CONFIGMAPS, &format!("resourceVersion={at}&labelSelector=color%3Dred")).await;
        let mut cold =
            open_watch(&cluster, CONFIGMAPS, &format!("resourceVersion={at}&labelSelector=color+in+(blue,green)"))
                .await;
        let a = create(&cluster, "a", "blue").await;
        let red1 = set_color(&cluster, "a", "red").await;
        let patch = r#"{"data": {"more": "yes"}}"#;
        let red2 = revision(&cluster.patch(&format!("{CONFIGMAPS}/a"), "merge", patch).await.expect(200).json());
        let green = set_color(&cluster, "a", "green").await;
        delete(&cluster, "a").await;
        let end = create(&cluster, "end", "red").await;

        check(&mut red, &[format!("ADDED a {red1}"), format!("MODIFIED a {red2}")]).await;
        // The event has the last matching object, with the revision of the change after which it no longer matched.
        let deleted = red.expect("DELETED", "a").await;
        assert_eq!(revision(&deleted), green);
        assert_eq!(deleted["metadata"]["labels"]["color"], "red");
        assert_eq!(deleted["data"], json!({"color": "red", "more": "yes"}));
        check(&mut red, &[format!("ADDED end {end}")]).await;

        check(&mut cold, &[format!("ADDED a {a}")]).await;
        let deleted = cold.expect("DELETED", "a").await;
        assert_eq!((revision(&deleted), &deleted["data"]["color"]), (red1, &json!("blue")));
        check(&mut cold, &[format!("ADDED a {green}")]).await;
        let deleted = cold.expect("DELETED", "a").await;
        assert_eq!((revision(&deleted), &deleted["data"]["color"]), (green + 1, &json!("green")));
    });
}

#[test]
fn field_selectors_filter_events() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        let at = current_revision(&cluster).await;
        let query = |selector: &str| format!("resourceVersion={at}&fieldSelector={}", selector.replace('=', "%3D"));
        let mut node = open_watch(&cluster, "/api/v1/pods", &query("spec.nodeName=node-1")).await;
        let mut unbound = open_watch(&cluster, PODS, &query("spec.nodeName=")).await;
        let mut other = open_watch(&cluster, "/api/v1/pods", &query("spec.nodeName!=node-1,metadata.name=a")).await;
        let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let created = revision(&cluster.post(PODS, pod.to_string()).await.expect(201).json());
        let target = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "node-1"}});
        let _ = cluster.post(&format!("{PODS}/a/binding"), target.to_string()).await.expect(201);
        let bound = revision(&cluster.get(&format!("{PODS}/a")).await.expect(200).json());
        let running = r#"{"status": {"phase": "Running"}}"#;
        let running = cluster.patch(&format!("{PODS}/a/status"), "merge", running).await.expect(200).json();
        check(&mut node, &[format!("ADDED a {bound}"), format!("MODIFIED a {}", revision(&running))]).await;
        for watch in [&mut unbound, &mut other] {
            check(watch, &[format!("ADDED a {created}"), format!("DELETED a {bound}")]).await;
        }
    });
}

#[test]
fn a_single_object_can_be_watched() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        let a = create(&cluster, "a", "red").await;
        create(&cluster, "b", "red").await;
        let mut watches = vec![
            open_watch(&cluster, CONFIGMAPS, "fieldSelector=metadata.name%3Da").await,
            open_watch(&cluster, "/api/v1/configmaps", "fieldSelector=metadata.name%3Da").await,
            cluster.watch("/api/v1/watch/namespaces/n/configmaps/a").await,
        ];
        create(&cluster, "aa", "red").await;
        let blue = set_color(&cluster, "a", "blue").await;
        delete(&cluster, "a").await;
        for watch in &mut watches {
            check(watch, &[format!("ADDED a {a}"), format!("MODIFIED a {blue}"), format!("DELETED a {}", blue + 1)])
                .await;
        }
    });
}

#[test]
fn deprecated_paths_can_be_watched() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        let at = current_revision(&cluster).await;
        let mut watches = vec![
            cluster.watch(&format!("/api/v1/watch/namespaces/n/configmaps?resourceVersion={at}")).await,
            cluster.watch(&format!("/api/v1/watch/configmaps?resourceVersion={at}")).await,
            cluster.watch(&format!("/api/v1/watch/configmaps?watch=false&resourceVersion={at}")).await,
        ];
        let mut namespaces = cluster.watch(&format!("/api/v1/watch/namespaces?resourceVersion={at}")).await;
        let mut namespace = cluster.watch("/api/v1/watch/namespaces/n").await;
        let _ = namespace.expect("ADDED", "n").await;
        let a = create(&cluster, "a", "red").await;
        for watch in &mut watches {
            check(watch, &[format!("ADDED a {a}")]).await;
        }
        let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "o"}}"#).await.expect(201);
        let _ = namespaces.expect("ADDED", "o").await;
    });
}

#[test]
fn the_name_in_a_deprecated_path_must_match_the_field_selector() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        let a = create(&cluster, "a", "red").await;
        let path = "/api/v1/watch/namespaces/n/configmaps/a";
        for selector in [
            "",
            "fieldSelector=",
            "fieldSelector=metadata.name%3Da",
            "fieldSelector=metadata.name%3Da,metadata.namespace%3Dn",
        ] {
            check(&mut cluster.watch(&format!("{path}?{selector}")).await, &[format!("ADDED a {a}")]).await;
        }
        for (selector, message) in [
            ("metadata.name%3Db", "fieldSelector metadata.name doesn't match requested name"),
            ("metadata.name!%3Da", "fieldSelector metadata.name doesn't match requested name"),
            ("metadata.namespace%3Dn", "fieldSelector metadata.name doesn't match requested name"),
            ("data.k%3Da", "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
        ] {
            let response = cluster.get(&format!("{path}?fieldSelector={selector}")).await;
            response.expect_error(400, "BadRequest", message);
        }
    });
}

#[test]
fn a_namespace_can_be_selected_by_its_field() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "o"}}"#).await.expect(201);
        let query = format!("resourceVersion={}&fieldSelector=metadata.namespace", current_revision(&cluster).await);
        let mut inside = open_watch(&cluster, "/api/v1/configmaps", &format!("{query}%3Dn")).await;
        let mut outside = open_watch(&cluster, "/api/v1/configmaps", &format!("{query}!%3Dn")).await;
        let mut one = open_watch(&cluster, "/api/v1/configmaps", &format!("{query}%3Dn,metadata.name%3Db")).await;
        let a = create(&cluster, "a", "red").await;
        let other = cluster.post("/api/v1/namespaces/o/configmaps", r#"{"metadata": {"name": "a"}}"#).await.expect(201);
        let b = create(&cluster, "b", "red").await;
        check(&mut inside, &[format!("ADDED a {a}"), format!("ADDED b {b}")]).await;
        check(&mut outside, &[format!("ADDED a {}", revision(&other.json()))]).await;
        check(&mut one, &[format!("ADDED b {b}")]).await;
    });
}
