//! Deletecollection: what it is about is a list, with the same options.

use pintle_testkit::{Cluster, Options, Response, advance_clock_until, manual_clock};
use serde_json::json;

use crate::{MAPS, cluster, continue_of, forgetful, list, make, map, names, revision};

/// Makes objects and says the revision of the last.
async fn fill(cluster: &Cluster, names: &[&str]) -> u64 {
    let mut last = 0;
    for name in names {
        last = make(cluster, MAPS, map(name)).await;
    }
    last
}

/// Deletes what a query selects. Without a body its resourceVersion would be a precondition of each object, too.
async fn delete(cluster: &Cluster, query: &str) -> Response {
    cluster.request("DELETE", &format!("{MAPS}?{query}")).json("{}").send().await
}

#[test]
fn what_is_deleted_is_selected_as_for_a_list() {
    pintle_testkit::run(async {
        let cluster = cluster(Options::default()).await;
        for (query, deleted, left) in [
            ("", "a b c", ""),
            ("limit=2", "a b", "c"),
            ("limit=-1", "a b c", ""),
            ("limit=2&resourceVersion=0", "a b c", ""),
            ("fieldSelector=metadata.name%3Db", "b", "a c"),
            ("fieldSelector=metadata.name!%3Db", "a c", "b"),
            ("resourceVersion=0", "a b c", ""),
        ] {
            let _ = cluster.delete(MAPS).await.expect(200);
            fill(&cluster, &["a", "b", "c"]).await;
            let answer = delete(&cluster, query).await.expect(200).json();
            assert_eq!(names(&answer), deleted, "{query}");
            assert_eq!(names(&list(&cluster, MAPS, "").await), left, "{query}");
            assert_eq!(answer["kind"], "ConfigMapList");
        }
    });
}

#[test]
fn a_state_may_be_chosen() {
    pintle_testkit::run(async {
        let cluster = cluster(Options::default()).await;
        let at = fill(&cluster, &["a", "b"]).await;
        fill(&cluster, &["c"]).await;
        // Upstream reads pages, and a page of a revision is exact.
        let answer = delete(&cluster, &format!("resourceVersion={at}")).await.expect(200).json();
        assert_eq!((names(&answer).as_str(), revision(&answer)), ("a b", at));
        assert_eq!(names(&list(&cluster, MAPS, "").await), "c");

        fill(&cluster, &["a", "b"]).await;
        let chunk = cluster.delete(&format!("{MAPS}?limit=1")).await.expect(200).json();
        assert_eq!((names(&chunk).as_str(), &chunk["metadata"]["remainingItemCount"]), ("a", &json!(2)));
        let rest = cluster.delete(&format!("{MAPS}?continue={}", continue_of(&chunk))).await.expect(200).json();
        assert_eq!((names(&rest).as_str(), revision(&rest)), ("b c", revision(&chunk)));
        assert_eq!(names(&list(&cluster, MAPS, "").await), "");
    });
}

#[test]
fn refusals_delete_nothing() {
    pintle_testkit::run(async {
        let clock = manual_clock();
        let cluster = forgetful(Options { clock: clock.clone(), ..Options::default() }).await;
        let old = fill(&cluster, &["a"]).await;
        let now = fill(&cluster, &["b", "c"]).await;
        let exact = format!("{MAPS}?resourceVersion={old}&resourceVersionMatch=Exact");
        while cluster.get(&exact).await.status != 410 {}
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
            let answer = advance_clock_until(&clock, cluster.delete(&format!("{MAPS}?{query}"))).await;
            answer.expect_error(code, reason, &message);
        }
        assert_eq!(names(&list(&cluster, MAPS, "").await), "a b c");
    });
}
