//! The output of a cluster whose test fails.

use std::process::Command;

use pintle_testkit::TestCluster;

const OBJECTS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: team}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {password: hidden}
---
apiVersion: v1
kind: Event
metadata: {name: e}
involvedObject: {kind: Pod, name: p, namespace: default}
type: Warning
reason: Tired
message: needs a rest
";

/// The environment variable with which [`a_test_that_fails`] fails.
const FAIL: &str = "PINTLE_TESTKIT_TEST_FAILS";

#[tokio::test]
async fn a_dump_has_the_objects_of_the_test_and_says_what_nothing_will_happen_to() {
    let cluster = TestCluster::start().await;
    let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(cluster.client());
    namespaces.get("default").await.expect("the namespace");
    assert_eq!(without_requests(&cluster.dump().await.expect("a dump")), "");
    cluster.apply(OBJECTS).await.expect("they are applied");
    let dump = cluster.dump().await.expect("a dump");
    for text in [
        "Pod Pending: default/p. Pintle runs no pods: it has no scheduler and no kubelet.",
        "Deployment without ReplicaSet: team/web. Pintle has no controller manager: nothing makes a ReplicaSet",
        "200 get /api/v1/namespaces/default by kubernetes-admin in ",
        "Warning Pod default/p Tired: needs a rest\n",
        "\n## deployments.apps\napiVersion: apps/v1\nkind: Deployment\n",
        "  password: REDACTED\n",
        "\n## namespaces\n",
    ] {
        assert!(dump.contains(text), "{text}\n{dump}");
    }
    assert_eq!(dump.matches("Tired").count(), 1, "{dump}");
    for text in
        ["aGlkZGVu", "hidden", "managedFields", "  name: kube-root-ca.crt\n  namespace", "ClusterRole", "kind: Event"]
    {
        assert!(!dump.contains(text), "{text}\n{dump}");
    }
}

/// A dump without the section with requests.
fn without_requests(dump: &str) -> &str {
    dump.strip_prefix("## Last requests\n").and_then(|rest| rest.split_once("\n\n")).map_or(dump, |(_, rest)| rest)
}

/// This test fails only if [`a_failing_test_prints_its_cluster`] runs it.
#[tokio::test]
async fn a_test_that_fails() {
    let cluster = TestCluster::start().await;
    cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: of-a-test-that-fails}}").await.expect("a map");
    assert!(std::env::var_os(FAIL).is_none(), "as wanted");
}

#[test]
fn a_failing_test_prints_its_cluster() {
    let run = |folder: Option<&std::path::Path>| {
        let mut command = Command::new(std::env::current_exe().expect("a program"));
        command.args(["--exact", "dump::a_test_that_fails"]).env(FAIL, "1").env_remove("PINTLE_TESTKIT_DUMP_DIR");
        command.envs(folder.map(|folder| ("PINTLE_TESTKIT_DUMP_DIR", folder)));
        let output = command.output().expect("the program runs");
        assert_eq!(output.status.code(), Some(101), "{output:?}");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let object = "  name: of-a-test-that-fails\n";
    let output = run(None);
    assert!(output.contains("# The cluster of dump::a_test_that_fails\n") && output.contains(object), "{output}");
    let folder = tempfile::tempdir().expect("a folder");
    let output = run(Some(folder.path()));
    let path = output.split_once("The dump of the cluster is in ").and_then(|(_, rest)| rest.lines().next());
    let dump = std::fs::read_to_string(path.expect("a path")).expect("a dump");
    assert!(dump.contains(object) && !output.contains(object), "{output}\n{dump}");
}
