//! How admission plugins see and change writes. The plugin of these tests belongs to the program that embeds the
//! server.

use std::sync::Arc;

use parking_lot::Mutex;
use pintle::Options;
use pintle_admission::{AdmissionAttributes, AdmissionConfiguration, AdmissionPlugin};
use pintle_integration::{Cluster, Response, run};
use pintle_registry::{ApiError, BoxFuture};
use pintle_value::Value;
use serde_json::json;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const WARNING: &str = "the tests' plugin has seen it";

/// Records every write of a user, adds a label and a warning to ConfigMaps, and refuses ConfigMaps with the name
/// `refused`.
#[derive(Default)]
struct RecordingPlugin {
    writes: Mutex<Vec<String>>,
}

impl RecordingPlugin {
    fn record(&self, phase: &str, attributes: &AdmissionAttributes<'_>) {
        if attributes.user.name.starts_with("system:apiserver") {
            return;
        }
        let AdmissionAttributes { operation, resource, subresource, name, dry_run, old, .. } = attributes;
        let options = attributes.options.to_object(*operation);
        self.writes.lock().push(format!(
            "{phase} {operation:?} {}/{subresource} {name:?} old={} dry_run={dry_run} options={}",
            resource.plural,
            old.is_some(),
            options.str_at(&["kind"]),
        ));
    }

    /// The writes since the last call.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.writes.lock())
    }
}

impl AdmissionPlugin for RecordingPlugin {
    fn name(&self) -> &'static str {
        "RecordingPlugin"
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            self.record("mutate", attributes);
            if attributes.resource.plural == "configmaps" && !object.is_null() {
                object.set_at(&["metadata", "labels", "mutated"], "yes");
                attributes.recorder.warn(WARNING.to_owned());
            }
            Ok(())
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            self.record("validate", attributes);
            assert_ne!(object.name(), "defect", "a defect of a plugin");
            if object.name() == "refused" {
                return Err(ApiError::Forbidden {
                    resource: attributes.resource.group_resource(),
                    name: attributes.name.into(),
                    why: "the tests' plugin refuses it".to_owned(),
                    causes: Vec::new(),
                });
            }
            Ok(())
        })
    }
}

async fn start() -> (Cluster, Arc<RecordingPlugin>) {
    let plugin = Arc::new(RecordingPlugin::default());
    let admission = AdmissionConfiguration { additional: vec![plugin.clone()], ..AdmissionConfiguration::default() };
    let cluster = Cluster::with_options(Options { admission, ..Options::default() }).await;
    plugin.take();
    (cluster, plugin)
}

fn config_map(name: &str) -> String {
    json!({"metadata": {"name": name}, "data": {"a": "1"}}).to_string()
}

/// Checks the response to a mutated write, and the writes that the plugin has seen for it.
fn check(plugin: &RecordingPlugin, response: Response, code: u16, expect: &[&str]) -> serde_json::Value {
    let response = response.expect(code);
    assert_eq!(plugin.take(), expect);
    response.json()
}

