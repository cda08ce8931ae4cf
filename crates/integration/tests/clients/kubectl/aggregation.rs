//! kubectl with the kinds of an API server behind the aggregation layer: discovery, explain, tables, apply and watch. The
//! API server authenticates and authorizes users with this server. Namespaces, owners and quotas cover its objects.

use pintle_integration::{AggregatedServer, Cluster, bootstrapped};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::client::Kubectl;

const FLUNDER: &str = "
apiVersion: wardle.example.com/v1
kind: Flunder
metadata: {name: one, labels: {app: a}}
spec: {reference: first, size: 1}
";

/// A cluster with RBAC, and an API server that serves Flunders and Fischers.
fn start() -> (Kubectl, AggregatedServer) {
    let k = Kubectl::with(Cluster::with_options(bootstrapped()));
    let server = AggregatedServer::start(k.kubeconfig());
    k.run_async(async |cluster| server.register(cluster).await);
    (k, server)
}

#[test]
fn kinds_of_other_api_servers_are_used_like_built_in_ones() {
    let (k, _server) = start();
    k.eventually("api-resources --api-group wardle.example.com -o name", |output| {
        output.contains("flunders.wardle.example.com")
    });
    k.prints(
        "api-resources --api-group wardle.example.com",
        "NAME       SHORTNAMES   APIVERSION              NAMESPACED   KIND\n\
         fischers                wardle.example.com/v1   false        Fischer\n\
         flunders   fl           wardle.example.com/v1   true         Flunder\n",
    );
    k.run_with_stdin("apply -f -", FLUNDER).prints("flunder.wardle.example.com/one created\n");
    k.run_with_stdin("apply -f -", &FLUNDER.replace("size: 1", "size: 2"))
        .prints("flunder.wardle.example.com/one configured\n");
    k.run_with_stdin("apply --server-side --force-conflicts -f -", FLUNDER)
        .prints("flunder.wardle.example.com/one serverside-applied\n");
    let table = k.run("get fl").stdout;
    assert!(table.starts_with("NAME") && table.contains("first"), "{table}");
    k.eventually("explain flunders.spec", |output| output.contains("reference") && output.contains("size"));
    k.prints("get flunders.v1beta1.wardle.example.com one -o jsonpath={.spec.flunderReference}", "first");
    k.prints("label flunder one tier=gold", "flunder.wardle.example.com/one labeled\n");
    k.prints("get flunders -l tier=gold -o name", "flunder.wardle.example.com/one\n");
    let all = k.run("get all").stdout;
    assert!(all.contains("flunder.wardle.example.com/one"), "{all}");
    k.prints("delete flunder one", "flunder.wardle.example.com \"one\" deleted from default namespace\n");
    k.prints("get flunders -o name", "");
}

#[test]
fn other_api_servers_know_the_user_and_ask_for_authorization() {
    let (k, _server) = start();
    let request = "/apis/wardle.example.com/v1/namespaces/default/flunders/one/request";
    k.run_with_stdin("apply -f -", FLUNDER).prints("flunder.wardle.example.com/one created\n");
    let received: Value = serde_json::from_str(&k.run(&format!("get --raw {request}")).stdout).expect("JSON");
    assert_eq!(received["user"]["username"], "kubernetes-admin");
    assert_eq!(received["clientCertificate"], "CN=front-proxy-client");
    assert_eq!(received["serverName"], "api.wardle.svc");
    let groups = received["user"]["groups"].as_array().expect("groups");
    assert!(groups.contains(&"system:authenticated".into()), "{received}");
    // This server and the other one ask the same roles.
    assert_eq!(k.run("auth can-i list flunders --as jane").stdout, "no\n");
    let refused = k.run("get flunders --as jane").stderr;
    assert!(refused.contains("User \"jane\" cannot list resource \"flunders\" in API group"), "{refused}");
    let _ = k.run("create role fl --verb=list --resource=flunders.wardle.example.com").stdout;
    let _ = k.run("create rolebinding fl --role=fl --user=jane").stdout;
    k.eventually("get flunders --as jane -o name", |output| output == "flunder.wardle.example.com/one\n");
}

#[test]
fn other_api_servers_validate_and_admit() {
    let (k, _server) = start();
    let invalid = k.run_with_stdin("create -f -", &FLUNDER.replace("size: 1", "size: -1")).stderr;
    assert!(invalid.contains("The Flunder \"one\" is invalid: spec.size: Invalid value: -1"), "{invalid}");
    let fischer = "apiVersion: wardle.example.com/v1\nkind: Fischer\nmetadata: {name: f}\ndisallowedFlunders: [one]\n";
    k.run_with_stdin("create -f -", fischer).prints("fischer.wardle.example.com/f created\n");
    let refused = k.run_with_stdin("create -f -", FLUNDER).stderr;
    assert!(refused.contains("forbidden"), "{refused}");
}

#[test]
fn a_deleted_namespace_is_emptied_on_other_api_servers() {
    let (k, mut server) = start();
    k.prints("create namespace n", "namespace/n created\n");
    k.run_with_stdin("apply -n n -f -", FLUNDER).prints("flunder.wardle.example.com/one created\n");
    k.eventually("get flunders -n n -o name", |output| output == "flunder.wardle.example.com/one\n");
    k.prints("delete namespace n --timeout=60s", "namespace \"n\" deleted\n");
    k.prints("get flunders -A -o name", "");
    // A namespace waits for an API server that cannot be reached.
    k.prints("create namespace m", "namespace/m created\n");
    k.run_with_stdin("apply -n m -f -", FLUNDER).prints("flunder.wardle.example.com/one created\n");
    server.kill();
    k.eventually("get apiservice v1.wardle.example.com", |output| output.contains("False"));
    k.prints("delete namespace m --wait=false", "namespace \"m\" deleted\n");
    let condition =
        "get namespace m -o jsonpath={.status.conditions[?(@.type==\"NamespaceDeletionDiscoveryFailure\")].message}";
    k.eventually(condition, |output| output.contains("wardle.example.com/v1: stale GroupVersion discovery"));
    // Nothing else waits.
    k.prints("create namespace o", "namespace/o created\n");
    k.prints("get pods -n o -o name", "");
    let _ = k.run("delete apiservice v1.wardle.example.com v1beta1.wardle.example.com").stdout;
    k.eventually("get namespace m --ignore-not-found -o name", str::is_empty);
}

