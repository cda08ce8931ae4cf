//! Chunked lists: `limit`, `continue` tokens and their consistency.

use pintle_integration::{Cluster, Options};
use serde_json::json;

use super::{CONFIGMAPS, PODS, check, cluster, configmap, continue_token, create, list, names, revision};

/// Lists in chunks with writes between them. Returns the names and the remaining item count of each chunk.
async fn list_in_chunks(cluster: &Cluster, path: &str, query: &str) -> Vec<(String, Option<u64>)> {
    let mut chunks = Vec::new();
    let mut at = None;
    let mut token = String::new();
    loop {
        let chunk = list(cluster, path, &format!("{query}&continue={token}")).await;
        assert_eq!(*at.get_or_insert(revision(&chunk)), revision(&chunk), "the revision of {path}?{query}");
        chunks.push((names(&chunk), chunk["metadata"]["remainingItemCount"].as_u64()));
        token = continue_token(&chunk).to_owned();
        if token.is_empty() {
            assert!(chunk["metadata"].get("continue").is_none(), "{chunk}");
            return chunks;
        }
        let n = chunks.len();
        create(cluster, CONFIGMAPS, configmap(&format!("a-new-{n}-{}", revision(&chunk)))).await;
        let changed =
            json!({"metadata": {"name": "m5", "labels": {"odd": "yes"}}, "data": {"k": format!("changed-{n}")}});
        let _ = cluster.put(&format!("{CONFIGMAPS}/m5"), changed.to_string()).await.expect(200);
        let _ = cluster.delete(&format!("{CONFIGMAPS}/m6")).await;
    }
}

#[test]
fn chunks_are_from_one_revision() {
    pintle_integration::run(async {
        let cluster = cluster(Options::default()).await;
        for i in 1..=7 {
            let odd = if i % 2 == 1 { "yes" } else { "no" };
            let object = json!({"metadata": {"name": format!("m{i}"), "labels": {"odd": odd}}, "data": {"k": "1"}});
            create(&cluster, CONFIGMAPS, object).await;
        }
        let chunk = |names: &str, remaining: Option<u64>| (names.to_owned(), remaining);
        let expect = vec![chunk("m1 m2 m3", Some(4)), chunk("m4 m5 m6", Some(1)), chunk("m7", None)];
        assert_eq!(list_in_chunks(&cluster, CONFIGMAPS, "limit=3").await, expect);

        // With a selector, the remaining item count is unknown.
        let found = list_in_chunks(&cluster, CONFIGMAPS, "limit=2&labelSelector=odd%3Dyes").await;
        assert_eq!(found, [chunk("m1 m3", None), chunk("m5=changed-2 m7", None)]);
        let found = list_in_chunks(&cluster, CONFIGMAPS, "limit=1&fieldSelector=metadata.name%3Dm7").await;
        assert_eq!(found, [chunk("m7", None)]);
    });
}

