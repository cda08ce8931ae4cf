//! Requests that are proxied to pods, services and nodes.

use pintle_gates::Gates;
use pintle_integration::{Cluster, Kubelet, Options, POD_ADDRESS, Protocol, eventually, run};
use pintle_versions::{EffectiveVersion, Minor};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const PROXY: &str = "/api/v1/namespaces/default/pods/p/proxy";

/// Creates a service of the pod `p` with its endpoints.
async fn create_service(kubelet: &Kubelet, cluster: &Cluster) {
    let ports = json!([{"name": "web", "port": 80, "targetPort": kubelet.backend_port}]);
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": ports}});
    let _ = cluster.post("/api/v1/namespaces/default/services", service.to_string()).await.expect(201);
    let target = json!({"kind": "Pod", "namespace": "default", "name": "p"});
    let address = POD_ADDRESS.to_string();
    let endpoints = json!({
        "metadata": {"name": "s"},
        "subsets": [{
            "addresses": [{"ip": address, "targetRef": target}],
            "ports": [{"name": "web", "port": kubelet.backend_port}],
        }],
    });
    let _ = cluster.post("/api/v1/namespaces/default/endpoints", endpoints.to_string()).await.expect(201);
}

/// Since 1.37 the endpoints of a service are in EndpointSlices.
#[test]
fn proxies_of_services_choose_ready_endpoints_of_slices() {
    run(async {
        let kubelet = Kubelet::start();
        let gates = Gates::of(EffectiveVersion::of(Minor::new(37)));
        let cluster = kubelet.cluster(Options { gates, ..Options::default() }).await;
        create_service(&kubelet, &cluster).await;
        let target = json!({"kind": "Pod", "namespace": "default", "name": "p"});
        let endpoint = |address: &str, ready: bool| json!({"addresses": [address], "conditions": {"ready": ready}, "targetRef": target});
        let address = POD_ADDRESS.to_string();
        let proxies = ["s:web", "s:80"].map(|service| format!("/api/v1/namespaces/default/services/{service}/proxy/"));
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        for (name, endpoints, code) in [
            ("none", json!([]), 503),
            ("unready", json!([endpoint(&address, false)]), 503),
            ("foreign", json!([endpoint("10.1.2.3", true)]), 503),
            ("ready", json!([endpoint("10.1.2.3", true), endpoint(&address, true)]), 200),
        ] {
            let slice = json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "s"}}, "addressType": "IPv4",
                "ports": [{"name": "web", "port": kubelet.backend_port}], "endpoints": endpoints,
            });
            let _ = cluster.post(slices, slice.to_string()).await.expect(201);
            for proxy in &proxies {
                let _ = cluster.get(proxy).await.expect(code);
            }
        }
        cluster.stop().await;
    });
}

#[test]
fn requests_reach_their_backends_with_path_query_headers_and_body() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        create_service(&kubelet, &cluster).await;
        for prefix in [
            PROXY.to_owned(),
            format!("/api/v1/namespaces/default/pods/p:{}/proxy", kubelet.backend_port),
            format!("/api/v1/namespaces/default/pods/http:p:{}/proxy", kubelet.backend_port),
            "/api/v1/namespaces/default/services/s:web/proxy".to_owned(),
            "/api/v1/namespaces/default/services/s:80/proxy".to_owned(),
            "/api/v1/nodes/n/proxy".to_owned(),
        ] {
            for protocol in [Protocol::Http1, Protocol::Any] {
                let client = cluster.client(protocol);
                let request = client.request("POST", &format!("{prefix}/a%20b/c/?x=1&x=%2F&path=/y"));
                let request = request.header("x-own", "1").header("authorization", "Bearer x");
                let request = request.header("x-remote-group", "system:masters").header("x-forwarded-uri", "/other");
                let answer = request.header("x-forwarded-for", "10.0.0.9").body("text/x", "hello").send().await;
                let answer = answer.expect(200).json();
                assert_eq!(answer["uri"], "/a%20b/c/?x=1&x=%2F&path=/y", "{prefix}");
                assert_eq!((&answer["method"], &answer["body"]), (&json!("POST"), &json!("hello")));
                let headers = &answer["headers"];
                assert_eq!(headers["X-Own"], json!(["1"]));
                assert_eq!(headers["Content-Type"], json!(["text/x"]));
                assert_eq!(headers["X-Forwarded-For"], json!(["10.0.0.9, 127.0.0.1"]));
                assert_eq!(headers["X-Forwarded-Uri"], json!([format!("{prefix}/a%20b/c/")]));
                assert_eq!((&headers["Authorization"], &headers["X-Remote-Group"]), (&json!(null), &json!(null)));
                assert_eq!(answer["host"], cluster.url().trim_start_matches("https://"));
            }
        }
        let answer = cluster.get("/api/v1/nodes/n/proxy/metrics").await.expect(200).json();
        assert_eq!(answer["client"], "kube-apiserver-kubelet-client");
        cluster.stop().await;
    });
}

