//! Requests for `pods/log`.

use pintle_integration::{Kubelet, Options, run};

const LOG: &str = "/api/v1/namespaces/default/pods/p/log";

#[test]
fn logs_are_passed_on_with_their_options() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let response = cluster.get(LOG).await.expect(200);
        assert_eq!(response.header("content-type"), "text/plain");
        assert_eq!(response.text(), "query \nline 1 of c\nline 2 of c\nline 3 of c\n");
        let query = "?timestamps=true&previous=1&tailLines=5&limitBytes=100&sinceSeconds=7&follow=false&container=c";
        let text = cluster.get(&format!("{LOG}{query}")).await.expect(200).text();
        let expect = "query limitBytes=100&previous=true&sinceSeconds=7&tailLines=5&timestamps=true\n";
        assert!(text.starts_with(expect), "{text}");
        let text = cluster.get(&format!("{LOG}?sinceTime=2026-01-02T03:04:05Z")).await.expect(200).text();
        assert!(text.starts_with("query sinceTime=2026-01-02T03%3A04%3A05Z\n"), "{text}");
        cluster.stop().await;
    });
}

#[test]
fn a_followed_log_arrives_while_it_is_written() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let log = cluster.request("GET", &format!("{LOG}?follow=true")).stream().await.expect("a connection");
        let mut log = log.unwrap_or_else(|response| panic!("{}", response.text()));
        let mut text = String::new();
        while !text.contains("line 9 of C\n") {
            let chunk = log.next().await.expect("a connection").expect("more lines");
            text.push_str(std::str::from_utf8(&chunk).expect("text"));
        }
        assert!(text.starts_with("query follow=true\nline 1 of c\n"), "{text}");
        // A client that follows a log does not delay the stop of the server.
        cluster.stop().await;
    });
}

#[test]
fn invalid_options_are_refused() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        for (query, code, reason, message) in [
            ("tailLines=x", 400, "BadRequest", r#"strconv.ParseInt: parsing "x": invalid syntax"#),
            (
                "tailLines=-1",
                422,
                "Invalid",
                r#"PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0"#,
            ),
            (
                "stream=Stdout",
                422,
                "Invalid",
                r#"PodLogOptions "p" is invalid: stream: Forbidden: may not be specified"#,
            ),
            ("container=x", 400, "BadRequest", "container x is not valid for pod p"),
        ] {
            cluster.get(&format!("{LOG}?{query}")).await.expect_error(code, reason, message);
        }
        cluster.stop().await;
    });
}

#[test]
fn failures_of_kubelets_become_statuses() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        kubelet.create_pod(&cluster, "q", &["missing", "failing", "redirecting"]).await;
        let log = |container: &str| format!("/api/v1/namespaces/default/pods/q/log?container={container}");
        let message = "the server could not find the requested resource ( pods/log q)";
        cluster.get(&log("missing")).await.expect_error(404, "NotFound", message);
        let message = "Internal error occurred: the log is gone\n";
        cluster.get(&log("failing")).await.expect_error(500, "InternalError", message);
        cluster.get(&log("redirecting")).await.expect_error(500, "", "Get \"/elsewhere\": redirects forbidden");
        let message = "a container name must be specified for pod q, choose one of: [missing failing redirecting]";
        cluster.get("/api/v1/namespaces/default/pods/q/log").await.expect_error(400, "BadRequest", message);
        cluster.stop().await;
    });
}

#[test]
fn kubelets_are_verified_unless_the_client_asks_otherwise() {
    run(async {
        let kubelet = Kubelet::start();
        let mut options = kubelet.options();
        // The server does not trust the kubelet: its authority is the client's own certificate.
        options.certificate_authority = Some(kubelet.file("client.crt"));
        let cluster = pintle_integration::Cluster::with_options(Options { kubelets: options, ..Options::default() });
        let cluster = cluster.await;
        kubelet.create_node(&cluster, "n", &[]).await;
        kubelet.create_pod(&cluster, "p", &["c"]).await;
        let response = cluster.get(LOG).await.expect(500).json();
        let message = response["message"].as_str().expect("a message");
        assert!(message.starts_with("Get \"https://10.88.0.1:"), "{message}");
        assert!(message.ends_with("x509: certificate signed by unknown authority"), "{message}");
        let text = cluster.get(&format!("{LOG}?insecureSkipTLSVerifyBackend=true")).await.expect(200).text();
        assert!(text.contains("line 3 of c"), "{text}");
        let metrics = cluster.get("/metrics").await.expect(200).text();
        for series in [
            "kube_apiserver_pod_logs_insecure_backend_total{usage=\"enforce_tls\"} 1\n",
            "kube_apiserver_pod_logs_insecure_backend_total{usage=\"skip_tls_allowed\"} 1\n",
            "kube_apiserver_pod_logs_backend_tls_failure_total 1\n",
        ] {
            assert!(metrics.contains(series), "{series}");
        }
        cluster.stop().await;
    });
}

#[test]
fn a_pod_without_a_node_has_no_log() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let pod = r#"{"metadata": {"name": "w"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}"#;
        let _ = cluster.post("/api/v1/namespaces/default/pods", pod).await.expect(201);
        assert_eq!(cluster.get("/api/v1/namespaces/default/pods/w/log").await.expect(204).text(), "");
        cluster.stop().await;
    });
}
