//! Realistic manifests from `tests/clients/manifests`. The tests apply each manifest, apply it again without any
//! effect, describe, edit and delete it.

use std::path::Path;

use super::client::Kubectl;

/// A manifest and the expected results.
struct Manifest {
    file: &'static str,
    /// The objects of the manifest, as kubectl names them.
    objects: &'static [&'static str],
    /// The objects that kubectl always patches although nothing changes. One reason is a field of the manifest that the
    /// server does not return (`stringData`). Another reason is a list or map that a patch replaces as a whole. It has
    /// got defaults or, like the tolerations of pods, items from an admission plugin.
    always_patched: &'static [&'static str],
    /// A text replacement in the manifest.
    edit: (&'static str, &'static str),
    /// The objects that the edit changes.
    edited: &'static [&'static str],
}

/// Applies, edits and deletes a manifest.
fn check(manifest: &Manifest) {
    let k = Kubectl::start();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/manifests").join(manifest.file);
    let text = std::fs::read_to_string(&path).expect("the manifest");
    let output = |verdict: &dyn Fn(&str) -> &'static str| -> String {
        manifest.objects.iter().map(|object| format!("{object} {}\n", verdict(object))).collect()
    };
    k.run_with_stdin("apply -f -", &text).prints(&output(&|_| "created"));

    let revisions = "get -f - -o custom-columns=V:.metadata.resourceVersion,G:.metadata.generation --no-headers";
    let first = k.run_with_stdin(revisions, &text).succeeds().stdout;
    let again = output(&|object| if manifest.always_patched.contains(&object) { "configured" } else { "unchanged" });
    k.run_with_stdin("apply -f -", &text).prints(&again);
    assert_eq!(
        k.run_with_stdin(revisions, &text).succeeds().stdout,
        first,
        "{}: applying again changed something",
        manifest.file
    );
    k.run_with_stdin("diff -f -", &text).prints("");
    k.run_with_stdin("get -f - -o wide", &text).succeeds();
    k.run_with_stdin("describe -f -", &text).succeeds();

    let (before, after) = manifest.edit;
    let edited = text.replacen(before, after, 1);
    assert_ne!(edited, text, "{}: {before:?} is not in it", manifest.file);
    assert_eq!(k.run_with_stdin("diff -f -", &edited).code, 1, "{}: the edit is no difference", manifest.file);
    let verdict = |object: &str| {
        let patched = manifest.edited.contains(&object) || manifest.always_patched.contains(&object);
        if patched { "configured" } else { "unchanged" }
    };
    k.run_with_stdin("apply -f -", &edited).prints(&output(&verdict));
    assert_ne!(
        k.run_with_stdin(revisions, &text).succeeds().stdout,
        first,
        "{}: the edit changed nothing",
        manifest.file
    );

    // The order is reversed, so that a namespace is deleted after its objects.
    let documents: Vec<&str> = edited.rsplit("\n---\n").collect();
    let deleted = k.run_with_stdin("delete -f - --wait=false", &documents.join("\n---\n")).succeeds().stdout;
    let expect = manifest.objects.iter().rev().map(|object| object.replacen('/', " \"", 1) + "\" deleted");
    for (line, expect) in deleted.lines().zip(expect) {
        assert!(line.starts_with(&expect), "{}: {line}, not {expect}", manifest.file);
    }
    assert_eq!(deleted.lines().count(), manifest.objects.len(), "{}: {deleted}", manifest.file);
    for namespace in manifest.objects.iter().filter_map(|object| object.strip_prefix("namespace/")) {
        k.succeeds(&format!("wait --for=delete namespace/{namespace}"));
    }
    let left = k.run_with_stdin("get -f - --ignore-not-found -o name", &edited);
    assert_eq!(left.stdout, "", "{}: {}", manifest.file, left.stderr);
}

macro_rules! manifests {
    ($($test:ident $file:literal: $objects:expr, always_patched $always_patched:expr, edit $before:literal => $after:literal: $edited:expr;)*) => {$(
        #[test]
        fn $test() {
            check(&Manifest {
                file: $file,
                objects: &$objects,
                always_patched: &$always_patched,
                edit: ($before, $after),
                edited: &$edited,
            });
        }
    )*

        #[test]
        fn every_manifest_is_tested() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/manifests");
            let files = std::fs::read_dir(folder).expect("the manifests");
            let mut names: Vec<String> =
                files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            let mut tested = vec![$($file.to_owned()),*];
            tested.sort();
            assert_eq!(names, tested);
        }
    };
}

