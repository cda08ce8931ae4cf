//! Webhooks, policies and bindings from files (KEP-5793): their effects, changes of the files, names, and errors at the
//! start.

use std::collections::BTreeMap;
use std::path::Path;

use pintle_admission::AdmissionConfiguration;
use pintle_gates::{FeatureGatesFlag, Gates};
use pintle_integration::{Cluster, Options, eventually, run};
use pintle_versions::{EffectiveVersion, Minor};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::webhooks::webhook::{Behavior, VALIDATING, Webhook, rule};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

fn options(gate: &str, plugins: &[(&str, &str, &Path)]) -> Options {
    let mut flag = FeatureGatesFlag::default();
    flag.add(gate);
    let (gates, _) = flag.gates(Default::default()).expect("gates");
    let configuration = |(plugin, kind, folder): &(&str, &str, &Path)| {
        let text =
            format!("apiVersion: apiserver.config.k8s.io/v1\nkind: {kind}\nstaticManifestsDir: {}\n", folder.display());
        ((*plugin).to_owned(), text.into_bytes())
    };
    let plugins: BTreeMap<String, Vec<u8>> = plugins.iter().map(configuration).collect();
    let admission = AdmissionConfiguration { plugins, ..AdmissionConfiguration::default() };
    Options { gates, admission, ..Options::default() }
}

fn policies(folder: &Path) -> Options {
    let plugin = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyConfiguration", folder);
    options("ManifestBasedAdmissionControlConfig=true", &[plugin])
}

/// A policy with its binding that denies objects of a resource whose data or labels have the key.
fn policy(name: &str, group: &str, resource: &str, expression: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata:\n  name: \
         {name}.static.k8s.io\nspec:\n  matchConstraints:\n    resourceRules:\n    - apiGroups: ['{group}']\n      \
         apiVersions: ['*']\n      operations: [CREATE]\n      resources: ['{resource}']\n  validations:\n  - expression: \
         \"{expression}\"\n    message: refused by {name}\n---\napiVersion: admissionregistration.k8s.io/v1\nkind: \
         ValidatingAdmissionPolicyBinding\nmetadata:\n  name: {name}.static.k8s.io\nspec:\n  policyName: \
         {name}.static.k8s.io\n  validationActions: [Deny]\n"
    )
}

fn write(folder: &TempDir, file: &str, text: &str) {
    std::fs::write(folder.path().join(file), text).expect("a file");
}

async fn create(cluster: &Cluster, key: &str) -> (u16, String) {
    let object = json!({"metadata": {"generateName": "c-"}, "data": {key: "v"}}).to_string();
    let response = cluster.post(CONFIGMAPS, object).await;
    (response.status.as_u16(), response.json()["message"].as_str().unwrap_or_default().to_owned())
}

/// Waits until objects with the key are refused, or until they are accepted again.
async fn wait_until_refused(cluster: &Cluster, key: &str, is_refused: bool) {
    let reached = || async { (create(cluster, key).await.0 == 422) == is_refused };
    eventually(&format!("{key}: refused: {is_refused}"), reached).await;
}

