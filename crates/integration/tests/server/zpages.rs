//! `/statusz` and `/flagz`: formats, versions, errors and gates. The expected answers are upstream's for the same
//! headers (`statusz` and `flagz` of apiserver's `pkg/server`).

use std::collections::BTreeMap;

use pintle::{AccessOptions, AuthorizationMode, Options};
use pintle_gates::FeatureGatesFlag;
use pintle_integration::{Cluster, Response, run};
use serde_json::{Value, json};

const TEXT: &str = "text/plain; charset=utf-8";
const ACCEPTED: &str = "only the following media types are accepted: application/json, application/yaml, text/plain";
/// The possible delimiters between a name and its value.
const DELIMITERS: [&str; 4] = [":", ": ", "=", " "];

fn options(gates: &str) -> Options {
    let flags = [("bind-address", "0.0.0.0"), ("b", "true"), ("cors", "[a,b]")];
    let flags: BTreeMap<String, String> =
        flags.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut flag = FeatureGatesFlag::default();
    flag.add(gates);
    let (gates, _) = flag.gates(Default::default()).expect("gates");
    Options { flags: Some(flags), gates, ..Options::default() }
}

async fn get(cluster: &Cluster, path: &str, accept: &str) -> Response {
    let request = cluster.request("GET", path);
    if accept.is_empty() { request.send().await } else { request.header("accept", accept).send().await }
}

/// The target of an `Accept` header.
fn target(media_type: &str, version: &str, kind: &str) -> String {
    format!("{media_type};v={version};g=config.k8s.io;as={kind}")
}

#[test]
fn pages_are_negotiated_as_upstream() {
    run(async {
        let cluster = Cluster::with_options(options("")).await;
        for (path, kind) in [("/flagz", "Flagz"), ("/statusz", "Statusz")] {
            for accept in ["", " ", "*/*", "text/plain", "text/*", "application/json, */*"] {
                let response = get(&cluster, path, accept).await.expect(200);
                assert_eq!(response.header("content-type"), TEXT, "{path} {accept}");
            }
            for media_type in ["application/json", "application/yaml", "*/*"] {
                for version in ["v1beta1", "v1alpha1"] {
                    let response = get(&cluster, path, &target(media_type, version, kind)).await.expect(200);
                    let encoding = media_type.replace("*/*", "application/json");
                    let content_type = format!("{encoding};g=config.k8s.io;v={version};as={kind}");
                    assert_eq!(response.header("content-type"), content_type);
                    let page = &path[1..];
                    let warning = format!(
                        "299 - \"This version of the {page} endpoint is deprecated. Please use a newer version.\""
                    );
                    let warns = version == "v1alpha1";
                    assert_eq!(response.header("warning"), if warns { warning.as_str() } else { "" });
                }
            }
            let refused = [
                "text/html".to_owned(),
                "application/json".to_owned(),
                "application/vnd.kubernetes.protobuf".to_owned(),
                target("application/vnd.kubernetes.protobuf", "v1beta1", kind),
                target("application/cbor", "v1beta1", kind),
                target("application/json", "v2", kind),
                target("application/json", "v1beta1", "Other"),
                target("text/plain", "v1beta1", kind),
                target("application/json;stream=watch", "v1beta1", kind),
                "text/plain;stream=watch".to_owned(),
            ];
            for accept in refused {
                let response = get(&cluster, path, &accept).await.expect(406);
                assert_eq!(response.header("content-type"), "application/json", "{accept}");
                let expect = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": ACCEPTED,
                    "reason": "NotAcceptable", "code": 406,
                });
                assert_eq!(response.json(), expect, "{accept}");
            }
            let yaml = get(&cluster, path, "application/yaml").await.expect(406);
            assert_eq!(yaml.header("content-type"), "application/yaml");
            let _ = cluster.request("GET", path).anonymous().send().await.expect(401);
        }
    });
}

#[test]
fn flags_are_shown_in_all_formats() {
    run(async {
        let cluster = Cluster::with_options(options("CBORServingAndStorage=true")).await;
        let text = get(&cluster, "/flagz", "").await.expect(200).text();
        let possible = DELIMITERS.map(|delimiter| {
            "\napiserver flagz\nWarning: This endpoint is not meant to be machine parseable, has no formatting \
         compatibility guarantees and is for debugging purposes only.\nb_true\nbind-address_0.0.0.0\ncors_[a,b]\n"
                .replace('_', delimiter)
        });
        assert!(possible.contains(&text), "{text}");
        // The page is the same for all requests.
        for _ in 0..8 {
            assert_eq!(get(&cluster, "/flagz", "").await.text(), text);
        }
        let json = get(&cluster, "/flagz", &target("application/json", "v1beta1", "Flagz")).await.expect(200);
        let expect = "{\"kind\":\"Flagz\",\"apiVersion\":\"config.k8s.io/v1beta1\",\"metadata\":{\"name\":\"apiserver\"},\
                  \"flags\":{\"b\":\"true\",\"bind-address\":\"0.0.0.0\",\"cors\":\"[a,b]\"}}\n";
        assert_eq!(json.text(), expect);
        let yaml = get(&cluster, "/flagz", &target("application/yaml", "v1alpha1", "Flagz")).await.expect(200);
        let expect = "apiVersion: config.k8s.io/v1alpha1\nflags:\n  b: \"true\"\n  bind-address: 0.0.0.0\n  \
                  cors: '[a,b]'\nkind: Flagz\nmetadata:\n  name: apiserver\n";
        assert_eq!(yaml.text(), expect);
        let cbor = get(&cluster, "/flagz", &target("application/cbor", "v1beta1", "Flagz")).await.expect(200);
        assert_eq!(cbor.header("content-type"), "application/cbor;g=config.k8s.io;v=v1beta1;as=Flagz");
        let indented = format!("{};pretty=1", target("application/json", "v1beta1", "Flagz"));
        let indented = get(&cluster, "/flagz", &indented).await.expect(200).text();
        assert!(indented.starts_with("{\n  \"kind\": \"Flagz\",\n  \"apiVersion\""), "{indented}");
        let refused = get(&cluster, "/flagz", "text/html").await.expect(406).json();
        assert_eq!(refused["message"], format!("{ACCEPTED}, application/cbor"));
    });
}

