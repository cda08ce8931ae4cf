//! The revision of lists and gets for every combination of `resourceVersion`, `resourceVersionMatch` and `limit`.

use pintle_integration::{Options, Response, advance_clock_until};
use serde_json::json;

use super::{
    CONFIGMAPS, check, cluster, cluster_with_manual_clock, cluster_without_history, configmap, continue_token, create,
    list, names, revision,
};

/// A query that selects a single object.
const SELECT_A: &str = "fieldSelector=metadata.name%3Da";

#[test]
fn lists_are_at_the_requested_revision() {
    pintle_integration::run(async {
        let cluster = cluster(Options::default()).await;
        let a = create(&cluster, CONFIGMAPS, configmap("a")).await;
        let b = create(&cluster, CONFIGMAPS, configmap("b")).await;
        let changed =
            cluster.put(&format!("{CONFIGMAPS}/a"), r#"{"metadata": {"name": "a"}, "data": {"k": "2"}}"#).await;
        let changed = revision(&changed.expect(200).json());
        let _ = cluster.delete(&format!("{CONFIGMAPS}/b")).await.expect(200);
        let c = create(&cluster, CONFIGMAPS, configmap("c")).await;

        for (query, expect, at) in [
            (String::new(), "a=2 c", Some(c)),
            ("resourceVersion=0".to_owned(), "a=2 c", None),
            (format!("resourceVersion={a}"), "a=2 c", None),
            (format!("resourceVersion={a}&resourceVersionMatch=NotOlderThan"), "a=2 c", None),
            (format!("resourceVersion={c}&resourceVersionMatch=NotOlderThan"), "a=2 c", Some(c)),
            (format!("resourceVersion={}&resourceVersionMatch=Exact", a - 1), "", Some(a - 1)),
            (format!("resourceVersion={a}&resourceVersionMatch=Exact"), "a", Some(a)),
            (format!("resourceVersion={b}&resourceVersionMatch=Exact"), "a b", Some(b)),
            (format!("resourceVersion={changed}&resourceVersionMatch=Exact"), "a=2 b", Some(changed)),
            (format!("resourceVersion={}&resourceVersionMatch=Exact", changed + 1), "a=2", Some(changed + 1)),
            (format!("resourceVersion={c}&resourceVersionMatch=Exact"), "a=2 c", Some(c)),
            // With a limit, the revision is exact by default, as before `resourceVersionMatch` existed.
            (format!("resourceVersion={b}&limit=5"), "a b", Some(b)),
            (format!("resourceVersion={b}&limit=5&resourceVersionMatch=NotOlderThan"), "a=2 c", None),
            (format!("resourceVersion={b}&limit=1"), "a", Some(b)),
            (format!("resourceVersion={b}&limit=1&resourceVersionMatch=NotOlderThan"), "a=2", None),
            (format!("resourceVersion={b}&limit=1&resourceVersionMatch=Exact"), "a", Some(b)),
            ("limit=1".to_owned(), "a=2", Some(c)),
            // With resourceVersion=0, the limit is ignored.
            ("resourceVersion=0&limit=1".to_owned(), "a=2 c", None),
            ("resourceVersion=0&limit=1&resourceVersionMatch=NotOlderThan".to_owned(), "a=2 c", None),
            // Chunks of a list with a single name are not exact, because upstream reads them from etcd.
            (format!("{SELECT_A}&resourceVersion={a}&resourceVersionMatch=Exact"), "a", Some(a)),
            (format!("{SELECT_A}&resourceVersion={a}&resourceVersionMatch=NotOlderThan"), "a=2", None),
            (format!("{SELECT_A}&resourceVersion={a}&limit=5"), "a=2", None),
            (format!("{SELECT_A}&resourceVersion={a}"), "a=2", None),
            (format!("{SELECT_A}&resourceVersion=0"), "a=2", None),
            (SELECT_A.to_owned(), "a=2", Some(c)),
        ] {
            let found = list(&cluster, CONFIGMAPS, &query).await;
            assert_eq!(names(&found), expect, "{query}");
            match at {
                Some(at) => assert_eq!(revision(&found), at, "{query}"),
                None => assert!(revision(&found) >= c, "{query}: {found}"),
            }
            assert_eq!(found["items"].as_array().map(Vec::len), Some(expect.split_whitespace().count()), "{query}");
        }
        let _ = cluster.get(&format!("{CONFIGMAPS}/a?export=false")).await.expect(200);
        for query in ["export=true", "export=", "export=1"] {
            let message = "the export parameter, deprecated since v1.14, is no longer supported";
            cluster.get(&format!("{CONFIGMAPS}/a?{query}")).await.expect_error(400, "BadRequest", message);
        }
        // A get returns the newest state for every minimum revision.
        for query in [
            String::new(),
            "?resourceVersion=0".to_owned(),
            format!("?resourceVersion={a}"),
            format!("?resourceVersion={c}"),
        ] {
            let found = cluster.get(&format!("{CONFIGMAPS}/a{query}")).await.expect(200).json();
            assert_eq!(revision(&found), changed, "{query}");
        }
    });
}

#[test]
fn a_future_revision_times_out() {
    pintle_integration::run(async {
        let (cluster, clock) = cluster_with_manual_clock().await;
        let now = create(&cluster, CONFIGMAPS, configmap("a")).await;
        let check_timeout = |response: Response| {
            assert_eq!(response.header("retry-after"), "1");
            let message = format!("Timeout: Too large resource version: 999999, current: {now}");
            let status = response.expect(504).json();
            assert_eq!(status["message"], message.as_str());
            assert_eq!(status["reason"], "Timeout");
            let cause = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
            assert_eq!(status["details"], json!({"causes": cause, "retryAfterSeconds": 1}));
        };
        let paths = [
            format!("{CONFIGMAPS}?resourceVersion=999999"),
            format!("{CONFIGMAPS}?resourceVersion=999999&resourceVersionMatch=Exact"),
            format!("{CONFIGMAPS}?resourceVersion=999999&resourceVersionMatch=NotOlderThan"),
            format!("{CONFIGMAPS}?resourceVersion=999999&limit=1"),
            format!("{CONFIGMAPS}/a?resourceVersion=999999"),
        ];
        for path in &paths {
            check_timeout(advance_clock_until(&clock, cluster.get(path)).await);
        }

        // Upstream reads these lists of a single name from etcd: they do not wait and have no Retry-After header.
        for query in ["resourceVersionMatch=Exact", "limit=1"] {
            let response =
                cluster.get(&format!("{CONFIGMAPS}?{SELECT_A}&resourceVersion=999999&{query}")).await.expect(504);
            assert_eq!(response.header("retry-after"), "");
            let cause = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
            assert_eq!(response.json()["details"], json!({"causes": cause}), "{query}");
        }

        // A list succeeds if the revision is reached while it waits.
        let path = format!("{CONFIGMAPS}?resourceVersion={}", now + 1);
        let (found, created) = tokio::join!(cluster.get(&path), create(&cluster, CONFIGMAPS, configmap("b")));
        assert_eq!(created, now + 1);
        assert_eq!(names(&found.expect(200).json()), "a b");
    });
}

#[test]
fn an_expired_revision_is_rejected() {
    pintle_integration::run(async {
        let cluster = cluster_without_history(Options::default()).await;
        for name in ["a", "b", "c"] {
            create(&cluster, CONFIGMAPS, configmap(name)).await;
        }
        let first = list(&cluster, CONFIGMAPS, "limit=1").await;
        let (token, at) = (continue_token(&first), revision(&first));
        create(&cluster, CONFIGMAPS, configmap("bb")).await;
        let _ = cluster.delete(&format!("{CONFIGMAPS}/c")).await.expect(200);

        // The history is discarded shortly after the response to the write.
        let exact = format!("{CONFIGMAPS}?resourceVersion={at}&resourceVersionMatch=Exact");
        cluster.get_until_status(&exact, 410).await;
        let old = cluster.get(&exact).await;
        old.expect_error(410, "Expired", "The resourceVersion for the provided list is too old.");
        let expired = cluster.get(&format!("{CONFIGMAPS}?limit=2&continue={token}")).await.expect(410).json();
        assert_eq!(expired["reason"], "Expired");
        assert!(
            expired["message"].as_str().is_some_and(|m| m.starts_with("The provided continue parameter is too old"))
        );
        // The continue token in the error continues at the current revision.
        assert_eq!(continue_token(&expired), "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9");
        let rest = list(&cluster, CONFIGMAPS, &format!("limit=1&continue={}", continue_token(&expired))).await;
        assert_eq!(names(&rest), "b");
        assert!(revision(&rest) > at, "{rest}");
        check(&cluster, CONFIGMAPS, &format!("continue={}", continue_token(&rest)), "bb").await;
        // An old minimum revision is always valid.
        check(&cluster, CONFIGMAPS, &format!("resourceVersion={at}"), "a b bb").await;
    });
}

#[test]
fn contradictory_options_are_rejected() {
    pintle_integration::run(async {
        let cluster = cluster(Options::default()).await;
        let matching = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden";
        let bogus =
            "resourceVersionMatch: Unsupported value: \"Bogus\": supported values: \"Exact\", \"NotOlderThan\", \"\"";
        for (query, message) in [
            ("resourceVersionMatch=Exact", format!("{matching} unless resourceVersion is provided")),
            ("resourceVersionMatch=NotOlderThan", format!("{matching} unless resourceVersion is provided")),
            ("resourceVersionMatch=Bogus&resourceVersion=1", bogus.to_owned()),
            (
                "resourceVersionMatch=NotOlderThan&resourceVersion=1&continue=x",
                format!("{matching} when continue is provided"),
            ),
            (
                "resourceVersionMatch=Exact&resourceVersion=0",
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""
                    .to_owned(),
            ),
            (
                "sendInitialEvents=true",
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list".to_owned(),
            ),
        ] {
            let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {message}");
            cluster.get(&format!("{CONFIGMAPS}?{query}")).await.expect_error(422, "Invalid", &message);
        }
        for text in ["abc", "-1", "1.5", "0x1", "99999999999999999999"] {
            let why = if text.len() > 10 { "value out of range" } else { "invalid syntax" };
            let message =
                format!("resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": {why}");
            // A list validates its options first. A get and a watch fail later, with an internal error.
            let invalid = format!("invalid resource version: {message}");
            for query in ["", "&limit=1", "&resourceVersionMatch=Exact", "&resourceVersionMatch=NotOlderThan"] {
                let response = cluster.get(&format!("{CONFIGMAPS}?resourceVersion={text}{query}")).await;
                response.expect_error(400, "BadRequest", &invalid);
            }
            cluster.get(&format!("{CONFIGMAPS}/a?resourceVersion={text}")).await.expect_error(500, "", &message);
            cluster.get(&format!("{CONFIGMAPS}?watch=1&resourceVersion={text}")).await.expect_error(500, "", &message);
        }
    });
}

#[test]
fn selectors_are_parsed_before_options_are_validated() {
    pintle_integration::run(async {
        let cluster = cluster(Options::default()).await;
        for (query, code, message) in [
            ("fieldSelector=a&resourceVersionMatch=Exact", 400, "invalid selector: 'a'; can't understand 'a'"),
            (
                "fieldSelector=a%3Db&resourceVersionMatch=Exact",
                422,
                "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is \
                 forbidden unless resourceVersion is provided",
            ),
            (
                "fieldSelector=a%3Db&continue=x",
                400,
                "\"a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            ),
        ] {
            let reason = if code == 400 { "BadRequest" } else { "Invalid" };
            cluster.get(&format!("{CONFIGMAPS}?{query}")).await.expect_error(code, reason, message);
            cluster.delete(&format!("{CONFIGMAPS}?{query}")).await.expect_error(code, reason, message);
        }
    });
}
