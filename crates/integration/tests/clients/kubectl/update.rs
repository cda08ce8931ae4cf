//! Commands that update objects: label, annotate, scale, set, rollout, patch, edit, replace, taint, cordon and drain.

use super::client::Kubectl;

#[test]
fn labels_and_annotations_are_set_and_removed() {
    let k = Kubectl::start();
    k.succeeds("run one --image=nginx");
    k.succeeds("run two --image=nginx");
    k.prints("label pod one color=blue", "pod/one labeled");
    k.fails("label pod one color=red", "error: 'color' already has a value (blue), and --overwrite is false");
    k.prints("label pod one color=red --overwrite", "pod/one labeled");
    k.prints("label pod one color=red --overwrite", "pod/one not labeled");
    k.prints("get pod -l color=red -o name", "pod/one");
    k.prints("label pod one color-", "pod/one unlabeled");
    k.prints("label pods --all seen=yes", "pod/one labeled\npod/two labeled");
    k.prints("annotate pod one 'note=two words'", "pod/one annotated");
    k.prints("get pod one -o jsonpath={.metadata.annotations.note}", "two words");
    k.prints("annotate pod one note-", "pod/one annotated");
    k.prints("get pod one -o jsonpath={.metadata.annotations}", "");
}

#[test]
fn scale_and_set_update_workloads() {
    let k = Kubectl::start();
    k.succeeds("create deployment web --image=nginx:1.27");
    k.prints("scale deployment web --replicas=5", "deployment.apps/web scaled");
    k.fails("scale deployment web --replicas=3 --current-replicas=9", "error: Expected replicas to be 9, was 5");
    k.fails("scale rs nosuch --replicas=1", r#"Error from server (NotFound): replicasets.apps "nosuch" not found"#);
    k.prints("set image deployment/web nginx=nginx:1.28", "deployment.apps/web image updated");
    k.prints("set image deployment/web nginx=nginx:1.28", "");
    k.prints("set env deployment/web A=b", "deployment.apps/web env updated");
    k.prints("set resources deployment web --limits=cpu=200m", "deployment.apps/web resource requirements updated");
    k.prints("set serviceaccount deployment web bot", "deployment.apps/web serviceaccount updated");
    k.prints(
        "get deploy web -o jsonpath={.metadata.generation}/{.spec.replicas}/{.spec.template.spec.containers[0].image}",
        "6/5/nginx:1.28",
    );
    // `serviceAccount` is the deprecated name of the field. Both fields are set.
    k.prints("get deploy web -o jsonpath={..serviceAccountName}/{..serviceAccount}", "bot/bot");
}

#[test]
fn rollouts_are_restarted_paused_and_undone() {
    let k = Kubectl::start();
    k.succeeds("create deployment web --image=nginx:1.27");
    k.prints("rollout history deployment/web", "deployment.apps/web \nNo rollout history found.");
    k.prints("rollout restart deployment/web", "deployment.apps/web restarted");
    k.prints("rollout pause deployment/web", "deployment.apps/web paused");
    k.fails("rollout pause deployment/web", r#"error: deployments.apps "web" is already paused"#);
    k.prints("rollout resume deployment/web", "deployment.apps/web resumed");
    // This is the replica set that the deployment controller would create.
    k.run_with_stdin(
        "create -f -",
        r#"{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-1", "labels": {"app": "web"},
            "annotations": {"deployment.kubernetes.io/revision": "1", "kubernetes.io/change-cause": "first"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": true,
                "uid": "@"}]},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web", "hash": "1"}},
                "template": {"metadata": {"labels": {"app": "web", "hash": "1"}},
                    "spec": {"containers": [{"name": "nginx", "image": "nginx:1.26"}]}}}}"#
            .replace('@', &k.succeeds("get deploy web -o jsonpath={.metadata.uid}").stdout)
            .as_str(),
    )
    .succeeds();
    k.prints("rollout history deployment/web", "deployment.apps/web \nREVISION  CHANGE-CAUSE\n1  first\n");
    k.prints("rollout undo deployment/web --to-revision=1", "deployment.apps/web rolled back");
    k.prints("get deploy web -o jsonpath={.spec.template.spec.containers[0].image}", "nginx:1.26");
    let status = r#"{"status": {"observedGeneration": 99, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}}"#;
    k.succeeds(&format!("patch deploy web --subresource=status --type=merge -p '{status}'"));
    k.prints("rollout status deployment/web", r#"deployment "web" successfully rolled out"#);
}

