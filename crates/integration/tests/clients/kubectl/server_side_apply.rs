//! `kubectl apply --server-side`: conflicts, forced conflicts, and the migration from client-side apply.

use serde_json::Value;

use super::client::Kubectl;

const SETTINGS: &str = "
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  a: one
  b: two
";

/// The managed fields of the object's data as `manager Operation: keys`.
fn owners(k: &Kubectl) -> Vec<String> {
    let shown = k.succeeds("get cm settings -o json --show-managed-fields").stdout;
    let object: Value = serde_json::from_str(&shown).expect("an object");
    let mut owners = Vec::new();
    for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        let data = entry["fieldsV1"]["f:data"].as_object().into_iter().flatten();
        let keys: Vec<&str> = data.filter_map(|(key, _)| key.strip_prefix("f:")).collect();
        owners.push(format!("{} {}: {}", text("manager"), text("operation"), keys.join(" ")));
    }
    owners
}

#[test]
fn server_side_apply_creates_updates_and_reports_conflicts() {
    let k = Kubectl::start();
    k.run_with_stdin("apply --server-side -f - --dry-run=server", SETTINGS)
        .prints("configmap/settings serverside-applied (server dry run)");
    k.prints("get cm -o name", "");
    k.run_with_stdin("apply --server-side -f -", SETTINGS).prints("configmap/settings serverside-applied");
    let version = k.succeeds("get cm settings -o jsonpath={.metadata.resourceVersion}").stdout;
    k.run_with_stdin("apply --server-side -f -", SETTINGS).prints("configmap/settings serverside-applied");
    k.prints("get cm settings -o jsonpath={.metadata.annotations}", "");
    assert_eq!(k.succeeds("get cm settings -o jsonpath={.metadata.resourceVersion}").stdout, version);
    k.run_with_stdin("diff --server-side -f -", SETTINGS).prints("");

    let theirs = SETTINGS.replace("a: one", "a: three").replace("  b: two\n", "");
    k.run_with_stdin("apply --server-side --field-manager=other -f -", &theirs).fails(
        "error: Apply failed with 1 conflict: conflict with \"kubectl\": .data.a\n\
        Please review the fields above--they currently have other managers. Here\n\
        are the ways you can resolve this warning:\n\
        * If you intend to manage all of these fields, please re-run the apply\n  \
          command with the `--force-conflicts` flag.\n\
        * If you do not intend to manage all of the fields, please edit your\n  \
          manifest to remove references to the fields that should keep their\n  \
          current managers.\n\
        * You may co-own fields by updating your manifest to match the existing\n  \
          value; in this case, you'll become the manager if the other manager(s)\n  \
          stop managing the field (remove it from their configuration).\n\
        See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts",
    );
    k.run_with_stdin("apply --server-side --field-manager=other --force-conflicts -f -", &theirs)
        .prints("configmap/settings serverside-applied");
    assert_eq!(owners(&k), ["kubectl Apply: b", "other Apply: a"]);
    // Applying fewer fields removes omitted fields that no other manager owns.
    k.run_with_stdin("apply --server-side -f -", &SETTINGS.replace("  a: one\n  b: two\n", "  c: four\n"))
        .prints("configmap/settings serverside-applied");
    k.prints("get cm settings -o jsonpath={.data}", r#"{"a":"three","c":"four"}"#);
    let unknown = SETTINGS.replace("\ndata:", "\ndates: {}\ndata:");
    k.run_with_stdin("apply --server-side -f -", &unknown).fails(
        "Error from server: failed to create typed patch object (default/settings; /v1, Kind=ConfigMap): .dates: field not \
        declared in schema",
    );
}

#[test]
fn objects_migrate_from_client_side_apply() {
    let k = Kubectl::start();
    k.run_with_stdin("apply -f -", SETTINGS).prints("configmap/settings created");
    assert_eq!(owners(&k), ["kubectl-client-side-apply Update: a b"]);
    k.run_with_stdin("apply --server-side -f -", &SETTINGS.replace("a: one", "a: three").replace("  b: two\n", ""))
        .prints("configmap/settings serverside-applied");
    // kubectl takes over the fields of client-side apply, so a field that it no longer applies is removed.
    k.prints("get cm settings -o jsonpath={.data}", r#"{"a":"three"}"#);
    assert_eq!(owners(&k), ["kubectl-last-applied Apply: ", "kubectl Apply: a"]);
    // Migration back is possible: the last-applied annotation is updated by server-side apply.
    k.run("apply view-last-applied cm settings").has_lines("data:\n  a: three");
    k.run_with_stdin("apply -f -", SETTINGS).prints("configmap/settings configured");
    k.prints("get cm settings -o jsonpath={.data}", r#"{"a":"one","b":"two"}"#);
}

#[test]
fn a_status_is_applied_through_its_subresource() {
    let k = Kubectl::start();
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: one}\n";
    k.run_with_stdin("apply --server-side -f -", node).prints("node/one serverside-applied");
    let status = format!("{node}spec: {{unschedulable: true}}\nstatus: {{phase: Running}}\n");
    k.run_with_stdin("apply --server-side --subresource=status -f -", &status).prints("node/one serverside-applied");
    k.prints("get node one -o jsonpath={.status.phase},{.spec.unschedulable}", "Running,");
}