#[test]
fn the_status_names_version_times_and_paths() {
    run(async {
        let cluster = Cluster::with_options(options("")).await;
        let version = cluster.get("/version").await.expect(200).json();
        let binary = version["gitVersion"].as_str().expect("a version").trim_start_matches('v').to_owned();
        let paths = ["/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"];
        let json =
            get(&cluster, "/statusz", &target("application/json", "v1beta1", "Statusz")).await.expect(200).json();
        assert!(json["startTime"].as_str().is_some_and(|time| time.len() == 20 && time.ends_with('Z')), "{json}");
        assert!(json["uptimeSeconds"].as_i64().is_some_and(|seconds| seconds >= 0), "{json}");
        let mut fields = json.as_object().expect("an object").clone();
        fields.retain(|name, _| name != "startTime" && name != "uptimeSeconds");
        let expect = json!({
            "kind": "Statusz", "apiVersion": "config.k8s.io/v1beta1", "metadata": {"name": "apiserver"},
            "goVersion": version["goVersion"], "binaryVersion": binary, "emulationVersion": "1.36", "paths": paths,
        });
        assert_eq!(Value::Object(fields), expect);
        let text = get(&cluster, "/statusz", "").await.expect(200).text();
        let mut lines = text.lines();
        assert_eq!((lines.next(), lines.next()), (Some(""), Some("apiserver statusz")));
        assert!(lines.next().is_some_and(|line| line.starts_with("Warning: This endpoint is not meant to be")));
        assert_eq!(lines.next(), Some(""));
        let is_row = |line: &str, name: &str, value: &str| {
            DELIMITERS.iter().any(|delimiter| line == format!("{name}{delimiter} {value}"))
        };
        let started = lines.next().expect("a line");
        assert!(started.starts_with("Started") && started.contains(" UTC 20"), "{started}");
        let up = lines.next().expect("a line");
        assert!(up.starts_with("Up") && up.ends_with(" sec") && up.contains(" hr "), "{up}");
        let rows = [
            ("Go version", version["goVersion"].as_str().expect("a version").to_owned()),
            ("Binary version", binary),
            ("Emulation version", "1.36".to_owned()),
            ("Paths", paths.join(" ")),
        ];
        for (name, value) in rows {
            let line = lines.next().expect("a line");
            assert!(is_row(line, name, &value), "{line}");
        }
        assert_eq!(lines.next(), None);
    });
}

#[test]
fn pages_have_gates_and_count_as_resources() {
    run(async {
        let off = Cluster::with_options(options("ComponentFlagz=false,ComponentStatusz=false")).await;
        let index = off.get("/").await.expect(200).text();
        for path in ["/flagz", "/statusz"] {
            let _ = off.get(path).await.expect(404);
            assert!(!index.contains(path));
        }
        // A process without named flags has no page of flags.
        let unnamed = Cluster::start().await;
        let _ = unnamed.get("/flagz").await.expect(404);
        let _ = unnamed.get("/statusz/").await.expect(404);
        let cluster = Cluster::with_options(options("")).await;
        let index = cluster.get("/").await.expect(200).json();
        for (path, kind) in [("/flagz", "Flagz"), ("/statusz", "Statusz")] {
            assert!(index["paths"].as_array().expect("paths").contains(&json!(path)));
            let _ = get(&cluster, path, "").await.expect(200);
            let _ = get(&cluster, path, &target("application/json", "v1alpha1", kind)).await.expect(200);
        }
        let metrics = cluster.get("/metrics").await.expect(200).text();
        for resource in ["flagz", "statusz"] {
            let counted = |group: &str, version: &str| {
                format!(
                    "apiserver_request_total{{code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"{group}\",\
                 resource=\"{resource}\",scope=\"\",subresource=\"\",verb=\"GET\",version=\"{version}\"}} 1"
                )
            };
            assert!(metrics.contains(&counted("", "")), "{resource}");
            assert!(metrics.contains(&counted("config.k8s.io", "v1alpha1")), "{resource}");
            let deprecated = metrics.lines().find(|line| {
                line.starts_with("apiserver_requested_deprecated_apis{") && line.contains(&format!("\"{resource}\""))
            });
            assert!(deprecated.is_some_and(|line| line.contains("version=\"v1alpha1\"")), "{deprecated:?}");
        }
    });
}

#[test]
fn only_those_who_may_monitor_see_the_pages() {
    run(async {
        let access = AccessOptions {
            authorization_modes: vec![AuthorizationMode::Rbac],
            tokens: Some("secret,jane,1\nwatchful,mary,2,system:monitoring\n".to_owned()),
            ..AccessOptions::default()
        };
        let cluster = Cluster::with_options(Options { access, rbac_bootstrap: Some(true), ..options("") }).await;
        for path in ["/flagz", "/statusz"] {
            for (token, status) in [("secret", 403), ("watchful", 200)] {
                let request = cluster.request("GET", path).anonymous();
                let _ = request.header("authorization", &format!("Bearer {token}")).send().await.expect(status);
            }
        }
    });
}
