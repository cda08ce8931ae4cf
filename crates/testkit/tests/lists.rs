//! Lists: at which revision they are, in chunks, by labels and by fields, as KEP-365 (chunking), KEP-2340 (lists from the
//! cache) and the API conventions on resourceVersion describe them.

use std::time::Duration;

use pintle_testkit::{Answer, Cluster, Options};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/n/configmaps";
const PODS: &str = "/api/v1/namespaces/n/pods";

async fn cluster(options: Options) -> Cluster {
    let cluster = Cluster::with_options(options).await;
    let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "n"}}"#).await.expect(201);
    cluster
}

/// A cluster that forgets every change at once.
async fn forgetful() -> Cluster {
    let mut options = Options::default();
    options.window.duration = Duration::ZERO;
    cluster(options).await
}

fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("no resourceVersion: {object}"))
}

/// Makes an object and says its revision.
async fn make(cluster: &Cluster, path: &str, object: Value) -> u64 {
    revision(&cluster.post(path, object.to_string()).await.expect(201).json())
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "1"}})
}

/// The names of a list, with the value of `data.k` where it is not `1`.
fn names(list: &Value) -> String {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
    let name = |item: &Value| {
        let name = item["metadata"]["name"].as_str().unwrap_or_default();
        match item["data"]["k"].as_str() {
            None | Some("1") => name.to_owned(),
            Some(value) => format!("{name}={value}"),
        }
    };
    items.iter().map(name).collect::<Vec<_>>().join(" ")
}

/// A value as it stands in a query.
fn escape(text: &str) -> String {
    text.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

async fn list(cluster: &Cluster, path: &str, query: &str) -> Value {
    cluster.get(&format!("{path}?{query}")).await.expect(200).json()
}

/// Sees to it that a list has these names.
async fn check(cluster: &Cluster, path: &str, query: &str, expect: &str) {
    assert_eq!(names(&list(cluster, path, query).await), expect, "{path}?{query}");
}

fn continue_of(list: &Value) -> &str {
    list["metadata"]["continue"].as_str().unwrap_or_default()
}

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
            ("resourceVersion=0&limit=5".to_owned(), "a=2 c", None),
        ] {
            let found = list(&cluster, MAPS, &query).await;
            assert_eq!(names(&found), expect, "{query}");
            match at {
                Some(at) => assert_eq!(revision(&found), at, "{query}"),
                None => assert!(revision(&found) >= c, "{query}: {found}"),
            }
            assert_eq!(found["items"].as_array().map(Vec::len), Some(expect.split_whitespace().count()), "{query}");
        }
        // An older revision is as good as any for a get.
        let found = cluster.get(&format!("{MAPS}/a?resourceVersion={a}")).await.expect(200).json();
        assert_eq!(revision(&found), changed);
    });
}

#[test]
fn a_revision_of_the_future_is_waited_for_and_then_refused() {
    pintle_testkit::run(async {
        let cluster = cluster(Options::default()).await;
        let now = make(&cluster, MAPS, map("a")).await;
        let refused = |answer: Answer| {
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
        let [a, b, c, d, e] = &paths;
        let (a, b, c, d, e) =
            tokio::join!(cluster.get(a), cluster.get(b), cluster.get(c), cluster.get(d), cluster.get(e));
        for answer in [a, b, c, d, e] {
            refused(answer);
        }

        // A revision that comes while the list waits is no error.
        let path = format!("{MAPS}?resourceVersion={}", now + 1);
        let (found, made) = tokio::join!(cluster.get(&path), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            make(&cluster, MAPS, map("b")).await
        });
        assert_eq!(made, now + 1);
        assert_eq!(names(&found.expect(200).json()), "a b");
    });
}

/// Walks a list in chunks with writes between them, and says what each chunk had.
async fn walk(cluster: &Cluster, path: &str, query: &str) -> Vec<(String, Option<u64>)> {
    let mut chunks = Vec::new();
    let mut at = None;
    let mut token = String::new();
    loop {
        let chunk = list(cluster, path, &format!("{query}&continue={token}")).await;
        assert_eq!(*at.get_or_insert(revision(&chunk)), revision(&chunk), "the revision of {path}?{query}");
        chunks.push((names(&chunk), chunk["metadata"]["remainingItemCount"].as_u64()));
        token = continue_of(&chunk).to_owned();
        if token.is_empty() {
            assert!(chunk["metadata"].get("continue").is_none(), "{chunk}");
            return chunks;
        }
        let n = chunks.len();
        make(cluster, MAPS, map(&format!("a-new-{n}-{}", revision(&chunk)))).await;
        let changed =
            json!({"metadata": {"name": "m5", "labels": {"odd": "yes"}}, "data": {"k": format!("changed-{n}")}});
        let _ = cluster.put(&format!("{MAPS}/m5"), changed.to_string()).await.expect(200);
        let _ = cluster.delete(&format!("{MAPS}/m6")).await;
    }
}

