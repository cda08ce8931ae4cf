//! What every answer says beside its body: who may see it, under which id it is known, what the client is warned of.

use pintle::Options;
use pintle_testkit::{Cluster, Response};
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn check(answer: &Response, headers: &[(&str, &str)]) {
    for (name, value) in headers {
        assert_eq!(answer.header(name), *value, "{name}");
    }
}

#[test]
fn answers_are_nobody_elses_and_have_an_id() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        for path in [MAPS, "/api", "/version", "/healthz", "/nothing", "/api/v1/nothing"] {
            let answer = cluster.get(path).await;
            check(&answer, &[("cache-control", "no-cache, private"), ("access-control-allow-origin", "")]);
            assert_eq!(answer.header("audit-id").len(), 36, "{path}");
        }
        let known = cluster.request("GET", MAPS).header("Audit-ID", "mine").send().await;
        check(&known, &[("audit-id", "mine")]);
        let long = cluster.request("GET", MAPS).header("Audit-ID", &"x".repeat(65)).send().await;
        assert_eq!(long.header("audit-id").len(), 36);
        cluster.stop().await;
    });
}

#[test]
fn scripts_of_other_origins_are_let_in_where_that_is_allowed() {
    pintle_testkit::run(async {
        let cors_allowed_origins = vec![r"//example\.com(:|$)".to_owned()];
        let cluster = Cluster::with_options(Options { cors_allowed_origins, ..Options::default() }).await;
        let told = [
            ("access-control-allow-origin", "https://example.com"),
            ("access-control-allow-methods", "POST, GET, OPTIONS, PUT, DELETE, PATCH"),
            (
                "access-control-allow-headers",
                "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
            ),
            ("access-control-expose-headers", "Date"),
            ("access-control-allow-credentials", "true"),
            ("cache-control", "no-cache, private"),
        ];
        let from = |method, path| cluster.request(method, path).header("Origin", "https://example.com");
        check(&from("GET", MAPS).send().await.expect(200), &told);
        check(&from("GET", "/nothing").send().await.expect(404), &told);
        // A browser does not say who asks before it knows that it may.
        let before = from("OPTIONS", MAPS).anonymous().send().await.expect(204);
        check(&before, &told);
        assert_eq!((before.text(), before.header("audit-id").len()), (String::new(), 36));
        check(&from("GET", MAPS).anonymous().send().await.expect(401), &told);
        let other = cluster.request("OPTIONS", MAPS).header("Origin", "https://example.org").send().await.expect(405);
        check(&other, &[("access-control-allow-origin", "")]);
        cluster.stop().await;
    });
}

#[test]
fn many_warnings_are_cut() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let map = |fields: usize, length: usize| {
            let mut map = json!({"metadata": {"name": "a"}});
            for i in 0..fields {
                map[format!("{i:03}{}", "x".repeat(length - 1))] = json!(1);
            }
            map.to_string()
        };
        // Upstream remembers a hundred unknown fields, and cuts warnings that come to more than 4096 characters.
        for (fields, length, expect) in [(3, 10, vec![28; 3]), (120, 10, vec![28; 100]), (30, 300, vec![256; 16])] {
            let answer = cluster.post(&format!("{MAPS}?dryRun=All"), map(fields, length)).await.expect(201);
            let warnings = answer.headers.get_all("warning").iter().map(|text| text.to_str().expect("a text"));
            let lengths: Vec<usize> =
                warnings.map(|text| text.replace("\\\"", "'").len() - "299 - \"\"".len()).collect();
            assert_eq!(lengths, expect);
        }
        cluster.stop().await;
    });
}

#[test]
fn caches_are_told_what_answers_depend_on() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let check = async |path: &str, encoding: &str, expect: &[&str]| {
            let answer = cluster.request("GET", path).header("Accept-Encoding", encoding).send().await.expect(200);
            let vary: Vec<&str> = answer.headers.get_all("vary").iter().map(|v| v.to_str().expect("a text")).collect();
            assert_eq!(vary, expect, "{path} {encoding}");
        };
        check("/openapi/v2", "identity", &["Accept-Encoding", "Accept"]).await;
        check("/openapi/v2", "gzip", &["Accept-Encoding", "Accept"]).await;
        check(MAPS, "gzip", &[]).await;
        check("/apis/apps/v1", "gzip", &[]).await;
        let large = json!({"metadata": {"name": "large"}, "data": {"k": "v".repeat(200_000)}}).to_string();
        let _ = cluster.post(MAPS, large).await.expect(201);
        check(MAPS, "identity", &[]).await;
        check(MAPS, "gzip", &["Accept-Encoding"]).await;
        check(&format!("{MAPS}/large"), "gzip", &["Accept-Encoding"]).await;
        cluster.stop().await;
    });
}
