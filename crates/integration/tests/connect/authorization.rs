//! The authorization of connections.

use pintle_integration::{AccessOptions, AuthorizationMode, Kubelet, Options, run};
use serde_json::json;

const TOKENS: &str = "admin-token,admin,1,system:masters\nreader-token,reader,2\nwriter-token,writer,3\n";

#[test]
fn connections_are_reads_or_writes_by_their_method() {
    run(async {
        let kubelet = Kubelet::start();
        let access = AccessOptions {
            tokens: Some(TOKENS.to_owned()),
            authorization_modes: vec![AuthorizationMode::Rbac],
            ..AccessOptions::default()
        };
        let cluster = kubelet.cluster(Options { access, ..Options::default() }).await;
        for (user, verbs) in [("reader", &["get"][..]), ("writer", &["get", "create"])] {
            let resources = json!(["pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "pods/log"]);
            let role = json!({
                "metadata": {"name": user},
                "rules": [{"apiGroups": [""], "resources": resources, "verbs": verbs}],
            });
            let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
            let _ = cluster.post(&format!("{rbac}/roles"), role.to_string()).await.expect(201);
            let binding = json!({
                "metadata": {"name": user},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            });
            let _ = cluster.post(&format!("{rbac}/rolebindings"), binding.to_string()).await.expect(201);
        }
        for (user, method, subresource, code) in [
            ("reader", "GET", "log", 200),
            ("reader", "GET", "proxy/", 200),
            ("reader", "POST", "proxy/", 403),
            ("reader", "OPTIONS", "proxy/", 403),
            ("reader", "POST", "exec", 403),
            // A WebSocket begins with a GET. It needs the same permissions as SPDY.
            ("reader", "GET", "exec", 403),
            ("reader", "GET", "attach", 403),
            ("reader", "GET", "portforward", 403),
            ("writer", "GET", "exec", 400),
            ("writer", "GET", "attach", 400),
            ("writer", "GET", "portforward", 400),
            ("writer", "POST", "exec", 400),
            ("writer", "POST", "proxy/", 200),
            ("writer", "PUT", "proxy/", 403),
        ] {
            let path = format!("/api/v1/namespaces/default/pods/p/{subresource}");
            let request = cluster.request(method, &path).anonymous();
            let response = request.header("authorization", &format!("Bearer {user}-token")).send().await;
            assert_eq!(response.status, code, "{user} {method} {subresource}: {}", response.text());
            if (user, method, subresource) == ("reader", "GET", "exec") {
                let message = response.json()["message"].as_str().expect("a message").to_owned();
                assert!(message.starts_with("pods \"p\" is forbidden: "), "{message}");
            }
        }
        cluster.stop().await;
    });
}