manifests! {
    web_app "web-app.yaml": [
        "namespace/shop",
        "configmap/web-config",
        "secret/web-session",
        "deployment.apps/web",
        "service/web",
        "ingress.networking.k8s.io/web",
    ], always_patched ["secret/web-session"], edit "nginx:1.27-alpine" => "nginx:1.28-alpine": ["deployment.apps/web"];

    database "database.yaml": [
        "service/postgres",
        "service/postgres-read",
        "secret/postgres-login",
        "statefulset.apps/postgres",
        "poddisruptionbudget.policy/postgres",
    ], always_patched ["secret/postgres-login", "statefulset.apps/postgres", "poddisruptionbudget.policy/postgres"],
    edit "max_connections=200" => "max_connections=500": ["statefulset.apps/postgres"];

    node_agent "node-agent.yaml": [
        "namespace/logging",
        "serviceaccount/agent",
        "clusterrole.rbac.authorization.k8s.io/log-agent",
        "clusterrolebinding.rbac.authorization.k8s.io/log-agent",
        "configmap/agent",
        "daemonset.apps/agent",
    ], always_patched [], edit "maxUnavailable: 10%" => "maxUnavailable: 2": ["daemonset.apps/agent"];

    backup "backup.yaml": [
        "persistentvolumeclaim/backups",
        "configmap/backup-script",
        "cronjob.batch/backup",
        "cronjob.batch/verify",
    ], always_patched [], edit "30 2 * * *" => "45 3 * * *": ["cronjob.batch/backup"];

    network_policies "network-policies.yaml": [
        "namespace/payments",
        "networkpolicy.networking.k8s.io/deny-all",
        "networkpolicy.networking.k8s.io/allow-dns",
        "networkpolicy.networking.k8s.io/api",
    ], always_patched [], edit "endPort: 9010" => "endPort: 9020": ["networkpolicy.networking.k8s.io/api"];

    autoscaling "autoscaling.yaml": [
        "priorityclass.scheduling.k8s.io/workers",
        "deployment.apps/worker",
        "horizontalpodautoscaler.autoscaling/worker",
        "poddisruptionbudget.policy/worker",
    ], always_patched ["poddisruptionbudget.policy/worker"],
    edit "maxReplicas: 20" => "maxReplicas: 40": ["horizontalpodautoscaler.autoscaling/worker"];

    migration_job "migration-job.yaml": ["configmap/migration", "secret/migration-login", "job.batch/migrate-42"],
    always_patched [], edit "app: migrate\nspec" => "app: migration\nspec": ["job.batch/migrate-42"];

    rich_pod "rich-pod.yaml": ["pod/everything", "service/everything"], always_patched ["pod/everything"],
    edit "registry.example.com:5000/team/app" => "registry.example.com:5000/team/app:2": ["pod/everything"];

    storage "storage.yaml": [
        "storageclass.storage.k8s.io/fast",
        "storageclass.storage.k8s.io/manual",
        "csidriver.storage.k8s.io/csi.example.com",
        "persistentvolume/archive",
        "persistentvolumeclaim/archive",
    ], always_patched [], edit "mountOptions: [noatime]" => "mountOptions: [noatime, ro]": ["persistentvolume/archive"];

    tenant "tenant.yaml": [
        "namespace/team-blue",
        "resourcequota/compute",
        "resourcequota/batch",
        "limitrange/defaults",
        "serviceaccount/deployer",
        "role.rbac.authorization.k8s.io/developer",
        "rolebinding.rbac.authorization.k8s.io/developers",
        "rolebinding.rbac.authorization.k8s.io/viewers",
    ], always_patched [], edit "requests.cpu: \"10\"" => "requests.cpu: \"12\"": ["resourcequota/compute"];

    gateway "gateway.yaml": [
        "ingressclass.networking.k8s.io/edge",
        "service/gateway",
        "service/gateway-public",
        "service/billing",
        "service/legacy",
        "endpointslice.discovery.k8s.io/legacy-1",
    ], always_patched [], edit "externalName: billing.example.com" => "externalName: bills.example.com": ["service/billing"];

    leader_election "leader-election.yaml": [
        "lease.coordination.k8s.io/operator-leader",
        "event/web.17a0c5d2e3f4",
        "event.events.k8s.io/operator.17a0c5d2e3f5",
        "controllerrevision.apps/agent-5f7c",
    ], always_patched [], edit "08:00:10.250000Z" => "08:00:20.500000Z": ["lease.coordination.k8s.io/operator-leader"];

    nodes "nodes.yaml": [
        "node/node-1",
        "runtimeclass.node.k8s.io/sandboxed",
        "replicationcontroller/classic",
        "replicaset.apps/plain",
        "podtemplate/mold",
    ], always_patched [], edit "replicas: 2" => "replicas: 3": ["replicationcontroller/classic"];
}
