//! Response headers: caching, audit ID, CORS, warnings and `Vary`.

use std::io::Read as _;

use flate2::read::GzDecoder;
use pintle::Options;
use pintle_integration::{Cluster, Response};
use serde_json::json;

use crate::metrics::Scrape;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn check(response: &Response, headers: &[(&str, &str)]) {
    for (name, value) in headers {
        assert_eq!(response.header(name), *value, "{name}");
    }
}

#[test]
fn responses_are_private_and_have_an_audit_id() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        for path in [CONFIGMAPS, "/api", "/version", "/healthz", "/nothing", "/api/v1/nothing"] {
            let response = cluster.get(path).await;
            check(&response, &[("cache-control", "no-cache, private"), ("access-control-allow-origin", "")]);
            assert_eq!(response.header("audit-id").len(), 36, "{path}");
        }
        // Upstream echoes the client's audit ID, whatever its length.
        for id in ["mine", &"x".repeat(65)] {
            let with_id = cluster.request("GET", CONFIGMAPS).header("Audit-ID", id).send().await;
            check(&with_id, &[("audit-id", id)]);
        }
        cluster.stop().await;
    });
}

#[test]
fn cors_headers_are_sent_to_allowed_origins() {
    pintle_integration::run(async {
        let cors_allowed_origins = vec![r"//example\.com(:|$)".to_owned()];
        let cluster = Cluster::with_options(Options { cors_allowed_origins, ..Options::default() }).await;
        let cors_headers = [
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
        check(&from("GET", CONFIGMAPS).send().await.expect(200), &cors_headers);
        check(&from("GET", "/nothing").send().await.expect(404), &cors_headers);
        // Browsers send preflight requests without credentials.
        let preflight = from("OPTIONS", CONFIGMAPS).anonymous().send().await.expect(204);
        check(&preflight, &cors_headers);
        assert_eq!((preflight.text(), preflight.header("audit-id").len()), (String::new(), 36));
        check(&from("GET", CONFIGMAPS).anonymous().send().await.expect(401), &cors_headers);
        let other =
            cluster.request("OPTIONS", CONFIGMAPS).header("Origin", "https://example.org").send().await.expect(405);
        check(&other, &[("access-control-allow-origin", "")]);
        cluster.stop().await;
    });
}

#[test]
fn too_many_warnings_are_truncated() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let map = |fields: usize, length: usize| {
            let mut map = json!({"metadata": {"name": "a"}});
            for i in 0..fields {
                map[format!("{i:03}{}", "x".repeat(length - 1))] = json!(1);
            }
            map.to_string()
        };
        // Upstream reports at most 100 unknown fields and truncates warnings of more than 4096 characters in total.
        for (fields, length, expect) in [(3, 10, vec![28; 3]), (120, 10, vec![28; 100]), (30, 300, vec![256; 16])] {
            let response = cluster.post(&format!("{CONFIGMAPS}?dryRun=All"), map(fields, length)).await.expect(201);
            let warnings = response.headers.get_all("warning").iter().map(|text| text.to_str().expect("a text"));
            let lengths: Vec<usize> =
                warnings.map(|text| text.replace("\\\"", "'").len() - "299 - \"\"".len()).collect();
            assert_eq!(lengths, expect);
        }
        cluster.stop().await;
    });
}

#[test]
fn vary_lists_the_headers_that_select_the_encoding() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let check = async |path: &str, encoding: &str, expect: &[&str]| {
            let response = cluster.request("GET", path).header("Accept-Encoding", encoding).send().await.expect(200);
            let vary: Vec<&str> =
                response.headers.get_all("vary").iter().map(|v| v.to_str().expect("a text")).collect();
            assert_eq!(vary, expect, "{path} {encoding}");
        };
        check("/openapi/v2", "identity", &["Accept-Encoding", "Accept"]).await;
        check("/openapi/v2", "gzip", &["Accept-Encoding", "Accept"]).await;
        check(CONFIGMAPS, "gzip", &[]).await;
        check("/apis/apps/v1", "gzip", &[]).await;
        let large = json!({"metadata": {"name": "large"}, "data": {"k": "v".repeat(200_000)}}).to_string();
        let _ = cluster.post(CONFIGMAPS, large).await.expect(201);
        check(CONFIGMAPS, "identity", &[]).await;
        check(CONFIGMAPS, "gzip", &["Accept-Encoding"]).await;
        check(&format!("{CONFIGMAPS}/large"), "gzip", &["Accept-Encoding"]).await;
        cluster.stop().await;
    });
}

