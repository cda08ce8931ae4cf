//! The locations of connections, and the errors of connections without a location.

use pintle_gates::Gates;
use pintle_integration::{Cluster, Kubelet, Options, run};
use pintle_versions::{EffectiveVersion, Minor};

#[test]
fn connections_that_lead_nowhere_are_refused() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        kubelet.create_pod(&cluster, "two", &["a", "b"]).await;
        kubelet.create_pod_on(&cluster, "lost", &["c"], "gone").await;
        let pod = r#"{"metadata": {"name": "waiting"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}"#;
        let _ = cluster.post("/api/v1/namespaces/default/pods", pod).await.expect(201);
        let _ = cluster.post("/api/v1/nodes", r#"{"metadata": {"name": "silent"}}"#).await.expect(201);
        kubelet.create_pod_on(&cluster, "unreachable", &["c"], "silent").await;
        let service = r#"{"metadata": {"name": "s"}, "spec": {"ports": [{"name": "web", "port": 80}]}}"#;
        let _ = cluster.post("/api/v1/namespaces/default/services", service).await.expect(201);
        let endpoints = r#"{"metadata": {"name": "empty"}}"#;
        let _ = cluster.post("/api/v1/namespaces/default/endpoints", endpoints).await.expect(201);
        let pods = "/api/v1/namespaces/default/pods";
        for (path, code, reason, message) in [
            ("pods/x/exec", 404, "NotFound", r#"pods "x" not found"#),
            ("pods/p/exec?dryRun=All", 400, "BadRequest", "dryRun is not supported"),
            ("pods/p/exec?container=x", 400, "BadRequest", "container x is not valid for pod p"),
            (
                "pods/two/attach",
                400,
                "BadRequest",
                "a container name must be specified for pod two, choose one of: [a b]",
            ),
            ("pods/waiting/exec", 400, "BadRequest", "pod waiting does not have a host assigned"),
            ("pods/waiting/portforward", 400, "BadRequest", "pod waiting does not have a host assigned"),
            ("pods/lost/exec", 404, "NotFound", r#"nodes "gone" not found"#),
            ("pods/unreachable/exec", 500, "", "no preferred addresses found; known addresses: []"),
            ("pods/p/exec", 400, "BadRequest", "Upgrade request required"),
            ("pods/p/portforward?ports=x", 400, "BadRequest", r#"strconv.ParseInt: parsing "x": invalid syntax"#),
            ("pods/ftp:p:1/proxy/", 400, "BadRequest", r#"invalid pod request "ftp:p:1""#),
            ("pods/x/proxy/", 404, "NotFound", r#"pods "x" not found"#),
            ("pods/waiting/proxy/", 400, "BadRequest", "address not allowed"),
            ("services/a:b:c:d/proxy/", 400, "BadRequest", r#"invalid service request "a:b:c:d""#),
            ("services/s:81/proxy/", 503, "ServiceUnavailable", r#"no service port 81 found for service "s""#),
            ("services/s:80/proxy/", 404, "NotFound", r#"endpoints "s" not found"#),
            ("services/empty/proxy/", 503, "ServiceUnavailable", r#"no endpoints available for service "empty""#),
        ] {
            let path = format!("/api/v1/namespaces/default/{path}");
            cluster.post(&path, "").await.expect_error(code, reason, message);
        }
        let node = r#"{"metadata": {"name": "local"}, "status": {"addresses": [{"type": "Hostname", "address": "localhost"}]}}"#;
        let _ = cluster.post("/api/v1/nodes", node).await.expect(201);
        let _ = cluster.put("/api/v1/nodes/local/status", node).await.expect(200);
        for (node, code, reason, message) in [
            ("x", 404, "NotFound", r#"nodes "x" not found"#),
            ("silent", 500, "", "no preferred addresses found; known addresses: []"),
            (":80", 400, "BadRequest", r#"invalid node request ":80""#),
            ("local", 400, "BadRequest", "address not allowed"),
            ("local:1", 400, "BadRequest", "address not allowed"),
            (
                "n:80@127.0.0.1",
                503,
                "ServiceUnavailable",
                "error trying to reach service: dial tcp: lookup tcp/80@127.0.0.1: unknown port",
            ),
        ] {
            let path = format!("/api/v1/nodes/{node}/proxy/");
            cluster.get(&path).await.expect_error(code, reason, message);
        }
        // No server listens on port 1.
        let message = "error trying to reach service: dial tcp 127.0.0.1:1: connect: connection refused";
        cluster.get(&format!("{pods}/p:1/proxy/")).await.expect_error(503, "ServiceUnavailable", message);
        cluster.stop().await;
    });
}

/// Since 1.37 proxies of services choose endpoints from EndpointSlices.
#[test]
fn services_without_endpoints_are_unavailable() {
    run(async {
        for (minor, without_slices, invalid) in [
            (36, (404, "NotFound", r#"endpoints "s" not found"#), "s:web"),
            (37, (503, "ServiceUnavailable", r#"no endpoints available for service "s""#), "s"),
        ] {
            let gates = Gates::of(EffectiveVersion::of(Minor::new(minor)));
            let cluster = Cluster::with_options(Options { gates, ..Options::default() }).await;
            let service = r#"{"metadata": {"name": "s"}, "spec": {"ports": [{"name": "web", "port": 80}]}}"#;
            let _ = cluster.post("/api/v1/namespaces/default/services", service).await.expect(201);
            let proxy = "/api/v1/namespaces/default/services/s:web/proxy/";
            let (code, reason, message) = without_slices;
            cluster.get(proxy).await.expect_error(code, reason, message);
            // No pod has the address.
            let endpoints = r#"{"metadata": {"name": "s"},
                "subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"name": "web", "port": 80}]}]}"#;
            let _ = cluster.post("/api/v1/namespaces/default/endpoints", endpoints).await.expect(201);
            let slice = r#"{"metadata": {"name": "s", "labels": {"kubernetes.io/service-name": "s"}}, "addressType": "IPv4",
                "ports": [{"name": "web", "port": 80}], "endpoints": [{"addresses": ["10.1.2.3"]}]}"#;
            let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
            let _ = cluster.post(slices, slice).await.expect(201);
            let message = format!("no endpoints available for service \"{invalid}\"");
            cluster.get(proxy).await.expect_error(503, "ServiceUnavailable", &message);
            cluster.stop().await;
        }
    });
}

#[test]
fn methods_are_those_of_upstreams_connectors() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let pods = "/api/v1/namespaces/default/pods/p";
        let not_allowed = "the server does not allow this method on the requested resource";
        for (method, path) in [("PUT", "exec"), ("DELETE", "attach"), ("PATCH", "portforward"), ("POST", "log")] {
            let response = cluster.request(method, &format!("{pods}/{path}")).send().await;
            response.expect_error(405, "MethodNotAllowed", not_allowed);
        }
        for path in ["exec/below", "log/below"] {
            let message = "the server could not find the requested resource";
            cluster.get(&format!("{pods}/{path}")).await.expect_error(404, "NotFound", message);
        }
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            let answer = cluster.request(method, &format!("{pods}/proxy/x")).send().await.expect(200).json();
            assert_eq!(answer["method"], method);
        }
        let head = cluster.request("HEAD", &format!("{pods}/proxy/x")).send().await.expect(200);
        assert_eq!((head.header("content-type"), head.text().as_str()), ("application/json", ""));
        cluster.stop().await;
    });
}

#[test]
fn discovery_lists_connections() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let list = cluster.get("/api/v1").await.expect(200).json();
        for (name, kind, verbs) in [
            ("nodes/proxy", "NodeProxyOptions", &["create", "delete", "get", "patch", "update"][..]),
            ("pods/attach", "PodAttachOptions", &["create", "get"]),
            ("pods/exec", "PodExecOptions", &["create", "get"]),
            ("pods/log", "Pod", &["get"]),
            ("pods/portforward", "PodPortForwardOptions", &["create", "get"]),
            ("pods/proxy", "PodProxyOptions", &["create", "delete", "get", "patch", "update"]),
            ("services/proxy", "ServiceProxyOptions", &["create", "delete", "get", "patch", "update"]),
        ] {
            let found = list["resources"].as_array().expect("a list").iter().find(|resource| resource["name"] == name);
            let found = found.unwrap_or_else(|| panic!("{name} is missing"));
            assert_eq!((&found["kind"], &found["verbs"]), (&kind.into(), &verbs.into()), "{name}");
        }
        cluster.stop().await;
    });
}
