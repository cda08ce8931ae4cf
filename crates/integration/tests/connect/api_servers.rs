//! Requests for the versions of APIServices with a service, which are passed on to API servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pintle::{
    AccessOptions, AggregatorOptions, AuthorizationMode, CertificateFiles, Options, RequestHeaderNames, TlsOptions,
};
use pintle_gates::Gates;
use pintle_integration::{
    API_SERVICE, Cluster, HttpsServer, Protocol, ReceivedRequest, SERVICE_HOST as HOST, SentBody, SentResponse,
    condition, eventually, expect_waiting, run,
};
use pintle_versions::{EffectiveVersion, Minor};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The answer of an API server that describes the request which it has received.
fn echo(request: &ReceivedRequest) -> SentResponse {
    let headers: Vec<&str> = request.head.lines().skip(1).filter(|line| !line.is_empty()).collect();
    let body = String::from_utf8_lossy(&request.body);
    let line = request.head.lines().next().unwrap_or_default();
    SentResponse::json(200, json!({"line": line, "headers": headers, "body": body}).to_string())
}

/// The values of a header in the description of a request.
fn header<'v>(echoed: &'v Value, name: &str) -> Vec<&'v str> {
    let lines = echoed["headers"].as_array().expect("headers").iter().filter_map(Value::as_str);
    let pairs = lines.filter_map(|line| line.split_once(": "));
    pairs.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

#[test]
fn requests_name_the_user_and_nothing_that_the_client_claims() {
    run(async {
        let cluster = Cluster::with_api_services().await;
        let server = HttpsServer::start_with_http2(&[HOST], |request| async move { echo(&request) }).await;
        cluster.register_available(&server).await;
        let path = "/apis/x.example.com/v1/namespaces/n/things/a%2Fb?z=1&a=%20x&bad=%zz";
        for protocol in [Protocol::Http1, Protocol::Any] {
            let client = cluster.client(protocol);
            let request = client.request("POST", path).body("text/x", "hello");
            let request = request.header("x-remote-user", "mallory").header("x-remote-group", "system:nodes");
            let request = request.header("x-remote-extra-scopes", "all").header("x-remote-uid", "0");
            let request = request.header("x-forwarded-for", "10.0.0.9").header("audit-id", "my-id");
            let answer = request.header("authorization", "Bearer x").send().await.expect(200);
            assert_eq!(answer.headers["audit-id"], "my-id");
            let echoed = answer.json();
            let line = "POST /apis/x.example.com/v1/namespaces/n/things/a/b?a=+x&z=1 HTTP/2.0";
            assert_eq!((&echoed["line"], &echoed["body"]), (&json!(line), &json!("hello")));
            assert_eq!(header(&echoed, "x-remote-user"), ["kubernetes-admin"]);
            assert_eq!(header(&echoed, "x-remote-group"), ["system:masters", "system:authenticated"]);
            assert!(header(&echoed, "x-remote-uid").is_empty(), "{echoed}");
            assert!(header(&echoed, "x-remote-extra-scopes").is_empty(), "{echoed}");
            assert!(header(&echoed, "authorization").is_empty(), "{echoed}");
            let credential = header(&echoed, "x-remote-extra-authentication.kubernetes.io%2fcredential-id");
            assert!(credential[0].starts_with("X509SHA256="), "{echoed}");
            let host = format!("localhost:{}", server.port);
            assert_eq!(header(&echoed, "host"), [host.as_str()]);
            assert_eq!(header(&echoed, "x-forwarded-host"), [host.as_str()]);
            assert_eq!(header(&echoed, "x-forwarded-proto"), ["https"]);
            assert_eq!(header(&echoed, "x-forwarded-for"), ["10.0.0.9, 127.0.0.1"]);
            assert_eq!(header(&echoed, "audit-id"), ["my-id"]);
        }
        cluster.stop().await;
    });
}