#[test]
fn policies_of_files_are_enforced_and_follow_them() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        write(&folder, "a.yaml", &policy("a", "", "configmaps", "!has(object.data.a)"));
        write(&folder, "ignored.txt", "not a manifest");
        let cluster = Cluster::with_options(policies(folder.path())).await;
        let (code, message) = create(&cluster, "a").await;
        assert_eq!(code, 422, "{message}");
        let expect =
            "ValidatingAdmissionPolicy 'a.static.k8s.io' with binding 'a.static.k8s.io' denied request: refused by a";
        assert!(message.ends_with(expect), "{message}");
        assert_eq!(create(&cluster, "b").await.0, 201);
        // The API does not serve them as objects.
        assert_eq!(cluster.get(POLICIES).await.expect(200).json()["items"], json!([]));
        let _ = cluster.get(&format!("{POLICIES}/a.static.k8s.io")).await.expect(404);
        // Another file is a list.
        let list = json!({
            "apiVersion": "v1", "kind": "List",
            "items": policy("b", "", "configmaps", "!has(object.data.b)")
                .split("---\n")
                .map(yaml_as_json)
                .collect::<Vec<Value>>(),
        });
        write(&folder, "b.json", &list.to_string());
        wait_until_refused(&cluster, "b", true).await;
        // Invalid files change nothing.
        write(&folder, "a.yaml", "apiVersion: v1\nkind: Pod\n");
        write(&folder, "c.yaml", &policy("c", "", "configmaps", "!has(object.data.c)"));
        let failure = |metrics: &str| {
            metrics.lines().any(|line| {
                line.starts_with("apiserver_manifest_admission_config_controller_automatic_reloads_total{")
                    && line.contains("plugin=\"ValidatingAdmissionPolicy\"")
                    && line.contains("status=\"failure\"")
            })
        };
        cluster.get_until("/metrics", |metrics| failure(&metrics.text())).await;
        assert_eq!(create(&cluster, "a").await.0, 422);
        assert_eq!(create(&cluster, "c").await.0, 201);
        std::fs::remove_file(folder.path().join("a.yaml")).expect("a file");
        wait_until_refused(&cluster, "c", true).await;
        assert_eq!(create(&cluster, "a").await.0, 201);
        let metrics = cluster.get("/metrics").await.expect(200).text();
        let info = "apiserver_manifest_admission_config_controller_last_config_info{";
        assert!(metrics.lines().any(|line| line.starts_with(info) && line.contains("hash=\"sha256:")), "{metrics}");
        cluster.stop().await;
    });
}

/// A YAML document as JSON.
fn yaml_as_json(text: &str) -> Value {
    let decoded = pintle_codec::yaml::decode(text.as_bytes()).expect("YAML").value;
    serde_json::from_slice(&pintle_codec::json::encode(&decoded)).expect("JSON")
}

/// The feature is on by default since 1.37.
#[test]
fn files_need_no_feature_gate_since_1_37() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        write(&folder, "a.yaml", &policy("a", "", "configmaps", "!has(object.data.a)"));
        let gates = Gates::of(EffectiveVersion::of(Minor::new(37)));
        let cluster = Cluster::with_options(Options { gates, ..policies(folder.path()) }).await;
        assert_eq!(create(&cluster, "a").await.0, 422);
        assert_eq!(create(&cluster, "b").await.0, 201);
        cluster.stop().await;
    });
}

#[test]
fn policies_of_files_see_policies() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let guard = policy("guard", "admissionregistration.k8s.io", "*", "object.metadata.name != 'bad'");
        write(&folder, "guard.yml", &guard);
        let cluster = Cluster::with_options(policies(folder.path())).await;
        let binding = |name: &str| {
            json!({"metadata": {"name": name}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}).to_string()
        };
        let refused = cluster.post(BINDINGS, binding("bad")).await.expect(422).json();
        assert!(refused["message"].as_str().expect("a message").ends_with("refused by guard"), "{refused}");
        let _ = cluster.post(BINDINGS, binding("good")).await.expect(201);
        // Webhooks and policies from files do not see reviews.
        let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}).to_string();
        let _ = cluster.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).await.expect(201);
        // The names are reserved.
        let reserved = cluster.post(BINDINGS, binding("x.static.k8s.io")).await.expect(422).json();
        let expect = "metadata.name: Invalid value: \"x.static.k8s.io\": names ending with \".static.k8s.io\" are reserved \
                      for static manifest-based configurations and cannot be managed via the API";
        assert!(reserved["message"].as_str().expect("a message").contains(expect), "{reserved}");
        cluster.stop().await;
    });
}

#[test]
fn the_server_starts_although_files_refuse_its_own_objects() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        write(&folder, "a.yaml", &policy("a", "*", "*", "false"));
        let options = Options { rbac_bootstrap: Some(true), ..policies(folder.path()) };
        let cluster = Cluster::with_options(options).await;
        let class = "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical";
        let _ = cluster.get(class).await.expect(404);
        let _ = cluster.get("/api/v1/namespaces/default").await.expect(404);
        let health = cluster.get("/readyz/poststarthook/rbac/bootstrap-roles").await;
        assert_eq!(health.status.as_u16(), 500, "the roles are missing");
        std::fs::remove_file(folder.path().join("a.yaml")).expect("a file");
        let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view";
        for path in [class, "/api/v1/namespaces/default", role] {
            cluster.get_until_status(path, 200).await;
        }
        cluster.stop().await;
    });
}