#[test]
fn patch_supports_three_patch_types() {
    let k = Kubectl::start();
    k.succeeds("create deployment web --image=nginx:1.27");
    let patch = |flags: &str, patch: &str| k.run(&format!("patch deployment web {flags} -p '{patch}'"));
    let patched = "deployment.apps/web patched";
    let sidecar = r#"{"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "busybox"}]}}}}"#;
    // A strategic merge patch adds to the list of containers, a merge patch replaces it.
    patch("", sidecar).prints(patched);
    k.prints("get deploy web -o jsonpath={..containers[*].name}", "side nginx");
    patch("--type=merge", sidecar).prints(patched);
    k.prints("get deploy web -o jsonpath={..containers[*].name}", "side");
    patch("--type=json", r#"[{"op": "replace", "path": "/spec/replicas", "value": 7}]"#).prints(patched);
    patch("--type=json", r#"[{"op": "replace", "path": "/spec/replicas", "value": 7}]"#)
        .prints("deployment.apps/web patched (no change)");
    patch("--type=json", r#"[{"op": "test", "path": "/spec/replicas", "value": 8}]"#)
        .fails("The request is invalid: the server rejected our request due to an error in our request");
    patch("--subresource=scale --type=merge", r#"{"spec": {"replicas": 2}}"#).prints("scale.autoscaling/web patched");
    k.prints("get deploy web -o jsonpath={.spec.replicas}", "2");
    patch("--type=merge", r#"{"spec": {"selector": {"matchLabels": {"app": "other"}}}}"#).fails(
        "
        The Deployment \"web\" is invalid:
        * spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`
        * spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"other\"}}: field is immutable
        ",
    );
}

#[test]
fn objects_are_edited_and_replaced() {
    let k = Kubectl::start();
    k.succeeds("create configmap settings --from-literal=a=1");
    k.edit("edit cm settings", &k.editor("s/a: \"1\"/a: \"9\"/")).prints("configmap/settings edited");
    k.prints("get cm settings -o jsonpath={.data}", r#"{"a":"9"}"#);
    assert_eq!(k.edit("edit cm settings", "true").succeeds().stderr, "Edit cancelled, no changes made.\n");

    let stale = k.succeeds("get cm settings -o json").stdout.replace("\"9\"", "\"10\"");
    k.run_with_stdin("replace -f -", &stale).prints("configmap/settings replaced");
    k.run_with_stdin("replace -f -", &stale).fails(
        r#"Error from server (Conflict): error when replacing "STDIN": Operation cannot be fulfilled on configmaps "settings": the object has been modified; please apply your changes to the latest version and try again"#,
    );
    let file = k.file("settings.json", &stale);
    k.prints(
        &format!("replace --force -f {file}"),
        "configmap \"settings\" deleted from default namespace\nconfigmap/settings replaced",
    );
    k.prints("get cm settings -o jsonpath={.data}", r#"{"a":"10"}"#);
}

#[test]
fn a_rejected_edit_is_saved_to_a_file() {
    let k = Kubectl::start();
    k.succeeds("create service clusterip plain --tcp=80");
    // The second time the editor changes nothing, and kubectl gives up.
    let refused = k.edit("edit svc plain", &k.editor("s/port: 80$/port: 0/"));
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("error: Edit cancelled, no valid changes were saved."), "{}", refused.stderr);
    let saved =
        refused.stderr.split('"').find(|part| part.contains("kubectl-edit-")).expect("the path of the saved file");
    let saved = std::fs::read_to_string(saved).expect("the saved file");
    let reason = "# services \"plain\" was not valid:\n# * spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive\n";
    assert!(saved.contains(reason), "{saved}");
}

#[test]
fn nodes_are_tainted_cordoned_and_drained() {
    let k = Kubectl::start();
    k.run_with_stdin("create -f -", r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}"#)
        .prints("node/n1 created");
    // New nodes have this taint.
    k.prints("taint node n1 node.kubernetes.io/not-ready:NoSchedule-", "node/n1 untainted");
    k.prints("taint node n1 dedicated=test:NoSchedule", "node/n1 tainted");
    k.prints("get node n1 -o jsonpath={.spec.taints}", r#"[{"effect":"NoSchedule","key":"dedicated","value":"test"}]"#);
    k.prints("taint node n1 dedicated:NoSchedule-", "node/n1 untainted");
    k.prints("cordon n1", "node/n1 cordoned");
    k.prints("cordon n1", "node/n1 already cordoned");
    k.prints(
        "get nodes",
        "
        NAME  STATUS                      ROLES   AGE  VERSION
        n1    Unknown,SchedulingDisabled  <none>  AGE
        ",
    );
    k.prints("uncordon n1", "node/n1 uncordoned");
    k.prints("drain n1", "node/n1 cordoned\nnode/n1 drained");
    k.run("describe node n1").has_lines("Unschedulable:  true\nNon-terminated Pods:  (0 in total)\nEvents:  <none>");
}

/// Adds a running pod with the label `app=web` to the node `n1`. The pod is ready if `is_ready`.
fn run_web_pod(k: &Kubectl, name: &str, is_ready: bool) {
    let ready = if is_ready { "True" } else { "False" };
    let on_node = r#"'--overrides={"spec": {"nodeName": "n1"}}'"#;
    k.succeeds(&format!("run {name} --image=nginx --labels=app=web {on_node}"));
    let status = format!(r#"{{"phase": "Running", "conditions": [{{"type": "Ready", "status": "{ready}"}}]}}"#);
    k.succeeds(&format!(r#"patch pod {name} --subresource=status '--patch={{"status": {status}}}'"#));
}

/// Writes the status that the disruption controller would write.
fn set_budget_status(k: &Kubectl, healthy: i32, desired: i32) {
    let status = format!(
        r#"{{"status": {{"observedGeneration": 1, "disruptionsAllowed": {}, "currentHealthy": {healthy}, "desiredHealthy": {desired}}}}}"#,
        healthy - desired
    );
    k.succeeds(&format!("patch pdb web --subresource=status --type=merge '--patch={status}'"));
}

#[test]
fn drain_evicts_pods_as_far_as_their_budget_allows() {
    let k = Kubectl::start();
    k.run_with_stdin("create -f -", r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}"#)
        .prints("node/n1 created");
    for pod in ["one", "two"] {
        run_web_pod(&k, pod, true);
    }
    k.prints("create pdb web --selector=app=web --min-available=1", "poddisruptionbudget.policy/web created");
    set_budget_status(&k, 1, 1);
    let drain = "drain n1 --ignore-daemonsets --force --grace-period=0";
    let blocked = k.run(&format!("{drain} --timeout=4s --pod-selector=app=web"));
    assert_eq!(blocked.code, 1, "{blocked:?}");
    for pod in ["one", "two"] {
        let why = format!(
            "error when evicting pods/\"{pod}\" -n \"default\" (will retry after 5s): Cannot evict pod as it would violate \
             the pod's disruption budget."
        );
        assert!(blocked.stderr.contains(&why), "{blocked:?}");
    }
    k.prints("get pods -o name", "pod/one\npod/two");
    set_budget_status(&k, 3, 1);
    let drained = k.succeeds(drain);
    let mut lines: Vec<&str> = drained.stdout.lines().collect();
    lines.sort_unstable();
    let expect = [
        "evicting pod default/one",
        "evicting pod default/two",
        "node/n1 already cordoned",
        "node/n1 drained",
        "pod/one evicted",
        "pod/two evicted",
    ];
    assert_eq!(lines, expect, "{drained:?}");
    k.prints("get pods -o name", "");
    k.prints(
        "get pdb web -o jsonpath={.status.disruptionsAllowed}/{.status.conditions[0].reason}",
        "0/InsufficientPods",
    );
}
#[test]
fn drain_evicts_as_many_pods_as_a_budget_allows_and_unhealthy_ones_always() {
    let k = Kubectl::start();
    k.run_with_stdin("create -f -", r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}"#)
        .prints("node/n1 created");
    for (pod, is_ready) in [("one", true), ("two", true), ("unhealthy", false)] {
        run_web_pod(&k, pod, is_ready);
    }
    let spec = r#"{"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}"#;
    let budget = format!(
        r#"{{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {{"name": "web"}}, "spec": {spec}}}"#
    );
    k.run_with_stdin("create -f -", &budget).prints("poddisruptionbudget.policy/web created");
    let drain = "drain n1 --ignore-daemonsets --force --grace-period=0 --timeout=4s";
    set_budget_status(&k, 2, 2);
    assert_eq!(k.run(drain).code, 1);
    k.prints("get pods -o name", "pod/one\npod/two");
    k.prints("get pdb web -o jsonpath={.status.disruptedPods}", "");
    set_budget_status(&k, 3, 2);
    assert_eq!(k.run(drain).code, 1);
    let left = k.succeeds("get pods -o name").stdout;
    assert_eq!(left.lines().count(), 1, "{left}");
    k.prints("get pdb web -o jsonpath={.status.disruptionsAllowed}", "0");
    let evicted = if left.trim() == "pod/one" { "two" } else { "one" };
    let disrupted = k.succeeds("get pdb web -o jsonpath={.status.disruptedPods}").stdout;
    assert!(disrupted.starts_with(&format!("{{\"{evicted}\":")), "{disrupted}");
}