#[test]
fn the_identity_is_no_header_of_the_connection() {
    run(async {
        let cluster = Cluster::with_api_services().await;
        let server = HttpsServer::start_with_names(&[HOST], |request| async move { echo(&request) }).await;
        cluster.register_available(&server).await;
        let client = cluster.client(Protocol::Http1);
        let extra = "x-remote-extra-authentication.kubernetes.io%2fcredential-id";
        let connection = format!("x-remote-user, x-remote-group, {extra}, audit-id, host, x-forwarded-for");
        let request = client.request("GET", "/apis/x.example.com/v1/things").header("connection", &connection);
        let echoed = request.header("audit-id", "my-id").send().await.expect(200).json();
        assert_eq!(header(&echoed, "x-remote-user"), ["kubernetes-admin"]);
        assert_eq!(header(&echoed, "x-remote-group"), ["system:masters", "system:authenticated"]);
        assert_eq!(header(&echoed, "x-forwarded-for"), ["127.0.0.1"]);
        assert_eq!((header(&echoed, extra).len(), header(&echoed, "audit-id").len()), (1, 1));
        assert!(header(&echoed, "connection").is_empty(), "{echoed}");
        cluster.stop().await;
    });
}

#[test]
fn certificates_have_to_be_valid_for_the_service() {
    run(async {
        let cluster = Cluster::with_api_services().await;
        let expired = HttpsServer::start_expired_with_names(&[HOST], |request| async move { echo(&request) }).await;
        cluster.register(&expired, &expired.ca_bundle()).await;
        let error = "tls: failed to verify certificate: x509: certificate has expired or is not yet valid";
        expect_tls_error(&cluster, &expired, error).await;
        let other = HttpsServer::start_with_names(&["t.default.svc"], |request| async move { echo(&request) }).await;
        let spec = json!({"caBundle": other.ca_bundle(), "service": {"port": other.port}});
        let patch = json!({"spec": spec}).to_string();
        let _ = cluster.patch(API_SERVICE, "merge", patch).await.expect(200);
        let error =
            "tls: failed to verify certificate: x509: certificate is valid for t.default.svc, not s.default.svc";
        expect_tls_error(&cluster, &other, error).await;
        cluster.stop().await;
    });
}

/// Waits until the API server is not available due to an error. Then requests are refused. While the APIService still
/// seems available, the answer has the error.
async fn expect_tls_error(cluster: &Cluster, server: &HttpsServer, error: &str) {
    let url = format!("https://localhost:{}/apis/x.example.com/v1", server.port);
    let start = format!("failing or missing response from {url}: Get \"{url}\": {error}");
    let is_expected =
        |found: &Value| condition(found)["message"].as_str().is_some_and(|message| message.starts_with(&start));
    let found = cluster.get_until(API_SERVICE, |found| is_expected(&found.json())).await.json();
    assert_eq!(condition(&found)["reason"], "FailedDiscoveryCheck");
    assert_eq!(cluster.get("/apis/x.example.com/v1/things").await.expect(503).text(), "service unavailable\n");
    let available = json!({
        "status": {"conditions": [{"type": "Available", "status": "True", "reason": "Passed", "message": ""}]},
    });
    eventually(error, || async {
        let _ = cluster.patch(&format!("{API_SERVICE}/status"), "merge", available.to_string()).await.expect(200);
        let text = cluster.get("/apis/x.example.com/v1/things").await.expect(503).text();
        text.starts_with(&format!("error trying to reach service: {error}"))
    })
    .await;
}

#[test]
fn impersonated_users_are_named() {
    run(async {
        let cluster = Cluster::with_api_services().await;
        let server = HttpsServer::start_with_names(&[HOST], |request| async move { echo(&request) }).await;
        cluster.register_available(&server).await;
        let request = cluster.request("GET", "/apis/x.example.com/v1/things").header("impersonate-user", "jane");
        let request = request.header("impersonate-group", "system:masters").header("impersonate-uid", "7");
        let echoed = request.header("impersonate-extra-scopes", "view").send().await.expect(200).json();
        assert_eq!(header(&echoed, "x-remote-user"), ["jane"]);
        assert_eq!(header(&echoed, "x-remote-group"), ["system:masters", "system:authenticated"]);
        assert_eq!(header(&echoed, "x-remote-extra-scopes"), ["view"]);
        for name in ["impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-scopes"] {
            assert!(header(&echoed, name).is_empty(), "{echoed}");
        }
        cluster.stop().await;
    });
}

