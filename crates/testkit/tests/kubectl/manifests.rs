//! Manifests as people write them, in `tests/manifests`: each is applied, applied again without any effect, described,
//! edited and deleted.

use std::path::Path;

use crate::client::Kubectl;

/// A manifest and what happens to it.
struct Manifest {
    file: &'static str,
    /// Its objects, as kubectl names them.
    objects: &'static [&'static str],
    /// Those that kubectl patches each time although nothing changes: the server does not give back what stands in the
    /// manifest (`stringData`), or a list or map that is replaced whole has gained defaults.
    restless: &'static [&'static str],
    /// An edit, and the objects that it changes.
    edit: (&'static str, &'static str),
    edited: &'static [&'static str],
}

/// Runs a manifest through its life.
fn check(manifest: &Manifest) {
    let k = Kubectl::start();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests").join(manifest.file);
    let text = std::fs::read_to_string(&path).expect("the manifest");
    let say = |verdict: &dyn Fn(&str) -> &'static str| -> String {
        manifest.objects.iter().map(|object| format!("{object} {}\n", verdict(object))).collect()
    };
    k.pipe("apply -f -", &text).prints(&say(&|_| "created"));

    let revisions = "get -f - -o custom-columns=V:.metadata.resourceVersion,G:.metadata.generation --no-headers";
    let first = k.pipe(revisions, &text).works().stdout;
    let again = say(&|object| if manifest.restless.contains(&object) { "configured" } else { "unchanged" });
    k.pipe("apply -f -", &text).prints(&again);
    assert_eq!(k.pipe(revisions, &text).works().stdout, first, "{}: applying again changed something", manifest.file);
    k.pipe("diff -f -", &text).prints("");
    k.pipe("get -f - -o wide", &text).works();
    k.pipe("describe -f -", &text).works();

    let (before, after) = manifest.edit;
    let edited = text.replacen(before, after, 1);
    assert_ne!(edited, text, "{}: {before:?} is not in it", manifest.file);
    assert_eq!(k.pipe("diff -f -", &edited).code, 1, "{}: the edit is no difference", manifest.file);
    let verdict = |object: &str| {
        let patched = manifest.edited.contains(&object) || manifest.restless.contains(&object);
        if patched { "configured" } else { "unchanged" }
    };
    k.pipe("apply -f -", &edited).prints(&say(&verdict));
    assert_ne!(k.pipe(revisions, &text).works().stdout, first, "{}: the edit changed nothing", manifest.file);

    // In the opposite order, so that nothing is looked for in a namespace that has gone.
    let documents: Vec<&str> = edited.rsplit("\n---\n").collect();
    let deleted = k.pipe("delete -f - --wait=false", &documents.join("\n---\n")).works().stdout;
    let expect = manifest.objects.iter().rev().map(|object| object.replacen('/', " \"", 1) + "\" deleted");
    for (line, expect) in deleted.lines().zip(expect) {
        assert!(line.starts_with(&expect), "{}: {line}, not {expect}", manifest.file);
    }
    assert_eq!(deleted.lines().count(), manifest.objects.len(), "{}: {deleted}", manifest.file);
    for namespace in manifest.objects.iter().filter_map(|object| object.strip_prefix("namespace/")) {
        k.works(&format!("wait --for=delete namespace/{namespace}"));
    }
    let left = k.pipe("get -f - --ignore-not-found -o name", &edited);
    assert_eq!(left.stdout, "", "{}: {}", manifest.file, left.stderr);
}

