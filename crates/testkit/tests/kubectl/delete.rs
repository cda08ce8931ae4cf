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

/// A deployment and a replica set that it owns.
fn owner_with_dependent(k: &Kubectl, hold: bool) {
    k.works("create deployment web --image=nginx");
    let uid = k.works("get deploy web -o jsonpath={.metadata.uid}").stdout;
    let finalizers = if hold { r#", "finalizers": ["example.com/hold"]"# } else { "" };
    let owner = format!(
        r#"{{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "{uid}", "blockOwnerDeletion": true}}"#
    );
    k.pipe(
        "create -f -",
        &format!(
            r#"{{"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {{"name": "of-web", "ownerReferences": [{owner}]{finalizers}}}}}"#
        ),
    )
    .works();
}

const RELEASE: &str = r#"patch cm of-web --type=json -p '[{"op": "remove", "path": "/metadata/finalizers/0"}]'"#;

#[test]
fn dependents_go_as_the_cascade_says() {
    let k = Kubectl::start();
    // What nobody owns any more goes; `wait` is content with what is gone already.
    owner_with_dependent(&k, false);
    k.prints("delete deploy web", "deployment.apps \"web\" deleted from default namespace");
    k.works("wait cm/of-web --for=delete --timeout=30s");
    // In the foreground the command ends after the dependents have.
    owner_with_dependent(&k, true);
    let delete = k.follow("delete deploy web --cascade=foreground");
    delete.prints("deployment.apps \"web\" deleted from default namespace");
    k.prints("get deploy web -o jsonpath={.metadata.finalizers}", r#"["foregroundDeletion"]"#);
    k.works("wait cm/of-web --for=jsonpath={.metadata.deletionTimestamp} --timeout=30s");
    k.works(RELEASE);
    delete.ends();
    k.fails("get cm of-web", "Error from server (NotFound): configmaps \"of-web\" not found");
    // In the background it does not wait for them.
    owner_with_dependent(&k, true);
    k.works("delete deploy web --cascade=background");
    k.works("wait cm/of-web --for=jsonpath={.metadata.deletionTimestamp} --timeout=30s");
    k.works(RELEASE);
    k.works("wait cm/of-web --for=delete --timeout=30s");
    // Orphans stay, without an owner.
    owner_with_dependent(&k, false);
    k.works("delete deploy web --cascade=orphan");
    k.fails("get deploy web", "Error from server (NotFound): deployments.apps \"web\" not found");
    k.prints("get cm of-web -o jsonpath={.metadata.ownerReferences}", "");
}

/// A pod on a node, where no kubelet ends it.
fn pod(k: &Kubectl, name: &str) {
    let spec = r#""spec": {"nodeName": "n1", "containers": [{"name": "a", "image": "b"}]}"#;
    let metadata = format!(r#""metadata": {{"name": "{name}", "labels": {{"app": "a"}}}}"#);
    k.pipe("create -f -", &format!(r#"{{"apiVersion": "v1", "kind": "Pod", {metadata}, {spec}}}"#)).works();
}

#[test]
fn grace_is_given_shortened_and_taken() {
    let k = Kubectl::start();
    let grace = |name: &str, expect: &str| {
        k.prints(&format!("get pod {name} -o jsonpath={{.metadata.deletionGracePeriodSeconds}}"), expect);
    };
    pod(&k, "p");
    k.works("delete pod p --wait=false");
    grace("p", "30");
    k.works("delete pod p --grace-period=10 --wait=false");
    grace("p", "10");
    // It is not given back.
    k.works("delete pod p --grace-period=20 --wait=false");
    grace("p", "10");
    k.works("delete pod p --now --wait=false");
    grace("p", "1");
    let forced = k.works("delete pod p --force");
    assert!(forced.stdout.contains("pod \"p\" force deleted"), "{}", forced.stdout);
    k.fails("get pod p", "Error from server (NotFound): pods \"p\" not found");

    pod(&k, "q");
    k.fails("delete pod q --timeout=1s", "error: timed out waiting for the condition on pods/q");
    grace("q", "30");
    k.works("delete pods -l app=a --grace-period=0 --force");
    k.prints("get pods -o name", "");
    // Nothing is deleted in a rehearsal, and nothing is waited for.
    pod(&k, "r");
    k.prints("delete pods --all --dry-run=server", "pod \"r\" deleted from default namespace (server dry run)");
    k.prints("get pod r -o jsonpath={.metadata.deletionTimestamp}", "");
}

#[test]
fn what_is_replaced_by_force_is_another() {
    let k = Kubectl::start();
    let manifest = |value: &str| {
        format!(
            r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "a"}}, "data": {{"k": "{value}"}}}}"#
        )
    };
    k.pipe("create -f -", &manifest("old")).works();
    let uid = |k: &Kubectl| k.works("get cm a -o jsonpath={.metadata.uid}").stdout;
    let before = uid(&k);
    let file = k.file("new.json", &manifest("new"));
    let replaced = k.works(&format!("replace --force -f {file}"));
    assert!(replaced.stdout.ends_with("configmap/a replaced\n"), "{}", replaced.stdout);
    k.prints("get cm a -o jsonpath={.data.k}", "new");
    assert_ne!(uid(&k), before);
}