#[test]
fn redirects_are_neither_followed_nor_passed_on() {
    run(async {
        let cluster = Cluster::with_api_services().await;
        let server = HttpsServer::start_with_names(&[HOST], |request| async move {
            match request.path.as_str() {
                "/apis/x.example.com/v1/302" => SentResponse::new(302, "").header("Location: https://10.0.0.1/secret"),
                "/apis/x.example.com/v1/304" => SentResponse::new(304, ""),
                _ => echo(&request),
            }
        });
        let server = server.await;
        cluster.register_available(&server).await;
        let answer = cluster.get("/apis/x.example.com/v1/302").await.expect(502);
        assert_eq!(answer.text(), "the backend attempted to redirect this request, which is not permitted");
        assert!(!answer.headers.contains_key("location"), "{:?}", answer.headers);
        let _ = cluster.get("/apis/x.example.com/v1/304").await.expect(304);
        cluster.stop().await;
    });
}

#[test]
fn faults_of_an_api_server_are_reported_and_end_with_it() {
    run(async {
        let cluster = Cluster::with_api_services().await;
        let is_broken = Arc::new(AtomicBool::new(true));
        let broken = is_broken.clone();
        let server = HttpsServer::start_with_names(&[HOST], move |request| {
            let is_broken = broken.load(Ordering::Relaxed);
            async move { if is_broken { SentResponse::new(500, "oops") } else { echo(&request) } }
        })
        .await;
        // An authority that has not signed the certificate.
        let other = HttpsServer::start_with_names(&[HOST], |request| async move { echo(&request) }).await;
        cluster.register(&server, &other.ca_bundle()).await;
        let url = format!("https://localhost:{}/apis/x.example.com/v1", server.port);
        assert_eq!(
            cluster.wait_for_reason("FailedDiscoveryCheck").await,
            format!(
                "failing or missing response from {url}: Get \"{url}\": tls: failed to verify certificate: x509: \
                 certificate signed by unknown authority"
            )
        );
        let answer = cluster.get("/apis/x.example.com/v1/things").await.expect(503);
        assert_eq!(answer.text(), "service unavailable\n");
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
        // The right authority, but an error.
        let patch = json!({"spec": {"caBundle": server.ca_bundle()}}).to_string();
        let _ = cluster.request("PATCH", API_SERVICE).body("application/merge-patch+json", patch).send().await;
        let is_status = |found: &Value| condition(found)["message"].as_str().is_some_and(|text| text.contains("500"));
        let found = cluster.get_until(API_SERVICE, |found| is_status(&found.json())).await.json();
        let message = format!("failing or missing response from {url}: bad status from {url}: 500");
        assert_eq!(condition(&found)["message"], json!(message));
        is_broken.store(false, Ordering::Relaxed);
        let _ = cluster.wait_for_reason("Passed").await;
        let _ = cluster.get("/apis/x.example.com/v1/things").await.expect(200);
        // The service is gone.
        let _ = cluster.delete("/api/v1/namespaces/default/services/s").await.expect(200);
        assert_eq!(cluster.wait_for_reason("ServiceNotFound").await, "service/s in \"default\" is not present");
        let _ = cluster.get_until_status("/apis/x.example.com/v1/things", 503).await;
        let metrics = cluster.get("/metrics").await.expect(200).text();
        for line in [
            "aggregator_unavailable_apiservice{name=\"v1.x.example.com\"} 1\n",
            "aggregator_unavailable_apiservice_total{name=\"v1.x.example.com\",reason=\"ServiceNotFound\"} 1\n",
        ] {
            assert!(metrics.contains(line), "{line}: {metrics}");
        }
        let _ = cluster.delete(API_SERVICE).await.expect(200);
        let _ = cluster.get("/apis/x.example.com/v1/things").await.expect(404);
        cluster.stop().await;
    });
}

