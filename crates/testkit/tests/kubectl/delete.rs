//! Deleting: by name, by label, all, from a manifest, with and without waiting.

use crate::client::Kubectl;

#[test]
fn objects_are_deleted_by_name_label_and_all() {
    let k = Kubectl::start();
    for name in ["a", "b", "c", "d"] {
        k.works(&format!("create configmap {name}"));
    }
    k.works("label cm a b pick=me");
    k.prints("delete cm d", "configmap \"d\" deleted from default namespace");
    k.fails("delete cm d", "Error from server (NotFound): configmaps \"d\" not found");
    k.prints("delete cm d --ignore-not-found", "");
    k.prints("delete cm c --dry-run=server", "configmap \"c\" deleted from default namespace (server dry run)");
    k.prints(
        "delete cm -l pick=me",
        "configmap \"a\" deleted from default namespace\nconfigmap \"b\" deleted from default namespace",
    );
    k.prints("get cm -o name", "configmap/c");
    k.prints("delete cm --all", "configmap \"c\" deleted from default namespace");
    k.prints("get cm -o name", "");
}

#[test]
fn kinds_are_deleted_together() {
    let k = Kubectl::start();
    k.works("create deployment web --image=nginx");
    k.works("expose deployment web --port=80");
    k.prints(
        "delete deploy/web svc/web",
        "deployment.apps \"web\" deleted from default namespace\nservice \"web\" deleted from default namespace",
    );
    k.prints("get deploy,svc -l app=web -o name", "");
}

#[test]
fn an_object_with_a_finalizer_waits_for_it() {
    let k = Kubectl::start();
    k.works("create configmap held");
    k.works(r#"patch cm held --type=merge -p '{"metadata": {"finalizers": ["example.com/hold"]}}'"#);
    let delete = k.follow("delete cm held");
    delete.prints("configmap \"held\" deleted from default namespace");
    assert_ne!(k.works("get cm held -o jsonpath={.metadata.deletionTimestamp}").stdout, "");
    k.works(r#"patch cm held --type=json -p '[{"op": "remove", "path": "/metadata/finalizers"}]'"#);
    delete.ends();
    k.prints("get cm -o name", "");
}

#[test]
fn a_namespace_is_terminating_until_it_is_empty() {
    let k = Kubectl::start();
    k.works("create namespace team");
    k.works("create configmap settings -n team");
    k.works("create configmap held -n team");
    k.works(r#"patch cm held -n team --type=merge -p '{"metadata": {"finalizers": ["example.com/hold"]}}'"#);
    let delete = k.follow("delete namespace team");
    delete.prints("namespace \"team\" deleted");
    k.prints("get ns team --no-headers", "team  Terminating  AGE");
    k.fails(
        "create configmap late -n team",
        "error: failed to create configmap: configmaps \"late\" is forbidden: unable to create new content in namespace \
        team because it is being terminated",
    );
    k.works("wait ns team --for=condition=NamespaceFinalizersRemaining");
    k.prints("get cm -n team -o name", "configmap/held");
    k.works(r#"patch cm held -n team --type=json -p '[{"op": "remove", "path": "/metadata/finalizers"}]'"#);
    delete.ends();
    k.fails("get ns team", "Error from server (NotFound): namespaces \"team\" not found");
}

#[test]
fn pods_are_deleted_by_force() {
    let k = Kubectl::start();
    k.pipe(
        "create -f -",
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"nodeName": "n1", "containers": [{"name": "a", "image": "b"}]}}"#,
    )
    .works();
    // On a node a pod gets its grace period, and here no kubelet ends it.
    k.works("delete pod p --wait=false");
    k.run("get pod p --no-headers").has_lines("p  0/1  Terminating  0  AGE");
    let forced = k.works("delete pod p --grace-period=0 --force");
    assert!(
        forced.stderr.starts_with("Warning: Immediate deletion does not wait for confirmation"),
        "{}",
        forced.stderr
    );
    k.prints("get pods -o name", "");
}