/// A ConfigMap with an owner.
fn owned_config_map(name: &str, owner: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, ownerReferences: [{owner}]}}\n")
}

#[test]
fn owners_and_dependents_may_be_on_different_api_servers() {
    let (k, _server) = start();
    let uid = |of: &str| k.run(&format!("get {of} -o jsonpath={{.metadata.uid}}")).stdout;
    k.run_with_stdin("apply -f -", FLUNDER).prints("flunder.wardle.example.com/one created\n");
    // The owner is here: its dependent on the other API server is deleted.
    k.prints("create configmap owner", "configmap/owner created\n");
    let owner = format!("{{apiVersion: v1, kind: ConfigMap, name: owner, uid: {}}}", uid("configmap/owner"));
    let two = FLUNDER.replace("name: one", &format!("name: two, ownerReferences: [{owner}]"));
    k.run_with_stdin("apply -f -", &two).prints("flunder.wardle.example.com/two created\n");
    k.prints("get flunder two -o name", "flunder.wardle.example.com/two\n");
    k.prints("delete configmap owner", "configmap \"owner\" deleted from default namespace\n");
    k.eventually("get flunders -o name", |output| output == "flunder.wardle.example.com/one\n");
    // The owner is on the other API server: its dependent here is deleted, and nothing else.
    let flunder = |uid: &str| format!("{{apiVersion: wardle.example.com/v1, kind: Flunder, name: one, uid: {uid}}}");
    let owner = flunder(&uid("flunder/one"));
    k.run_with_stdin("create -f -", &owned_config_map("dependent", &owner)).prints("configmap/dependent created\n");
    k.prints("create configmap other", "configmap/other created\n");
    // An owner with another uid does not exist.
    let stranger = flunder("11111111-1111-1111-1111-111111111111");
    k.run_with_stdin("create -f -", &owned_config_map("stray", &stranger)).prints("configmap/stray created\n");
    let names = |output: &str| output.replace("configmap/kube-root-ca.crt\n", "");
    k.eventually("get configmaps -o name", |output| names(output) == "configmap/dependent\nconfigmap/other\n");
    k.prints("delete flunder one", "flunder.wardle.example.com \"one\" deleted from default namespace\n");
    k.eventually("get configmaps -o name", |output| names(output) == "configmap/other\n");
}

#[test]
fn quotas_count_objects_of_other_api_servers() {
    let (k, _server) = start();
    let name = "count/flunders.wardle.example.com";
    k.prints(&format!("create quota q --hard={name}=5"), "resourcequota/q created\n");
    let used = "get quota q -o jsonpath={.status.used}";
    k.eventually(used, |output| output == format!(r#"{{"{name}":"0"}}"#));
    k.run_with_stdin("apply -f -", FLUNDER).prints("flunder.wardle.example.com/one created\n");
    // As in upstream, an object is counted when another one is gone, or when the quota changes.
    k.prints(
        &format!("patch quota q -p '{{\"spec\":{{\"hard\":{{\"{name}\":\"6\"}}}}}}'"),
        "resourcequota/q patched\n",
    );
    k.eventually(used, |output| output == format!(r#"{{"{name}":"1"}}"#));
    k.prints("delete flunder one", "flunder.wardle.example.com \"one\" deleted from default namespace\n");
    k.eventually(used, |output| output == format!(r#"{{"{name}":"0"}}"#));
}

#[test]
fn streams_and_upgrades_reach_other_api_servers() {
    let (k, _server) = start();
    k.run_with_stdin("apply -f -", FLUNDER).prints("flunder.wardle.example.com/one created\n");
    let path = "/apis/wardle.example.com/v1/namespaces/default/flunders/one";
    let lines = k.run(&format!("get --raw {path}/log?lines=3")).stdout;
    assert_eq!(lines.lines().count(), 3, "{lines}");
    k.run_async(async |cluster| {
        let request = format!("GET {path}/exec HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n");
        let mut socket = cluster.connect().await;
        socket.write_all(request.as_bytes()).await.expect("the request is sent");
        let mut received = Vec::new();
        while !received.ends_with(b"\r\n\r\n") {
            assert_ne!(socket.read_buf(&mut received).await.expect("bytes"), 0);
        }
        assert!(received.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&received));
        for text in [&b"hello"[..], b"again"] {
            socket.write_all(text).await.expect("bytes are sent");
            let mut echoed = vec![0; text.len()];
            let _ = socket.read_exact(&mut echoed).await.expect("bytes");
            assert_eq!(echoed, text);
        }
    });
    // A watch gets the events of the other API server.
    k.run_async(async |cluster| {
        let mut watch = cluster.watch(&format!("{}?watch=1", path.trim_end_matches("/one"))).await;
        let _ = watch.expect("ADDED", "one").await;
        let _ = cluster.delete(path).await.expect(200);
        let _ = watch.expect("DELETED", "one").await;
    });
}