#[test]
fn chunks_show_one_state() {
    pintle_testkit::run(async {
        let cluster = cluster(Options::default()).await;
        for i in 1..=7 {
            let odd = if i % 2 == 1 { "yes" } else { "no" };
            let object = json!({"metadata": {"name": format!("m{i}"), "labels": {"odd": odd}}, "data": {"k": "1"}});
            make(&cluster, MAPS, object).await;
        }
        let chunk = |names: &str, remaining: Option<u64>| (names.to_owned(), remaining);
        let expect = vec![chunk("m1 m2 m3", Some(4)), chunk("m4 m5 m6", Some(1)), chunk("m7", None)];
        assert_eq!(walk(&cluster, MAPS, "limit=3").await, expect);

        // With a selector nobody knows how many are left.
        let found = walk(&cluster, MAPS, "limit=2&labelSelector=odd%3Dyes").await;
        assert_eq!(found, [chunk("m1 m3", None), chunk("m5=changed-2 m7", None)]);
        let found = walk(&cluster, MAPS, "limit=1&fieldSelector=metadata.name%3Dm7").await;
        assert_eq!(found, [chunk("m7", None)]);
    });
}

#[test]
fn a_chunk_may_end_the_list_in_any_way() {
    pintle_testkit::run(async {
        let cluster = cluster(Options::default()).await;
        for name in ["o", "p"] {
            let _ = cluster
                .post("/api/v1/namespaces", format!(r#"{{"metadata": {{"name": "{name}"}}}}"#))
                .await
                .expect(201);
        }
        for (namespace, name) in [("n", "a"), ("n", "b"), ("o", "a"), ("o", "c"), ("p", "b")] {
            make(&cluster, &format!("/api/v1/namespaces/{namespace}/configmaps"), map(name)).await;
        }
        let all = "/api/v1/configmaps";
        let first = list(&cluster, all, "limit=3").await;
        assert_eq!(names(&first), "a b a");
        let token = continue_of(&first);
        make(&cluster, MAPS, map("z")).await;
        // The rest at once, another limit, or the same chunk again.
        check(&cluster, all, &format!("continue={token}"), "c b").await;
        check(&cluster, all, &format!("limit=1&continue={token}"), "c").await;
        check(&cluster, all, &format!("limit=1&continue={token}&resourceVersion=0"), "c").await;
        check(&cluster, all, &format!("limit=500&continue={token}"), "c b").await;
        // As many as there are is the end.
        let whole = list(&cluster, all, "limit=6").await;
        assert_eq!(whole["metadata"], json!({"resourceVersion": whole["metadata"]["resourceVersion"]}));
        // A limit below zero is none.
        check(&cluster, all, "limit=-1", "a b z a c b").await;
        check(&cluster, all, "limit=0", "a b z a c b").await;

        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let table =
            cluster.ask("GET", &format!("{all}?limit=4")).header("accept", accept).send().await.expect(200).json();
        assert_eq!(table["rows"].as_array().map(Vec::len), Some(4));
        assert_eq!(table["metadata"]["remainingItemCount"], 2);
        check(&cluster, all, &format!("continue={}", continue_of(&table)), "c b").await;
    });
}

#[test]
fn tokens_that_are_none_are_refused() {
    pintle_testkit::run(async {
        let cluster = cluster(Options::default()).await;
        for name in ["a", "b"] {
            make(&cluster, MAPS, map(name)).await;
        }
        let token = continue_of(&list(&cluster, MAPS, "limit=1").await).to_owned();
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
                format!("limit=2&resourceVersion=1&continue={token}"),
                "specifying resource version is not allowed when using continue".to_owned(),
            ),
            ("limit=x".to_owned(), "strconv.ParseInt: parsing \"x\": invalid syntax".to_owned()),
        ] {
            cluster.get(&format!("{MAPS}?{query}")).await.expect_error(400, "BadRequest", &message);
        }
        // What Go's decoder says of other text is its own; the beginning and the code are not.
        for token in ["nonsense", "e30", "%00", "!", "e", "bnVsbA", "W10", &"A".repeat(10_000)] {
            let status = cluster.get(&format!("{MAPS}?continue={token}")).await.expect(400).json();
            assert!(status["message"].as_str().is_some_and(|m| m.starts_with(invalid)), "{token}: {status}");
        }
    });
}

