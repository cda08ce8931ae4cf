//! `kubectl delete`: by name, by label, all, by force, with a grace period, and with each propagation policy.

use super::client::Kubectl;

#[test]
fn objects_are_deleted_by_name_label_and_all() {
    let k = Kubectl::start();
    for name in ["a", "b", "c", "d"] {
        k.succeeds(&format!("create configmap {name}"));
    }
    k.succeeds("label cm a b pick=me");
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
fn objects_of_several_kinds_are_deleted() {
    let k = Kubectl::start();
    k.succeeds("create deployment web --image=nginx");
    k.succeeds("expose deployment web --port=80");
    k.prints(
        "delete deploy/web svc/web",
        "deployment.apps \"web\" deleted from default namespace\nservice \"web\" deleted from default namespace",
    );
    k.prints("get deploy,svc -l app=web -o name", "");
}

#[test]
fn delete_waits_for_finalizers() {
    let k = Kubectl::start();
    k.succeeds("create configmap held");
    k.succeeds(r#"patch cm held --type=merge -p '{"metadata": {"finalizers": ["example.com/hold"]}}'"#);
    let delete = k.spawn("delete cm held");
    delete.prints("configmap \"held\" deleted from default namespace");
    assert_ne!(k.succeeds("get cm held -o jsonpath={.metadata.deletionTimestamp}").stdout, "");
    k.succeeds(r#"patch cm held --type=json -p '[{"op": "remove", "path": "/metadata/finalizers"}]'"#);
    delete.exits();
    k.prints("get cm -o name", "");
}

#[test]
fn a_namespace_is_terminating_until_it_is_empty() {
    let k = Kubectl::start();
    k.succeeds("create namespace team");
    k.succeeds("create configmap settings -n team");
    k.succeeds("create configmap held -n team");
    k.succeeds(r#"patch cm held -n team --type=merge -p '{"metadata": {"finalizers": ["example.com/hold"]}}'"#);
    let delete = k.spawn("delete namespace team");
    delete.prints("namespace \"team\" deleted");
    k.prints("get ns team --no-headers", "team  Terminating  AGE");
    k.fails(
        "create configmap late -n team",
        "error: failed to create configmap: configmaps \"late\" is forbidden: unable to create new content in namespace \
        team because it is being terminated",
    );
    k.succeeds("wait ns team --for=condition=NamespaceFinalizersRemaining");
    k.prints("get cm -n team -o name", "configmap/held");
    k.succeeds(r#"patch cm held -n team --type=json -p '[{"op": "remove", "path": "/metadata/finalizers"}]'"#);
    delete.exits();
    k.fails("get ns team", "Error from server (NotFound): namespaces \"team\" not found");
}

#[test]
fn pods_are_deleted_by_force() {
    let k = Kubectl::start();
    k.run_with_stdin(
        "create -f -",
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"nodeName": "n1", "containers": [{"name": "a", "image": "b"}]}}"#,
    )
    .succeeds();
    // A pod on a node has a grace period, and there is no kubelet to finish its deletion.
    k.succeeds("delete pod p --wait=false");
    k.run("get pod p --no-headers").has_lines("p  0/1  Terminating  0  AGE");
    let forced = k.succeeds("delete pod p --grace-period=0 --force");
    assert!(
        forced.stderr.starts_with("Warning: Immediate deletion does not wait for confirmation"),
        "{}",
        forced.stderr
    );
    k.prints("get pods -o name", "");
}

/// Creates a deployment and a ConfigMap that it owns.
fn owner_with_dependent(k: &Kubectl, hold: bool) {
    k.succeeds("create deployment web --image=nginx");
    let uid = k.succeeds("get deploy web -o jsonpath={.metadata.uid}").stdout;
    let finalizers = if hold { r#", "finalizers": ["example.com/hold"]"# } else { "" };
    let owner = format!(
        r#"{{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "{uid}", "blockOwnerDeletion": true}}"#
    );
    k.run_with_stdin(
        "create -f -",
        &format!(
            r#"{{"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {{"name": "of-web", "ownerReferences": [{owner}]{finalizers}}}}}"#
        ),
    )
    .succeeds();
}

const REMOVE_FINALIZER: &str =
    r#"patch cm of-web --type=json -p '[{"op": "remove", "path": "/metadata/finalizers/0"}]'"#;

#[test]
fn cascade_determines_what_happens_to_dependents() {
    let k = Kubectl::start();
    // By default, dependents are deleted in the background. `wait` succeeds if the object is already deleted.
    owner_with_dependent(&k, false);
    k.prints("delete deploy web", "deployment.apps \"web\" deleted from default namespace");
    k.succeeds("wait cm/of-web --for=delete --timeout=30s");
    // With `foreground`, the command waits for the dependents.
    owner_with_dependent(&k, true);
    let delete = k.spawn("delete deploy web --cascade=foreground");
    delete.prints("deployment.apps \"web\" deleted from default namespace");
    k.prints("get deploy web -o jsonpath={.metadata.finalizers}", r#"["foregroundDeletion"]"#);
    k.succeeds("wait cm/of-web --for=jsonpath={.metadata.deletionTimestamp} --timeout=30s");
    k.succeeds(REMOVE_FINALIZER);
    delete.exits();
    k.fails("get cm of-web", "Error from server (NotFound): configmaps \"of-web\" not found");
    // With `background`, it does not wait for them.
    owner_with_dependent(&k, true);
    k.succeeds("delete deploy web --cascade=background");
    k.succeeds("wait cm/of-web --for=jsonpath={.metadata.deletionTimestamp} --timeout=30s");
    k.succeeds(REMOVE_FINALIZER);
    k.succeeds("wait cm/of-web --for=delete --timeout=30s");
    // With `orphan`, dependents stay without the owner reference.
    owner_with_dependent(&k, false);
    k.succeeds("delete deploy web --cascade=orphan");
    k.fails("get deploy web", "Error from server (NotFound): deployments.apps \"web\" not found");
    k.prints("get cm of-web -o jsonpath={.metadata.ownerReferences}", "");
}

/// Creates a pod on a node without a kubelet, so that it stays terminating.
fn pod(k: &Kubectl, name: &str) {
    let spec = r#""spec": {"nodeName": "n1", "containers": [{"name": "a", "image": "b"}]}"#;
    let metadata = format!(r#""metadata": {{"name": "{name}", "labels": {{"app": "a"}}}}"#);
    k.run_with_stdin("create -f -", &format!(r#"{{"apiVersion": "v1", "kind": "Pod", {metadata}, {spec}}}"#))
        .succeeds();
}

#[test]
fn the_grace_period_can_only_be_shortened() {
    let k = Kubectl::start();
    let grace = |name: &str, expect: &str| {
        k.prints(&format!("get pod {name} -o jsonpath={{.metadata.deletionGracePeriodSeconds}}"), expect);
    };
    pod(&k, "p");
    k.succeeds("delete pod p --wait=false");
    grace("p", "30");
    k.succeeds("delete pod p --grace-period=10 --wait=false");
    grace("p", "10");
    // The grace period cannot be extended.
    k.succeeds("delete pod p --grace-period=20 --wait=false");
    grace("p", "10");
    k.succeeds("delete pod p --now --wait=false");
    grace("p", "1");
    let forced = k.succeeds("delete pod p --force");
    assert!(forced.stdout.contains("pod \"p\" force deleted"), "{}", forced.stdout);
    k.fails("get pod p", "Error from server (NotFound): pods \"p\" not found");

    pod(&k, "q");
    k.fails("delete pod q --timeout=3s", "error: timed out waiting for the condition on pods/q");
    grace("q", "30");
    k.succeeds("delete pods -l app=a --grace-period=0 --force");
    k.prints("get pods -o name", "");
    // A dry run deletes nothing, and does not wait.
    pod(&k, "r");
    k.prints("delete pods --all --dry-run=server", "pod \"r\" deleted from default namespace (server dry run)");
    k.prints("get pod r -o jsonpath={.metadata.deletionTimestamp}", "");
}

#[test]
fn replace_force_creates_a_new_object() {
    let k = Kubectl::start();
    let manifest = |value: &str| {
        format!(
            r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "a"}}, "data": {{"k": "{value}"}}}}"#
        )
    };
    k.run_with_stdin("create -f -", &manifest("old")).succeeds();
    let uid = |k: &Kubectl| k.succeeds("get cm a -o jsonpath={.metadata.uid}").stdout;
    let before = uid(&k);
    let file = k.file("new.json", &manifest("new"));
    let replaced = k.succeeds(&format!("replace --force -f {file}"));
    assert!(replaced.stdout.ends_with("configmap/a replaced\n"), "{}", replaced.stdout);
    k.prints("get cm a -o jsonpath={.data.k}", "new");
    assert_ne!(uid(&k), before);
}