#[test]
fn services_need_a_port_and_ready_endpoints() {
    run(async {
        let cluster = Cluster::with_api_services().await;
        let server = HttpsServer::start_with_names(&[HOST], |request| async move { echo(&request) }).await;
        cluster.register(&server, "").await;
        let _ = cluster.delete("/api/v1/namespaces/default/services/s").await.expect(200);
        let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"name": "https", "port": 443}]}});
        let _ = cluster.post("/api/v1/namespaces/default/services", service.to_string()).await.expect(201);
        let message = format!("service/s in \"default\" is not listening on port {}", server.port);
        assert_eq!(cluster.wait_for_reason("ServicePortError").await, message);
        let patch = json!({"spec": {"service": {"port": 443}}}).to_string();
        let _ = cluster.request("PATCH", API_SERVICE).body("application/merge-patch+json", patch).send().await;
        let message = "cannot find endpointslices for service/s in \"default\"";
        assert_eq!(cluster.wait_for_reason("EndpointsNotFound").await, message);
        let slice = |ready: bool| {
            json!({
                "metadata": {"name": "s", "labels": {"kubernetes.io/service-name": "s"}}, "addressType": "IPv4",
                "ports": [{"name": "https", "port": server.port}],
                "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}],
            })
        };
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        let _ = cluster.post(slices, slice(false).to_string()).await.expect(201);
        let message = "endpointslices for service/s in \"default\" have no addresses with port name \"https\"";
        assert_eq!(cluster.wait_for_reason("MissingEndpoints").await, message);
        let refused = cluster.get("/apis/x.example.com/v1/things").await.expect(503);
        assert_eq!(refused.text(), "service unavailable\n");
        let metrics = cluster.get("/metrics").await.expect(200).text();
        let ended = "apiserver_request_terminations_total{code=\"503\",component=\"aggregator\",\
                     group=\"x.example.com\",resource=\"\",scope=\"cluster\",subresource=\"\",verb=\"LIST\",\
                     version=\"v1\"} 1\n";
        assert!(metrics.contains(ended), "{metrics}");
        cluster.stop().await;
    });
}

