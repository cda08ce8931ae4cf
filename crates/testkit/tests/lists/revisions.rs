//! At which revision a list or a get is: every row of resourceVersion, resourceVersionMatch and limit.

use pintle_testkit::{Options, Response, advance_clock_until};
use serde_json::json;

use crate::{MAPS, check, cluster, continue_of, forgetful, list, make, map, names, revision, timed};

/// Selects a single object.
const A: &str = "fieldSelector=metadata.name%3Da";

#[test]
fn a_list_is_at_the_revision_that_is_asked_for() {
    pintle_testkit::run(async {
        let cluster = cluster(Options::default()).await;
        let a = make(&cluster, MAPS, map("a")).await;
        let b = make(&cluster, MAPS, map("b")).await;
        let changed = cluster.put(&format!("{MAPS}/a"), r#"{"metadata": {"name": "a"}, "data": {"k": "2"}}"#).await;
        let changed = revision(&changed.expect(200).json());
        let _ = cluster.delete(&format!("{MAPS}/b")).await.expect(200);
        let c = make(&cluster, MAPS, map("c")).await;

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
            // Chunks of a revision were exact before that could be said.
            (format!("resourceVersion={b}&limit=5"), "a b", Some(b)),
            (format!("resourceVersion={b}&limit=5&resourceVersionMatch=NotOlderThan"), "a=2 c", None),
            (format!("resourceVersion={b}&limit=1"), "a", Some(b)),
            (format!("resourceVersion={b}&limit=1&resourceVersionMatch=NotOlderThan"), "a=2", None),
            (format!("resourceVersion={b}&limit=1&resourceVersionMatch=Exact"), "a", Some(b)),
            ("limit=1".to_owned(), "a=2", Some(c)),
            // What is there in any state is not cut into chunks.
            ("resourceVersion=0&limit=1".to_owned(), "a=2 c", None),
            ("resourceVersion=0&limit=1&resourceVersionMatch=NotOlderThan".to_owned(), "a=2 c", None),
            // A single object by its name: chunks are not exact, as etcd answers these.
            (format!("{A}&resourceVersion={a}&resourceVersionMatch=Exact"), "a", Some(a)),
            (format!("{A}&resourceVersion={a}&resourceVersionMatch=NotOlderThan"), "a=2", None),
            (format!("{A}&resourceVersion={a}&limit=5"), "a=2", None),
            (format!("{A}&resourceVersion={a}"), "a=2", None),
            (format!("{A}&resourceVersion=0"), "a=2", None),
            (A.to_owned(), "a=2", Some(c)),
        ] {
            let found = list(&cluster, MAPS, &query).await;
            assert_eq!(names(&found), expect, "{query}");
            match at {
                Some(at) => assert_eq!(revision(&found), at, "{query}"),
                None => assert!(revision(&found) >= c, "{query}: {found}"),
            }
            assert_eq!(found["items"].as_array().map(Vec::len), Some(expect.split_whitespace().count()), "{query}");
        }
        let _ = cluster.get(&format!("{MAPS}/a?export=false")).await.expect(200);
        for query in ["export=true", "export=", "export=1"] {
            let message = "the export parameter, deprecated since v1.14, is no longer supported";
            cluster.get(&format!("{MAPS}/a?{query}")).await.expect_error(400, "BadRequest", message);
        }
        // A get shows the newest state, whatever revision it is not to be older than.
        for query in [
            String::new(),
            "?resourceVersion=0".to_owned(),
            format!("?resourceVersion={a}"),
            format!("?resourceVersion={c}"),
        ] {
            let found = cluster.get(&format!("{MAPS}/a{query}")).await.expect(200).json();
            assert_eq!(revision(&found), changed, "{query}");
        }
    });
}

