//! Deletecollection accepts the same list options as a list.

use pintle_integration::{Cluster, Options, Response, advance_clock_until, manual_clock};
use serde_json::json;

use super::{CONFIGMAPS, cluster, cluster_without_history, configmap, continue_token, create, list, names, revision};

/// Creates ConfigMaps and returns the revision of the last write.
async fn create_configmaps(cluster: &Cluster, names: &[&str]) -> u64 {
    let mut last = 0;
    for name in names {
        last = create(cluster, CONFIGMAPS, configmap(name)).await;
    }
    last
}

/// Deletes the objects that a query selects. Without a body, the resourceVersion would also be a precondition of each
/// object.
async fn delete(cluster: &Cluster, query: &str) -> Response {
    cluster.request("DELETE", &format!("{CONFIGMAPS}?{query}")).json("{}").send().await
}

#[test]
fn deletecollection_deletes_the_objects_of_a_list() {
    pintle_integration::run(async {
        let cluster = cluster(Options::default()).await;
        for (query, deleted, remaining) in [
            ("", "a b c", ""),
            ("limit=2", "a b", "c"),
            ("limit=-1", "a b c", ""),
            ("limit=2&resourceVersion=0", "a b c", ""),
            ("fieldSelector=metadata.name%3Db", "b", "a c"),
            ("fieldSelector=metadata.name!%3Db", "a c", "b"),
            ("resourceVersion=0", "a b c", ""),
        ] {
            let _ = cluster.delete(CONFIGMAPS).await.expect(200);
            create_configmaps(&cluster, &["a", "b", "c"]).await;
            let response = delete(&cluster, query).await.expect(200).json();
            assert_eq!(names(&response), deleted, "{query}");
            assert_eq!(names(&list(&cluster, CONFIGMAPS, "").await), remaining, "{query}");
            assert_eq!(response["kind"], "ConfigMapList");
        }
    });
}

#[test]
fn deletecollection_accepts_a_resource_version_and_continue_token() {
    pintle_integration::run(async {
        let cluster = cluster(Options::default()).await;
        let at = create_configmaps(&cluster, &["a", "b"]).await;
        create_configmaps(&cluster, &["c"]).await;
        // Upstream lists in chunks, and a chunk with a resourceVersion shows exactly that revision.
        let response = delete(&cluster, &format!("resourceVersion={at}")).await.expect(200).json();
        assert_eq!((names(&response).as_str(), revision(&response)), ("a b", at));
        assert_eq!(names(&list(&cluster, CONFIGMAPS, "").await), "c");

        create_configmaps(&cluster, &["a", "b"]).await;
        let chunk = cluster.delete(&format!("{CONFIGMAPS}?limit=1")).await.expect(200).json();
        assert_eq!((names(&chunk).as_str(), &chunk["metadata"]["remainingItemCount"]), ("a", &json!(2)));
        let rest =
            cluster.delete(&format!("{CONFIGMAPS}?continue={}", continue_token(&chunk))).await.expect(200).json();
        assert_eq!((names(&rest).as_str(), revision(&rest)), ("b c", revision(&chunk)));
        assert_eq!(names(&list(&cluster, CONFIGMAPS, "").await), "");
    });
}

#[test]
fn rejected_deletecollections_delete_nothing() {
    pintle_integration::run(async {
        let clock = manual_clock();
        let cluster = cluster_without_history(Options { clock: clock.clone(), ..Options::default() }).await;
        let old = create_configmaps(&cluster, &["a"]).await;
        let now = create_configmaps(&cluster, &["b", "c"]).await;
        let exact = format!("{CONFIGMAPS}?resourceVersion={old}&resourceVersionMatch=Exact");
        cluster.get_until_status(&exact, 410).await;
        for (query, code, reason, message) in [
            (
                format!("resourceVersion={old}&resourceVersionMatch=Exact"),
                410,
                "Expired",
                "The resourceVersion for the provided list is too old.".to_owned(),
            ),
            (
                "resourceVersion=999999".to_owned(),
                504,
                "Timeout",
                format!("Timeout: Too large resource version: 999999, current: {now}"),
            ),
            (
                "resourceVersion=x".to_owned(),
                400,
                "BadRequest",
                "invalid resource version: resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": \
                 invalid syntax"
                    .to_owned(),
            ),
            (
                "continue=e30".to_owned(),
                400,
                "BadRequest",
                "invalid continue token: continue key is not valid: server does not recognize this encoded version "
                    .to_owned(),
            ),
            (
                "sendInitialEvents=true".to_owned(),
                422,
                "Invalid",
                "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden \
                 for list"
                    .to_owned(),
            ),
            (
                "watch=1&sendInitialEvents=true".to_owned(),
                422,
                "Invalid",
                "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires \
                 setting resourceVersionMatch to NotOlderThan"
                    .to_owned(),
            ),
        ] {
            let response = advance_clock_until(&clock, cluster.delete(&format!("{CONFIGMAPS}?{query}"))).await;
            response.expect_error(code, reason, &message);
        }
        assert_eq!(names(&list(&cluster, CONFIGMAPS, "").await), "a b c");
    });
}
