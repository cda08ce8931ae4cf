//! Helm with a chart of built-in kinds and of a kind that another API server serves.

use std::path::Path;

use pintle_integration::{AggregatedServer, Cluster, bootstrapped};

use super::client::Kubectl;

/// Three values: of the ConfigMap, the Deployment and the Flunder.
fn values(k: &Kubectl) -> [String; 3] {
    [
        k.stdout("get configmap r-config -o jsonpath={.data.greeting}"),
        k.stdout("get deployment r-web -o jsonpath={.spec.replicas}"),
        k.stdout("get flunder r-flunder -o jsonpath={.spec.size}"),
    ]
}

#[test]
fn releases_have_objects_of_other_api_servers() {
    let k = Kubectl::with(Cluster::with_options(bootstrapped()));
    let server = AggregatedServer::start(k.kubeconfig());
    k.run_async(async |cluster| server.register(cluster).await);
    k.eventually("api-resources --api-group wardle.example.com -o name", |names| names.contains("flunders"));
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/chart");
    let chart = chart.display();
    let installed = k.helm(&format!("install r '{chart}' --set size=2")).succeeds().stdout;
    assert!(installed.contains("STATUS: deployed"), "{installed}");
    assert_eq!(values(&k), ["hello", "1", "2"]);
    let _ = k.helm(&format!("upgrade r '{chart}' --set size=3 --set replicas=2 --set greeting=bye")).succeeds();
    assert_eq!(values(&k), ["bye", "2", "3"]);
    let manifest = k.helm("get manifest r").succeeds().stdout;
    for line in ["kind: ConfigMap", "kind: Deployment", "kind: Flunder"] {
        assert!(manifest.contains(line), "{manifest}");
    }
    // Helm applies on the server. There, a change of somebody else is a conflict.
    k.prints(
        "patch flunder r-flunder --type merge -p {\"spec\":{\"size\":9}}",
        "flunder.wardle.example.com/r-flunder patched\n",
    );
    let refused = k.helm("rollback r 1").stderr;
    assert!(refused.contains("conflict with \"kubectl-patch\" using wardle.example.com/v1: .spec.size"), "{refused}");
    let rolled_back = k.helm("rollback r 1 --force-conflicts").succeeds().stdout;
    assert!(rolled_back.contains("Rollback was a success"), "{rolled_back}");
    assert_eq!(values(&k), ["hello", "1", "2"]);
    let history = k.helm("history r").succeeds().stdout;
    assert!(history.contains("Rollback to 1"), "{history}");
    // A value that the other API server refuses fails the upgrade.
    let refused = k.helm(&format!("upgrade r '{chart}' --set size=-1")).stderr;
    assert!(refused.contains("spec.size: Invalid value: -1"), "{refused}");
    let removed = k.helm("uninstall r").succeeds().stdout;
    assert!(removed.contains("release \"r\" uninstalled"), "{removed}");
    k.eventually("get flunders,deployments -o name", str::is_empty);
    k.prints("get configmap r-config --ignore-not-found -o name", "");
}