#[test]
fn a_revision_of_the_future_is_waited_for_and_then_refused() {
    pintle_testkit::run(async {
        let (cluster, clock) = timed().await;
        let now = make(&cluster, MAPS, map("a")).await;
        let refused = |answer: Response| {
            assert_eq!(answer.header("retry-after"), "1");
            let message = format!("Timeout: Too large resource version: 999999, current: {now}");
            let status = answer.expect(504).json();
            assert_eq!(status["message"], message.as_str());
            assert_eq!(status["reason"], "Timeout");
            let cause = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
            assert_eq!(status["details"], json!({"causes": cause, "retryAfterSeconds": 1}));
        };
        let paths = [
            format!("{MAPS}?resourceVersion=999999"),
            format!("{MAPS}?resourceVersion=999999&resourceVersionMatch=Exact"),
            format!("{MAPS}?resourceVersion=999999&resourceVersionMatch=NotOlderThan"),
            format!("{MAPS}?resourceVersion=999999&limit=1"),
            format!("{MAPS}/a?resourceVersion=999999"),
        ];
        for path in &paths {
            refused(advance_clock_until(&clock, cluster.get(path)).await);
        }

        // Lists of one object that etcd answers upstream do not wait, and nobody is told when to come again.
        for query in ["resourceVersionMatch=Exact", "limit=1"] {
            let answer = cluster.get(&format!("{MAPS}?{A}&resourceVersion=999999&{query}")).await.expect(504);
            assert_eq!(answer.header("retry-after"), "");
            let cause = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
            assert_eq!(answer.json()["details"], json!({"causes": cause}), "{query}");
        }

        // A revision that comes while the list waits is no error.
        let path = format!("{MAPS}?resourceVersion={}", now + 1);
        let (found, made) = tokio::join!(cluster.get(&path), make(&cluster, MAPS, map("b")));
        assert_eq!(made, now + 1);
        assert_eq!(names(&found.expect(200).json()), "a b");
    });
}

#[test]
fn a_state_that_is_forgotten_is_gone() {
    pintle_testkit::run(async {
        let cluster = forgetful(Options::default()).await;
        for name in ["a", "b", "c"] {
            make(&cluster, MAPS, map(name)).await;
        }
        let first = list(&cluster, MAPS, "limit=1").await;
        let (token, at) = (continue_of(&first), revision(&first));
        make(&cluster, MAPS, map("bb")).await;
        let _ = cluster.delete(&format!("{MAPS}/c")).await.expect(200);

        // Forgetting follows the answer to the write by a moment.
        let exact = format!("{MAPS}?resourceVersion={at}&resourceVersionMatch=Exact");
        while cluster.get(&exact).await.status != 410 {}
        let old = cluster.get(&exact).await;
        old.expect_error(410, "Expired", "The resourceVersion for the provided list is too old.");
        let gone = cluster.get(&format!("{MAPS}?limit=2&continue={token}")).await.expect(410).json();
        assert_eq!(gone["reason"], "Expired");
        assert!(gone["message"].as_str().is_some_and(|m| m.starts_with("The provided continue parameter is too old")));
        // The token that comes with the refusal goes on with what there is now.
        assert_eq!(continue_of(&gone), "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9");
        let rest = list(&cluster, MAPS, &format!("limit=1&continue={}", continue_of(&gone))).await;
        assert_eq!(names(&rest), "b");
        assert!(revision(&rest) > at, "{rest}");
        check(&cluster, MAPS, &format!("continue={}", continue_of(&rest)), "bb").await;
        // Not older than something old is always possible.
        check(&cluster, MAPS, &format!("resourceVersion={at}"), "a b bb").await;
    });
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    pintle_testkit::run(async {
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
            cluster.get(&format!("{MAPS}?{query}")).await.expect_error(422, "Invalid", &message);
        }
        for text in ["abc", "-1", "1.5", "0x1", "99999999999999999999"] {
            let why = if text.len() > 10 { "value out of range" } else { "invalid syntax" };
            let message =
                format!("resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": {why}");
            // A list checks its options; a get and a watch find out too late for a kinder answer.
            let invalid = format!("invalid resource version: {message}");
            for query in ["", "&limit=1", "&resourceVersionMatch=Exact", "&resourceVersionMatch=NotOlderThan"] {
                let answer = cluster.get(&format!("{MAPS}?resourceVersion={text}{query}")).await;
                answer.expect_error(400, "BadRequest", &invalid);
            }
            cluster.get(&format!("{MAPS}/a?resourceVersion={text}")).await.expect_error(500, "", &message);
            cluster.get(&format!("{MAPS}?watch=1&resourceVersion={text}")).await.expect_error(500, "", &message);
        }
    });
}

#[test]
fn selectors_are_read_before_options_are_compared() {
    pintle_testkit::run(async {
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
            cluster.get(&format!("{MAPS}?{query}")).await.expect_error(code, reason, message);
            cluster.delete(&format!("{MAPS}?{query}")).await.expect_error(code, reason, message);
        }
    });
}
