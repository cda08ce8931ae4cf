//! metrics-server behind the aggregation layer: what a kubelet reports reaches `kubectl top` and autoscalers.

use std::process::Command;

use pintle_integration::{Cluster, ContainerUsage, MetricsServer, bootstrapped, start_metrics_kubelet, tool_path};
use serde_json::json;

use super::client::Kubectl;

const USAGES: &[ContainerUsage] = &[
    ContainerUsage { pod: "web", container: "proxy", millicores: 50, mebibytes: 32 },
    ContainerUsage { pod: "web", container: "server", millicores: 250, mebibytes: 200 },
    ContainerUsage { pod: "worker", container: "worker", millicores: 700, mebibytes: 280 },
];

/// Creates a node with a kubelet on this machine, and the pods that run there.
async fn create_node(cluster: &Cluster, port: u16) {
    let node = json!({
        "metadata": {"name": "n"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "allocatable": {"cpu": "4", "memory": "1Gi"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    let _ = cluster.post("/api/v1/nodes", node.to_string()).await.expect(201);
    let _ = cluster.put("/api/v1/nodes/n/status", node.to_string()).await.expect(200);
    for (pod, containers) in [("web", &["proxy", "server"][..]), ("worker", &["worker"])] {
        let containers: Vec<_> = containers.iter().map(|name| json!({"name": name, "image": "i"})).collect();
        let object = json!({
            "metadata": {"name": pod, "labels": {"app": pod}},
            "spec": {"nodeName": "n", "containers": containers},
        });
        let _ = cluster.post("/api/v1/namespaces/default/pods", object.to_string()).await.expect(201);
        let path = format!("/api/v1/namespaces/default/pods/{pod}/status");
        let _ = cluster.patch(&path, "merge", r#"{"status":{"phase":"Running"}}"#).await.expect(200);
    }
}

#[test]
fn kubectl_and_autoscalers_read_what_kubelets_report() {
    let k = Kubectl::with(Cluster::with_options(bootstrapped()));
    let _server = k.run_async(async |cluster| {
        let kubelet = start_metrics_kubelet(USAGES).await;
        create_node(cluster, kubelet.port).await;
        MetricsServer::start(cluster, &kubelet.authority).await
    });
    // It has to ask the kubelet twice.
    k.eventually("top pods --no-headers", |output| output.lines().count() == 2);
    k.prints(
        "top pods",
        "NAME     CPU(cores)   MEMORY(bytes)\n\
         web      300m         232Mi\n\
         worker   700m         280Mi\n",
    );
    k.prints(
        "top pods --containers -l app=web",
        "POD   NAME     CPU(cores)   MEMORY(bytes)\n\
         web   proxy    50m          32Mi\n\
         web   server   250m         200Mi\n",
    );
    k.prints(
        "top nodes",
        "NAME   CPU(cores)   CPU(%)   MEMORY(bytes)   MEMORY(%)\n\
         n      1000m        25%      512Mi           50%\n",
    );
    let mut autoscaler = Command::new(tool_path("client-go"));
    let output = autoscaler.arg(k.kubeconfig()).args(["default", "pod-metrics", "app=web"]).output();
    let printed = String::from_utf8(output.expect("the program starts").stdout).expect("UTF-8");
    // metrics-server returns containers in any order.
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    let (proxy, server) = (format!("web proxy 50m {}", 32 << 20), format!("web server 250m {}", 200 << 20));
    assert_eq!(lines, ["OK", proxy.as_str(), server.as_str()]);
    // The roles of users cover metrics, and metrics-server asks this server about them.
    let refused = k.run("top pods --as jane").stderr;
    assert!(
        refused.contains("User \"jane\" cannot list resource \"pods\" in API group \"metrics.k8s.io\""),
        "{refused}"
    );
    k.prints(
        "create rolebinding jane --clusterrole=view --user=jane",
        "rolebinding.rbac.authorization.k8s.io/jane created\n",
    );
    k.eventually("top pods --no-headers --as jane", |output| output.lines().count() == 2);
}