#[test]
fn a_state_that_is_forgotten_is_gone() {
    pintle_testkit::run(async {
        let cluster = forgetful().await;
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
        let rest = list(&cluster, MAPS, &format!("limit=1&continue={}", continue_of(&gone))).await;
        assert_eq!(names(&rest), "b");
        assert!(revision(&rest) > at, "{rest}");
        check(&cluster, MAPS, &format!("continue={}", continue_of(&rest)), "bb").await;
        // Not older than something old is always possible.
        check(&cluster, MAPS, &format!("resourceVersion={at}"), "a b bb").await;
    });
}

#[test]
fn labels_select() {
    pintle_testkit::run(async {
        let cluster = cluster(Options::default()).await;
        for (name, labels) in [
            ("a", json!({"app": "x", "tier": "f", "n": "1"})),
            ("b", json!({"app": "x", "n": "10"})),
            ("c", json!({"app": "y", "tier": "b", "example.com/long": ""})),
            ("d", json!({})),
        ] {
            make(&cluster, MAPS, json!({"metadata": {"name": name, "labels": labels}})).await;
        }
        for (selector, expect) in [
            ("", "a b c d"),
            ("app=x", "a b"),
            ("app==x", "a b"),
            ("app!=x", "c d"),
            ("app in (x,y)", "a b c"),
            ("app in ( x )", "a b"),
            ("app notin (x)", "c d"),
            ("app notin (x,y)", "d"),
            ("app", "a b c"),
            ("!app", "d"),
            ("app=x,tier", "a"),
            ("!tier,app=x", "b"),
            ("tier in (f,b),app!=y", "a"),
            ("n>1", "b"),
            ("n<10", "a"),
            ("example.com/long", "c"),
            ("example.com/long=", "c"),
            ("app=z", ""),
        ] {
            check(&cluster, MAPS, &format!("labelSelector={}", escape(selector)), expect).await;
            check(&cluster, "/api/v1/configmaps", &format!("labelSelector={}", escape(selector)), expect).await;
        }
        for selector in ["===", "a in", "a in (", "a,,b", "-a=b", "a=b c", "a>x"] {
            let answer = cluster.get(&format!("{MAPS}?labelSelector={}", escape(selector))).await;
            assert_eq!(answer.expect(400).json()["reason"], "BadRequest", "{selector}");
        }
    });
}

#[test]
fn fields_select() {
    pintle_testkit::run(async {
        let cluster = cluster(Options::default()).await;
        for (name, node, policy) in [("a", "n1", "Always"), ("b", "n2", "Never"), ("c", "", "Always")] {
            let containers = json!([{"name": "c", "image": "i"}]);
            let spec = json!({"containers": containers, "nodeName": node, "restartPolicy": policy});
            make(&cluster, PODS, json!({"metadata": {"name": name}, "spec": spec})).await;
        }
        let _ = cluster
            .patch(&format!("{PODS}/b/status"), "merge", r#"{"status": {"phase": "Running"}}"#)
            .await
            .expect(200);
        for (selector, expect) in [
            ("", "a b c"),
            ("metadata.name=a", "a"),
            ("metadata.name==a", "a"),
            ("metadata.name!=a", "b c"),
            ("metadata.name=a,metadata.name=b", ""),
            ("metadata.namespace=n", "a b c"),
            ("metadata.namespace=other", ""),
            ("spec.nodeName=n1", "a"),
            ("spec.nodeName=", "c"),
            ("spec.nodeName!=n1", "b c"),
            ("spec.nodeName!=n1,spec.restartPolicy=Always", "c"),
            ("status.phase=Running", "b"),
            ("status.phase=Pending", "a c"),
        ] {
            check(&cluster, PODS, &format!("fieldSelector={}", escape(selector)), expect).await;
            check(&cluster, "/api/v1/pods", &format!("fieldSelector={}", escape(selector)), expect).await;
        }
        for (path, selector, message) in [
            (PODS, "spec.hostname=a", "field label not supported: spec.hostname"),
            (
                MAPS,
                "data.k=1",
                "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            ),
            (MAPS, "nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
        ] {
            let answer = cluster.get(&format!("{path}?fieldSelector={}", escape(selector))).await;
            answer.expect_error(400, "BadRequest", message);
        }
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
        let answer = cluster.get(&format!("{MAPS}?resourceVersion=abc")).await;
        let message = "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax";
        answer.expect_error(500, "", message);
    });
}