macro_rules! manifests {
    ($($test:ident $file:literal: $objects:expr, restless $restless:expr, edit $before:literal => $after:literal: $edited:expr;)*) => {$(
        #[test]
        fn $test() {
            check(&Manifest {
                file: $file,
                objects: &$objects,
                restless: &$restless,
                edit: ($before, $after),
                edited: &$edited,
            });
        }
    )*

        #[test]
        fn every_manifest_is_tried() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests");
            let files = std::fs::read_dir(folder).expect("the manifests");
            let mut names: Vec<String> =
                files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            let mut tried = vec![$($file.to_owned()),*];
            tried.sort();
            assert_eq!(names, tried);
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
    ], restless ["secret/web-session"], edit "nginx:1.27-alpine" => "nginx:1.28-alpine": ["deployment.apps/web"];

    database "database.yaml": [
        "service/postgres",
        "service/postgres-read",
        "secret/postgres-login",
        "statefulset.apps/postgres",
        "poddisruptionbudget.policy/postgres",
    ], restless ["secret/postgres-login", "statefulset.apps/postgres", "poddisruptionbudget.policy/postgres"],
    edit "max_connections=200" => "max_connections=500": ["statefulset.apps/postgres"];

    node_agent "node-agent.yaml": [
        "namespace/logging",
        "serviceaccount/agent",
        "clusterrole.rbac.authorization.k8s.io/log-agent",
        "clusterrolebinding.rbac.authorization.k8s.io/log-agent",
        "configmap/agent",
        "daemonset.apps/agent",
    ], restless [], edit "maxUnavailable: 10%" => "maxUnavailable: 2": ["daemonset.apps/agent"];

    backup "backup.yaml": [
        "persistentvolumeclaim/backups",
        "configmap/backup-script",
        "cronjob.batch/backup",
        "cronjob.batch/verify",
    ], restless [], edit "30 2 * * *" => "45 3 * * *": ["cronjob.batch/backup"];

    network_policies "network-policies.yaml": [
        "namespace/payments",
        "networkpolicy.networking.k8s.io/deny-all",
        "networkpolicy.networking.k8s.io/allow-dns",
        "networkpolicy.networking.k8s.io/api",
    ], restless [], edit "endPort: 9010" => "endPort: 9020": ["networkpolicy.networking.k8s.io/api"];

    autoscaling "autoscaling.yaml": [
        "priorityclass.scheduling.k8s.io/workers",
        "deployment.apps/worker",
        "horizontalpodautoscaler.autoscaling/worker",
        "poddisruptionbudget.policy/worker",
    ], restless ["poddisruptionbudget.policy/worker"],
    edit "maxReplicas: 20" => "maxReplicas: 40": ["horizontalpodautoscaler.autoscaling/worker"];

    migration_job "migration-job.yaml": ["configmap/migration", "secret/migration-login", "job.batch/migrate-42"],
    restless [], edit "app: migrate\nspec" => "app: migration\nspec": ["job.batch/migrate-42"];

    rich_pod "rich-pod.yaml": ["pod/everything", "service/everything"], restless [],
    edit "registry.example.com:5000/team/app" => "registry.example.com:5000/team/app:2": ["pod/everything"];

    storage "storage.yaml": [
        "storageclass.storage.k8s.io/fast",
        "storageclass.storage.k8s.io/manual",
        "csidriver.storage.k8s.io/csi.example.com",
        "persistentvolume/archive",
        "persistentvolumeclaim/archive",
    ], restless [], edit "mountOptions: [noatime]" => "mountOptions: [noatime, ro]": ["persistentvolume/archive"];

    tenant "tenant.yaml": [
        "namespace/team-blue",
        "resourcequota/compute",
        "resourcequota/batch",
        "limitrange/defaults",
        "serviceaccount/deployer",
        "role.rbac.authorization.k8s.io/developer",
        "rolebinding.rbac.authorization.k8s.io/developers",
        "rolebinding.rbac.authorization.k8s.io/viewers",
    ], restless [], edit "requests.cpu: \"10\"" => "requests.cpu: \"12\"": ["resourcequota/compute"];

    gateway "gateway.yaml": [
        "ingressclass.networking.k8s.io/edge",
        "service/gateway",
        "service/gateway-public",
        "service/billing",
        "service/legacy",
        "endpointslice.discovery.k8s.io/legacy-1",
    ], restless [], edit "externalName: billing.example.com" => "externalName: bills.example.com": ["service/billing"];

    leader_election "leader-election.yaml": [
        "lease.coordination.k8s.io/operator-leader",
        "event/web.17a0c5d2e3f4",
        "event.events.k8s.io/operator.17a0c5d2e3f5",
        "controllerrevision.apps/agent-5f7c",
    ], restless [], edit "08:00:10.250000Z" => "08:00:20.500000Z": ["lease.coordination.k8s.io/operator-leader"];

    nodes "nodes.yaml": [
        "node/node-1",
        "runtimeclass.node.k8s.io/sandboxed",
        "replicationcontroller/classic",
        "replicaset.apps/plain",
        "podtemplate/mold",
    ], restless [], edit "replicas: 2" => "replicas: 3": ["replicationcontroller/classic"];
}