#[test]
fn bodies_of_unknown_length_reach_their_backends_with_every_method() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        for method in ["GET", "DELETE", "POST"] {
            let request = format!(
                "{method} {PROXY}/_search HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
                 5\r\nhello\r\n0\r\n\r\n"
            );
            let mut socket = cluster.connect().await;
            socket.write_all(request.as_bytes()).await.expect("the request is sent");
            let mut answer = Vec::new();
            let _ = socket.read_to_end(&mut answer).await;
            let answer = String::from_utf8_lossy(&answer);
            assert!(answer.contains(r#""body":"hello""#), "{method}: {answer}");
        }
        cluster.stop().await;
    });
}

#[test]
fn answers_come_back_without_the_headers_of_the_backends_connection() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let response = cluster.get(&format!("{PROXY}/cors")).await.expect(418);
        assert_eq!(response.header("x-kept"), "yes");
        assert_eq!(response.headers.get("access-control-allow-origin"), None);
        let values: Vec<_> = response.headers.get_all("cache-control").iter().collect();
        assert_eq!(values, ["no-cache, private", "max-age=5"]);
        cluster.stop().await;
    });
}

#[test]
fn a_backend_that_switches_protocols_unasked_is_an_error() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let message = r#"backend tried to switch protocol "other" when "" was requested"#;
        cluster.get(&format!("{PROXY}/switch")).await.expect_error(500, "", message);
        cluster.stop().await;
    });
}

#[test]
fn redirects_lead_through_the_proxy() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let backend = format!("http://{}:{}/z/?q=1#f", POD_ADDRESS, kubelet.backend_port);
        for (to, expect) in [
            ("/x", format!("{PROXY}/x")),
            ("x", "x".to_owned()),
            ("http://example.com/x", "http://example.com/x".to_owned()),
            (backend.as_str(), format!("{PROXY}/z/?q=1#f")),
        ] {
            let to = to.replace('#', "%23").replace('?', "%3F");
            let response = cluster.get(&format!("{PROXY}/redirect?to={to}")).await.expect(302);
            assert_eq!(response.header("location"), expect, "{to}");
        }
        let response = cluster.get(&format!("{PROXY}?a=b")).await.expect(301);
        assert_eq!(response.header("location"), format!("{PROXY}/?a=b"));
        cluster.stop().await;
    });
}

#[test]
fn links_of_pages_lead_through_the_proxy() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let page = cluster.get(&format!("{PROXY}/page")).await.expect(200);
        let expect = format!(
            "<!DOCTYPE html><HTML><a HREF=\"{PROXY}/below?x=1&amp;y=2\" class=\"k\">/below</a>\
             <img src='http://other/x'><script>'<a href=\"/x\">'</script></html>"
        );
        assert_eq!(page.text(), expect);
        let head = cluster.request("HEAD", &format!("{PROXY}/page")).send().await.expect(200);
        assert_eq!(head.header("content-type"), "text/html; charset=utf-8");
        cluster.stop().await;
    });
}

#[test]
fn a_body_without_an_end_is_streamed_and_ends_with_its_client_or_the_server() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        for protocol in [Protocol::Http1, Protocol::Any] {
            let client = cluster.client(protocol);
            let stream = client.request("GET", &format!("{PROXY}/endless")).stream().await.expect("a connection");
            let mut stream = stream.unwrap_or_else(|response| panic!("{}", response.text()));
            for _ in 0..3 {
                assert!(stream.next().await.expect("a connection").expect("a tick").starts_with(b"tick"));
            }
            assert_eq!(long_running(&cluster).await.as_deref(), Some("1"));
            drop(stream);
            drop(client);
            // The server notices the end of the client.
            let has_ended = || async { long_running(&cluster).await.as_deref() == Some("0") };
            eventually("the request ends", has_ended).await;
        }
        cluster.stop().await;
    });
}

/// The number of open connections to proxies of pods.
async fn long_running(cluster: &Cluster) -> Option<String> {
    let metrics = cluster.get("/metrics").await.expect(200).text();
    let found = metrics.lines().find(|line| {
        let labels = ["verb=\"CONNECT\"", "resource=\"pods\"", "subresource=\"proxy\"", "scope=\"resource\""];
        line.starts_with("apiserver_longrunning_requests{") && labels.iter().all(|label| line.contains(label))
    });
    found.and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
}