#[test]
fn an_api_server_that_hangs_delays_nothing_else() {
    run(async {
        let cluster = Cluster::with_api_services().await;
        let is_hanging = Arc::new(AtomicBool::new(false));
        let hanging = is_hanging.clone();
        let server = HttpsServer::start_with_names(&[HOST], move |request| {
            let hangs = hanging.load(Ordering::Relaxed);
            async move {
                if hangs {
                    std::future::pending::<()>().await;
                }
                echo(&request)
            }
        })
        .await;
        cluster.register_available(&server).await;
        is_hanging.store(true, Ordering::Relaxed);
        let mut hung = Box::pin(cluster.request("GET", "/apis/x.example.com/v1/things").send());
        expect_waiting("the API server does not answer", &mut hung).await;
        drop(hung);
        // The time limit of discovery.
        let answer = cluster.get("/apis/x.example.com/v1").await.expect(503);
        assert_eq!(answer.text(), "error trying to reach service: context deadline exceeded\n");
        let list = cluster.get("/apis").await.expect(200).json();
        let groups = list["groups"].as_array().expect("groups");
        assert!(groups.iter().any(|group| group["name"] == "x.example.com"), "{list}");
        let _ = cluster.get("/openapi/v2").await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn large_and_broken_bodies_are_passed_on_as_they_are() {
    run(async {
        let cluster = Cluster::with_api_services().await;
        let server = HttpsServer::start_with_names(&[HOST], |request| async move {
            let mut answer = SentResponse::json(200, vec![b' '; 8 << 20]);
            answer.body = match request.path.as_str() {
                "/apis/x.example.com/v1/cut" => SentBody::CutOff,
                "/apis/x.example.com/v1/large" => answer.body,
                _ => return echo(&request),
            };
            answer
        })
        .await;
        cluster.register_available(&server).await;
        assert_eq!(cluster.get("/apis/x.example.com/v1/large").await.expect(200).body.len(), 8 << 20);
        let cut = cluster.client(Protocol::Http1).request("GET", "/apis/x.example.com/v1/cut").try_send().await;
        assert!(cut.is_err(), "a body that breaks off does not look complete");
        cluster.stop().await;
    });
}

#[test]
fn versions_of_api_servers_are_discovered() {
    run(async {
        let cluster = Cluster::with_api_services().await;
        let resources = json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "x.example.com/v1",
            "resources": [
                {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing",
                 "verbs": ["get", "list"], "shortNames": ["th"]},
                {"name": "things/status", "singularName": "", "namespaced": true, "kind": "Thing", "verbs": ["get"]},
            ],
        });
        let is_garbage = Arc::new(AtomicBool::new(false));
        let garbage = is_garbage.clone();
        let server = HttpsServer::start_with_names(&[HOST], move |request| {
            let (text, is_garbage) = (resources.to_string(), garbage.load(Ordering::Relaxed));
            async move {
                match request.path.as_str() {
                    "/apis/x.example.com/v1" if is_garbage => SentResponse::json(200, "[not json"),
                    "/apis/x.example.com/v1" => SentResponse::json(200, text),
                    _ => SentResponse::new(404, "404 page not found"),
                }
            }
        })
        .await;
        cluster.register_available(&server).await;
        let discovered = async |freshness: &str| {
            let read = async || {
                let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
                let list = cluster.request("GET", "/apis").header("accept", accept).send().await.expect(200).json();
                let groups = list["items"].as_array().expect("groups").clone();
                let group = groups.into_iter().find(|group| group["metadata"]["name"] == "x.example.com");
                group.unwrap_or_default()["versions"][0].clone()
            };
            eventually(freshness, || async { read().await["freshness"] == freshness }).await;
            read().await
        };
        let kind = json!({"group": "", "version": "", "kind": "Thing"});
        let expect = json!({
            "version": "v1", "freshness": "Current",
            "resources": [{
                "resource": "things", "responseKind": kind, "scope": "Namespaced", "singularResource": "thing",
                "verbs": ["get", "list"], "shortNames": ["th"],
                "subresources": [{"subresource": "status", "responseKind": kind, "verbs": ["get"]}],
            }],
        });
        assert_eq!(discovered("Current").await, expect);
        let group = cluster.get("/apis/x.example.com").await.expect(200).json();
        assert_eq!(group["preferredVersion"]["groupVersion"], "x.example.com/v1");
        is_garbage.store(true, Ordering::Relaxed);
        // Another change of the APIService, so that the API server is asked again at once.
        let patch = json!({"spec": {"versionPriority": 11}}).to_string();
        let _ = cluster.request("PATCH", API_SERVICE).body("application/merge-patch+json", patch).send().await;
        assert_eq!(discovered("Stale").await, json!({"version": "v1", "freshness": "Stale"}));
        cluster.stop().await;
    });
}

/// Up to 1.36, the aggregation layer knows aggregated discovery v2beta1. Since then it asks such an API server for the
/// documents of its versions.
#[test]
fn since_1_37_only_the_stable_form_of_aggregated_discovery_is_known() {
    const BETA: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    const STABLE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let resource = |name: &str, kind: Value| json!({"resource": name, "responseKind": kind, "scope": "Cluster", "singularResource": "x", "verbs": ["get"]});
    let aggregated = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2beta1", "items": [{
            "metadata": {"name": "x.example.com"},
            "versions": [{"version": "v1", "resources": [resource("betas", json!({"group": "", "version": "", "kind": "Beta"}))]}],
        }],
    });
    let single = json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "x.example.com/v1",
        "resources": [{"name": "things", "singularName": "x", "namespaced": false, "kind": "Thing", "verbs": ["get"]}],
    });
    run(async move {
        for (minor, accept, expect) in [(36, format!("{STABLE},{BETA}"), "betas"), (37, STABLE.to_owned(), "things")] {
            let gates = Gates::of(EffectiveVersion::of(Minor::new(minor)));
            let cluster = Cluster::with_options(Options { gates, api_services: true, ..Options::default() }).await;
            let (aggregated, single) = (aggregated.to_string(), single.to_string());
            let server = HttpsServer::start_with_names(&[HOST], move |request| {
                let (aggregated, single) = (aggregated.clone(), single.clone());
                let accept = accept.to_lowercase();
                async move {
                    match request.path.as_str() {
                        "/apis" if request.head.to_lowercase().contains(&format!("accept: {accept}\r\n")) => {
                            SentResponse::new(200, aggregated).header(&format!("Content-Type: {BETA}"))
                        }
                        "/apis/x.example.com/v1" => SentResponse::json(200, single),
                        _ => SentResponse::new(404, "404 page not found"),
                    }
                }
            })
            .await;
            cluster.register_available(&server).await;
            eventually(expect, || async {
                let list = cluster.request("GET", "/apis").header("accept", STABLE).send().await.expect(200).json();
                let groups = list["items"].as_array().cloned().unwrap_or_default();
                let group = groups.into_iter().find(|group| group["metadata"]["name"] == "x.example.com");
                group.unwrap_or_default()["versions"][0]["resources"][0]["resource"] == expect
            })
            .await;
            cluster.stop().await;
        }
    });
}

#[test]
fn groups_are_negotiated_by_the_aggregation_layer() {
    run(async {
        let cluster = Cluster::with_api_services().await;
        let accepted = "only the following media types are accepted: application/json, application/yaml, \
                        application/vnd.kubernetes.protobuf";
        let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        for (path, accept) in [("/apis", "text/html"), ("/apis/apps", "text/html"), ("/apis", beta)] {
            let answer = cluster.request("GET", path).header("accept", accept).send().await;
            answer.expect_error(406, "NotAcceptable", accepted);
        }
        assert_eq!(cluster.get("/apis//apps/v1/deployments").await.expect(404).text(), "404 page not found\n");
        cluster.stop().await;
    });
}