#[test]
fn plugins_see_creates_updates_patches_and_deletes() {
    run(async {
        let (cluster, plugin) = start().await;
        let path = format!("{CONFIGMAPS}/c");
        let created = check(
            &plugin,
            cluster.post(CONFIGMAPS, config_map("c")).await,
            201,
            &[
                "mutate Create configmaps/ \"c\" old=false dry_run=false options=CreateOptions",
                "validate Create configmaps/ \"c\" old=false dry_run=false options=CreateOptions",
            ],
        );
        assert_eq!(created["metadata"]["labels"], json!({"mutated": "yes"}));
        let updated = check(
            &plugin,
            cluster.put(&format!("{path}?dryRun=All"), config_map("c")).await,
            200,
            &[
                "mutate Update configmaps/ \"c\" old=true dry_run=true options=UpdateOptions",
                "validate Update configmaps/ \"c\" old=true dry_run=true options=UpdateOptions",
            ],
        );
        assert_eq!(updated["metadata"]["labels"], json!({"mutated": "yes"}));
        check(
            &plugin,
            cluster.patch(&path, "merge", r#"{"data":{"b":"2"}}"#).await,
            200,
            &[
                "mutate Update configmaps/ \"c\" old=true dry_run=false options=UpdateOptions",
                "validate Update configmaps/ \"c\" old=true dry_run=false options=UpdateOptions",
            ],
        );
        check(
            &plugin,
            cluster.delete(&path).await,
            200,
            &[
                "mutate Delete configmaps/ \"c\" old=true dry_run=false options=DeleteOptions",
                "validate Delete configmaps/ \"c\" old=true dry_run=false options=DeleteOptions",
            ],
        );
        cluster.stop().await;
    });
}

#[test]
fn a_generated_name_is_set_between_the_phases() {
    run(async {
        let (cluster, plugin) = start().await;
        let body = json!({"metadata": {"generateName": "g-"}}).to_string();
        let created = cluster.post(CONFIGMAPS, body).await.expect(201).json();
        let name = created["metadata"]["name"].as_str().expect("a name").to_owned();
        assert_eq!(
            plugin.take(),
            [
                "mutate Create configmaps/ \"\" old=false dry_run=false options=CreateOptions".to_owned(),
                format!("validate Create configmaps/ {name:?} old=false dry_run=false options=CreateOptions"),
            ]
        );
        cluster.stop().await;
    });
}

#[test]
fn a_binding_is_admitted_once_and_the_pod_not_again() {
    run(async {
        let (cluster, plugin) = start().await;
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let pods = "/api/v1/namespaces/default/pods";
        let _ = cluster.post(pods, pod.to_string()).await.expect(201);
        plugin.take();
        let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}).to_string();
        let _ = cluster.post(&format!("{pods}/p/binding"), binding).await.expect(201);
        assert_eq!(
            plugin.take(),
            [
                "mutate Create pods/binding \"p\" old=false dry_run=false options=CreateOptions",
                "validate Create pods/binding \"p\" old=false dry_run=false options=CreateOptions",
            ]
        );
        cluster.stop().await;
    });
}

#[test]
fn a_refusal_is_the_response_and_nothing_is_stored() {
    run(async {
        let (cluster, _) = start().await;
        cluster.post(CONFIGMAPS, config_map("refused")).await.expect_error(
            403,
            "Forbidden",
            "configmaps \"refused\" is forbidden: the tests' plugin refuses it",
        );
        let _ = cluster.get(&format!("{CONFIGMAPS}/refused")).await.expect(404);
        cluster.stop().await;
    });
}

#[test]
fn warnings_of_plugins_reach_the_client() {
    run(async {
        let (cluster, _) = start().await;
        let response = cluster.post(CONFIGMAPS, config_map("c")).await.expect(201);
        assert_eq!(response.headers["warning"], format!("299 - \"{WARNING}\""));
        cluster.stop().await;
    });
}

/// Upstream recovers from panics in its outermost handler, so other requests of the connection go on.
#[test]
fn a_panic_fails_only_its_own_request() {
    run(async {
        let (cluster, _) = start().await;
        let mut watch = cluster.watch(&format!("{CONFIGMAPS}?watch=true")).await;
        for _ in 0..3 {
            let response = cluster.post(CONFIGMAPS, config_map("defect")).await.expect(500);
            assert_eq!(response.text(), "This request caused apiserver to panic. Look in the logs for details.\n");
        }
        let _ = cluster.post(CONFIGMAPS, config_map("c")).await.expect(201);
        watch.expect("ADDED", "c").await;
        let metrics = cluster.get("/metrics").await.expect(200).text();
        let counted = |line: &&str| {
            line.starts_with("apiserver_request_total{")
                && line.contains(r#"verb="POST""#)
                && line.contains(r#"code="500""#)
        };
        assert!(metrics.lines().find(counted).is_some_and(|line| line.ends_with(" 3")), "{metrics}");
        cluster.stop().await;
    });
}