#[test]
fn compressed_lists_contain_what_lists_contain() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let kept = async || Scrape::of(&cluster, "/metrics").await.sum("pintle_compressed_blocks_bytes");
        for number in 0..60 {
            let text: String = (0..1_500).map(|line| format!("{} ", line * (number + 7))).collect();
            let object = json!({"metadata": {"name": format!("m{number:02}")}, "data": {"k": text}}).to_string();
            let _ = cluster.post(CONFIGMAPS, object).await.expect(201);
        }
        // The server writes other objects meanwhile, which would change the revision of the list.
        let list = cluster.get(CONFIGMAPS).await.expect(200).json();
        let revision = list["metadata"]["resourceVersion"].as_str().expect("a revision");
        let path = format!("{CONFIGMAPS}?resourceVersion={revision}&resourceVersionMatch=Exact");
        // Parts of a list are kept when it is sent for the second time, and used from the third time on.
        for round in 0..4 {
            let get = async |encoding: &str| {
                cluster.request("GET", &path).header("Accept-Encoding", encoding).send().await.expect(200)
            };
            let (plain, zipped) = (get("identity").await, get("gzip").await);
            assert_eq!(zipped.header("content-encoding"), "gzip");
            let mut unzipped = Vec::new();
            GzDecoder::new(&zipped.body[..]).read_to_end(&mut unzipped).expect("a gzip stream");
            assert!(unzipped == plain.body, "round {round}");
            assert_eq!(kept().await > 0.0, round > 0, "round {round}");
        }
        cluster.stop().await;
    });
}

#[test]
fn openapi_documents_are_served_by_range_and_condition() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        // The aggregator builds the index again for each request.
        let index = cluster.get("/openapi/v3").await.expect(200);
        check(&index, &[("content-type", "text/plain; charset=utf-8"), ("accept-ranges", "bytes"), ("etag", "")]);
        let url = index.json()["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().expect("a URL").to_owned();
        let document = cluster.get(&url).await.expect(200);
        check(&document, &[("cache-control", "public, immutable"), ("vary", "Accept"), ("accept-ranges", "bytes")]);
        let get = async |name: &str, value: &str| cluster.request("GET", &url).header(name, value).send().await;
        let unchanged = get("If-None-Match", document.header("etag")).await.expect(304);
        check(&unchanged, &[("content-type", ""), ("etag", document.header("etag"))]);
        let _ = get("If-Modified-Since", document.header("last-modified")).await.expect(304);
        let _ = get("If-Match", "\"other\"").await.expect(412);
        let part = get("Range", "bytes=1-9").await.expect(206);
        assert_eq!(part.body, document.body[1..10]);
        let parts = get("Range", "bytes=0-0,5-6").await.expect(206);
        let boundary =
            parts.header("content-type").strip_prefix("multipart/byteranges; boundary=").expect("a boundary");
        let (size, text) = (document.body.len(), document.text());
        let part = |range: &str, text: &str| {
            format!(
                "--{boundary}\r\nContent-Range: bytes {range}/{size}\r\nContent-Type: application/json\r\n\r\n{text}\r\n"
            )
        };
        assert_eq!(parts.text(), format!("{}{}--{boundary}--\r\n", part("0-0", &text[..1]), part("5-6", &text[5..7])));
        let missing = cluster.get("/openapi/v3/apis/nothing.io/v1").await.expect(404);
        assert!(missing.body.is_empty() && missing.header("content-type").is_empty());
        cluster.stop().await;
    });
}