#[test]
fn webhooks_of_files_come_first_and_see_configurations() {
    run(async {
        let deny = |_: &Value| json!({"allowed": false, "status": {"message": "no"}});
        let webhook = Webhook::start(Behavior::Respond(deny)).await;
        let rules = [rule(&["CREATE"], &["configmaps", "validatingwebhookconfigurations"])];
        let mut configured = webhook.configured("w.example.com", &rules, &json!({}));
        configured["rules"][0]["apiGroups"] = json!(["*"]);
        let manifest = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "w.static.k8s.io"}, "webhooks": [configured],
        });
        let folder = tempfile::tempdir().expect("a folder");
        write(&folder, "w.json", &manifest.to_string());
        let plugin = ("ValidatingAdmissionWebhook", "WebhookAdmissionConfiguration", folder.path());
        let cluster = Cluster::with_options(options("ManifestBasedAdmissionControlConfig=true", &[plugin])).await;
        let object = json!({"metadata": {"name": "c"}}).to_string();
        let refused = cluster.post(CONFIGMAPS, object).await.json();
        assert_eq!(refused["message"], "admission webhook \"w.example.com\" denied the request: no");
        let other = json!({"metadata": {"name": "o"}, "webhooks": []}).to_string();
        let refused = cluster.post(VALIDATING, other).await.json();
        assert_eq!(refused["message"], "admission webhook \"w.example.com\" denied the request: no");
        cluster.stop().await;
    });
}

/// The error of a server that does not start.
async fn start_error(options: Options) -> String {
    match pintle::Server::start(options).await {
        Ok(_) => panic!("the server has started"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn wrong_files_end_the_start_with_upstreams_words() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display().to_string();
        let plugin = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyConfiguration", folder.path());
        let error = start_error(options("ManifestBasedAdmissionControlConfig=false", &[plugin])).await;
        let expect = "couldn't init admission plugin \"ValidatingAdmissionPolicy\": staticManifestsDir: Forbidden: \
                      staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled";
        assert!(error.contains(expect), "{error}");
        let valid = policy("a", "", "configmaps", "true");
        for (text, expect) in [
            (
                valid.replace("a.static.k8s.io", "a"),
                "\"a\" in file \"PATH\" must have a name ending with \".static.k8s.io\"",
            ),
            (valid.replace("validations:", "validation:"), "strict decoding error: unknown field \"spec.validation\""),
            (
                valid.replace("ValidatingAdmissionPolicy\n", "MutatingAdmissionPolicy\n"),
                "strict decoding error: unknown field \"spec.validations\"",
            ),
            (
                "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicyBinding\n".to_owned(),
                "unsupported resource type *v1.MutatingAdmissionPolicyBinding",
            ),
            (
                "apiVersion: v1\nkind: Pod\n".to_owned(),
                "no kind \"Pod\" is registered for version \"v1\" in scheme \
                 \"k8s.io/kubernetes/pkg/admission/plugin/policy/manifest/loader/loader.go:35\"",
            ),
            (
                valid.replace("  - expression: \"true\"\n", "  - expression: \"\"\n"),
                "ValidatingAdmissionPolicy \"a.static.k8s.io\": spec.validations[0].expression: Required value: \
                 expression is not specified",
            ),
        ] {
            write(&folder, "a.yaml", &text);
            let error = start_error(policies(folder.path())).await;
            let expect = format!(
                "failed to initialize admission plugin \"ValidatingAdmissionPolicy\": failed to load static policy \
                 manifests from \"{path}\": error loading {path}/a.yaml: {}",
                expect.replace("PATH", &format!("{path}/a.yaml"))
            );
            assert!(error.contains(&expect), "{error}\n{expect}");
        }
        let unbound = valid.replace("policyName: a.", "policyName: other.");
        write(&folder, "a.yaml", &unbound);
        let error = start_error(policies(folder.path())).await;
        let expect = "binding \"a.static.k8s.io\" references policy \"other.static.k8s.io\" which does not exist in the \
                      manifest directory";
        assert!(error.contains(expect), "{error}");
    });
}