#[test]
fn a_list_can_be_continued_with_another_limit() {
    pintle_integration::run(async {
        let cluster = cluster(Options::default()).await;
        for name in ["o", "p"] {
            let _ = cluster
                .post("/api/v1/namespaces", format!(r#"{{"metadata": {{"name": "{name}"}}}}"#))
                .await
                .expect(201);
        }
        for (namespace, name) in [("n", "a"), ("n", "b"), ("o", "a"), ("o", "c"), ("p", "b")] {
            create(&cluster, &format!("/api/v1/namespaces/{namespace}/configmaps"), configmap(name)).await;
        }
        let all = "/api/v1/configmaps";
        let first = list(&cluster, all, "limit=3").await;
        assert_eq!(names(&first), "a b a");
        let token = continue_token(&first);
        create(&cluster, CONFIGMAPS, configmap("z")).await;
        // A token works without a limit, with another limit, or for the same chunk again.
        check(&cluster, all, &format!("continue={token}"), "c b").await;
        check(&cluster, all, &format!("limit=1&continue={token}"), "c").await;
        // With resourceVersion=0, the limit is ignored.
        check(&cluster, all, &format!("limit=1&continue={token}&resourceVersion=0"), "c b").await;
        check(&cluster, all, &format!("limit=1&continue={token}&resourceVersion="), "c").await;
        check(&cluster, all, &format!("limit=500&continue={token}"), "c b").await;
        // A chunk with all objects has no continue token.
        let full_list = list(&cluster, all, "limit=6").await;
        assert_eq!(full_list["metadata"], json!({"resourceVersion": full_list["metadata"]["resourceVersion"]}));
        // A negative limit is ignored.
        check(&cluster, all, "limit=-1", "a b z a c b").await;
        check(&cluster, all, "limit=0", "a b z a c b").await;

        // A namespace in a field selector is equivalent to a namespace in the path, and a name is equivalent to a name
        // in the path.
        let other = "fieldSelector=metadata.namespace%3Do";
        let chunk = list(&cluster, all, &format!("{other}&limit=1")).await;
        assert_eq!((names(&chunk).as_str(), chunk["metadata"].get("remainingItemCount")), ("a", None));
        check(&cluster, all, &format!("{other}&continue={}", continue_token(&chunk)), "c").await;
        let one = list(&cluster, all, &format!("{other},metadata.name%3Dc&limit=1")).await;
        assert_eq!((names(&one).as_str(), continue_token(&one)), ("c", ""));
        check(&cluster, all, "fieldSelector=metadata.namespace%3DNo/t", "").await;

        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let table =
            cluster.request("GET", &format!("{all}?limit=4")).header("accept", accept).send().await.expect(200).json();
        assert_eq!(table["rows"].as_array().map(Vec::len), Some(4));
        assert_eq!(table["metadata"]["remainingItemCount"], 2);
        check(&cluster, all, &format!("continue={}", continue_token(&table)), "c b").await;
    });
}

#[test]
fn the_last_chunk_may_be_empty() {
    pintle_integration::run(async {
        let cluster = cluster(Options::default()).await;
        for (name, odd) in [("a", "yes"), ("b", "no"), ("c", "yes"), ("d", "no")] {
            create(&cluster, CONFIGMAPS, json!({"metadata": {"name": name, "labels": {"odd": odd}}})).await;
        }
        // The server does not check whether any remaining object matches the selector.
        let query = "limit=2&labelSelector=odd%3Dyes";
        let chunk = list(&cluster, CONFIGMAPS, query).await;
        assert_eq!((names(&chunk).as_str(), chunk["metadata"].get("remainingItemCount")), ("a c", None));
        let rest = list(&cluster, CONFIGMAPS, &format!("{query}&continue={}", continue_token(&chunk))).await;
        assert_eq!((names(&rest).as_str(), continue_token(&rest)), ("", ""));
        assert_eq!(revision(&rest), revision(&chunk));
        assert_eq!(rest["items"], json!([]));
        let last = list(&cluster, CONFIGMAPS, "limit=2&labelSelector=odd%3Dno").await;
        assert_eq!((names(&last).as_str(), continue_token(&last)), ("b d", ""));

        // With an index, for example by the node of pods, only matching objects are considered.
        for (name, node) in [("a", "x"), ("b", "y"), ("c", "x"), ("d", "y")] {
            let spec = json!({"containers": [{"name": "c", "image": "i"}], "nodeName": node});
            create(&cluster, PODS, json!({"metadata": {"name": name}, "spec": spec})).await;
        }
        let query = "fieldSelector=spec.nodeName%3Dx&limit";
        for (limit, expect, more) in [(1, "a", true), (2, "a c", false), (3, "a c", false)] {
            let chunk = list(&cluster, PODS, &format!("{query}={limit}")).await;
            assert_eq!((names(&chunk).as_str(), continue_token(&chunk).is_empty()), (expect, !more), "{limit}");
        }
        let exact = list(&cluster, PODS, &format!("{query}=2&resourceVersion={}", revision(&last) + 4)).await;
        assert_eq!((names(&exact).as_str(), continue_token(&exact).is_empty()), ("a c", false));
    });
}

#[test]
fn invalid_continue_tokens_are_rejected() {
    pintle_integration::run(async {
        let cluster = cluster(Options::default()).await;
        for name in ["a", "b"] {
            create(&cluster, CONFIGMAPS, configmap(name)).await;
        }
        let token = continue_token(&list(&cluster, CONFIGMAPS, "limit=1").await).to_owned();
        let invalid = "invalid continue token: continue key is not valid";
        for (query, message) in [
            (
                "continue=eyJ2Ijoibm9wZS92OSIsInJ2IjoxLCJzdGFydCI6ImEifQ".to_owned(),
                format!("{invalid}: server does not recognize this encoded version nope/v9"),
            ),
            (
                "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiIuLi9hIn0".to_owned(),
                format!("{invalid}: ../a"),
            ),
            (
                "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhIn0".to_owned(),
                format!("{invalid}: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
            ),
            (
                "fieldSelector=metadata.name%3Da&continue=e30".to_owned(),
                format!("{invalid}: server does not recognize this encoded version "),
            ),
            (
                format!("limit=2&resourceVersion=x&continue={token}"),
                "specifying resource version is not allowed when using continue".to_owned(),
            ),
            (
                format!("limit=2&resourceVersion=1&continue={token}"),
                "specifying resource version is not allowed when using continue".to_owned(),
            ),
            ("limit=x".to_owned(), "strconv.ParseInt: parsing \"x\": invalid syntax".to_owned()),
        ] {
            cluster.get(&format!("{CONFIGMAPS}?{query}")).await.expect_error(400, "BadRequest", &message);
        }
        // The key of the token also applies to a list that selects a single name.
        check(&cluster, CONFIGMAPS, &format!("fieldSelector=metadata.name%3Da&continue={token}"), "").await;
        check(&cluster, CONFIGMAPS, &format!("fieldSelector=metadata.name%3Db&continue={token}"), "b").await;
        // For other tokens, only the status code and the prefix are compared: the rest is an error of Go's decoder.
        for token in ["nonsense", "e30", "%00", "!", "e", "bnVsbA", "W10", &"A".repeat(10_000)] {
            let status = cluster.get(&format!("{CONFIGMAPS}?continue={token}")).await.expect(400).json();
            assert!(status["message"].as_str().is_some_and(|m| m.starts_with(invalid)), "{token}: {status}");
        }
    });
}