#[test]
fn documents_are_only_of_versions_that_are_available() {
    run(async {
        let cluster = Cluster::with_api_services().await;
        let server = HttpsServer::start_with_names(&[HOST], |request| async move {
            match request.path.as_str() {
                "/openapi/v2" => SentResponse::json(200, r#"{"swagger":"2.0","info":{"title":"x"},"paths":{}}"#),
                "/apis" | "/openapi/v3" | "/apis/x.example.com/v2" => SentResponse::new(404, "404 page not found"),
                _ => echo(&request),
            }
        })
        .await;
        cluster.register(&server, &server.ca_bundle()).await;
        let other = json!({
            "metadata": {"name": "v2.x.example.com"},
            "spec": {
                "group": "x.example.com", "version": "v2", "groupPriorityMinimum": 100, "versionPriority": 10,
                "caBundle": server.ca_bundle(),
                "service": {"namespace": "default", "name": "s", "port": server.port},
            },
        });
        let path = "/apis/apiregistration.k8s.io/v1/apiservices";
        let _ = cluster.post(path, other.to_string()).await.expect(201);
        let _ = cluster.wait_for_reason("Passed").await;
        let is_failed = |found: &Value| condition(found)["reason"] == "FailedDiscoveryCheck";
        let _ = cluster.get_until(&format!("{path}/v2.x.example.com"), |found| is_failed(&found.json())).await;
        let has = |index: &Value, version: &str| index["paths"].get(format!("apis/x.example.com/{version}")).is_some();
        let _ = cluster.get_until("/openapi/v3", |found| has(&found.json(), "v1") && !has(&found.json(), "v2")).await;
        let _ = cluster.get("/openapi/v3/apis/x.example.com/v2").await.expect(404);
        cluster.stop().await;
    });
}

#[test]
fn paths_are_authorized_as_they_are_sent() {
    run(async {
        let access = AccessOptions {
            tokens: Some("jane-token,jane,1\n".to_owned()),
            authorization_modes: vec![AuthorizationMode::Rbac],
            ..AccessOptions::default()
        };
        let options = Options { api_services: true, access, rbac_bootstrap: Some(true), ..Options::default() };
        let cluster = Cluster::with_options(options).await;
        let server = HttpsServer::start_with_names(&[HOST], |request| async move { echo(&request) }).await;
        cluster.register_available(&server).await;
        let rules = json!([{"apiGroups": ["x.example.com"], "resources": ["things"], "verbs": ["get"]}]);
        let role = json!({"metadata": {"name": "things"}, "rules": rules});
        let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        let _ = cluster.post(roles, role.to_string()).await.expect(201);
        let binding = json!({
            "metadata": {"name": "things"}, "subjects": [{"kind": "User", "name": "jane"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "things"},
        });
        let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        let _ = cluster.post(bindings, binding.to_string()).await.expect(201);
        let get = async |path: &str| {
            let request = cluster.request("GET", path).anonymous().header("authorization", "Bearer jane-token");
            request.send().await
        };
        let sent = async |path: &str| {
            let line = get(path).await.expect(200).json()["line"].as_str().expect("a line").to_owned();
            line.trim_start_matches("GET ").trim_end_matches(" HTTP/1.1").to_owned()
        };
        let prefix = "/apis/x.example.com/v1";
        assert_eq!(sent(&format!("{prefix}/things/a")).await, format!("{prefix}/things/a"));
        // The slash is decoded for the decision and for the API server.
        assert_eq!(sent(&format!("{prefix}/things%2Fa")).await, format!("{prefix}/things/a"));
        assert_eq!(sent(&format!("{prefix}/things/a%3Fwatch=1")).await, format!("{prefix}/things/a%3Fwatch=1"));
        let _ = get(&format!("{prefix}/secrets%2Fa")).await.expect(403);
        let _ = get(&format!("{prefix}/../v2/things/a")).await.expect(403);
        let _ = get(&format!("{prefix}/../../../api/v1/secrets")).await.expect(403);
        let _ = get(&format!("{prefix}/%2e%2e/things")).await.expect(403);
        let _ = get(&format!("{prefix}/things/../b")).await.expect(403);
        cluster.stop().await;
    });
}

#[test]
fn upgrades_are_passed_on_or_refused() {
    run(async {
        let cluster = Cluster::with_api_services().await;
        let server = HttpsServer::start_with_names(&[HOST], |request| async move {
            match request.path.as_str() {
                "/apis/x.example.com/v1/refused" => SentResponse::new(418, "no").header("Retry-After: 7"),
                "/apis/x.example.com/v1/closed" => {
                    let body = SentBody::Verbatim { bytes: Vec::new(), is_whole: false };
                    SentResponse { body, ..SentResponse::new(0, "") }
                }
                _ => echo(&request),
            }
        })
        .await;
        cluster.register_available(&server).await;
        for (path, status, body) in [
            ("ignored", "503 ", "invalid upgrade response: status code 200\n"),
            ("closed", "503 ", "unexpected EOF\n"),
            ("refused", "418 ", "no"),
        ] {
            let request = format!(
                "GET /apis/x.example.com/v1/{path} HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: echo\r\n\
                 x-remote-user: mallory\r\n\r\n"
            );
            let mut socket = cluster.connect().await;
            socket.write_all(request.as_bytes()).await.expect("the request is sent");
            let mut answer = Vec::new();
            while !answer.ends_with(body.as_bytes()) {
                assert_ne!(socket.read_buf(&mut answer).await.expect("bytes"), 0, "{path}");
            }
            let answer = String::from_utf8_lossy(&answer);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        }
        cluster.stop().await;
    });
}

/// The files of an authority, and of a front proxy's certificate that it has signed.
fn front_proxy_files() -> (tempfile::TempDir, CertificateFiles) {
    let files = tempfile::tempdir().expect("a temporary folder");
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = authority.self_signed(&key).expect("a certificate").pem();
    std::fs::write(files.path().join("ca.crt"), certificate).expect("a file");
    let issuer = Issuer::new(authority, key);
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, "front-proxy-client");
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().expect("a key");
    let certificate = parameters.signed_by(&key, &issuer).expect("a certificate").pem();
    let written =
        CertificateFiles { certificate: files.path().join("client.crt"), key: files.path().join("client.key") };
    std::fs::write(&written.certificate, certificate).expect("a file");
    std::fs::write(&written.key, key.serialize_pem()).expect("a file");
    (files, written)
}

#[test]
fn a_loop_ends() {
    run(async {
        // The server accepts its own certificate as a front proxy's, as kubeadm configures it.
        let (files, client_certificate) = front_proxy_files();
        let names = |name: &str| vec![name.to_owned()];
        let request_headers = RequestHeaderNames {
            username: names("X-Remote-User"),
            group: names("X-Remote-Group"),
            extra_prefixes: names("X-Remote-Extra-"),
            ..RequestHeaderNames::default()
        };
        let options = Options {
            api_services: true,
            aggregation: AggregatorOptions {
                client_certificate: Some(client_certificate),
                ..AggregatorOptions::default()
            },
            tls: TlsOptions { request_header_ca: Some(files.path().join("ca.crt")), ..TlsOptions::default() },
            access: AccessOptions { request_headers, ..AccessOptions::default() },
            ..Options::default()
        };
        let cluster = Cluster::with_options(options).await;
        let port: u16 = cluster.url().rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
        let service = json!({
            "metadata": {"name": "s"}, "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        let _ = cluster.post("/api/v1/namespaces/default/services", service.to_string()).await.expect(201);
        let api_service = json!({
            "metadata": {"name": "v1.x.example.com"},
            "spec": {
                "group": "x.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
                "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "s", "port": port},
            },
        });
        let path = "/apis/apiregistration.k8s.io/v1/apiservices";
        let _ = cluster.post(path, api_service.to_string()).await.expect(201);
        // The server does not find itself available. Somebody else may say so.
        let available = json!({
            "status": {"conditions": [{"type": "Available", "status": "True", "reason": "Passed", "message": ""}]},
        });
        eventually("the loop ends with an error", || async {
            let request = cluster.request("PATCH", &format!("{API_SERVICE}/status"));
            let _ = request.body("application/merge-patch+json", available.to_string()).send().await.expect(200);
            let answer = cluster.get("/apis/x.example.com/v1/things").await;
            answer.status == 502 && answer.text() == "the request has passed too many proxies\n"
        })
        .await;
        cluster.stop().await;
    });
}
