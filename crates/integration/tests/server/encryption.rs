//! Encryption at rest as operators see it: health checks, metrics, and reloads of the configuration.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use pintle::Options;
use pintle_encryption::EncryptionOptions;
use pintle_integration::{Cluster, eventually, run, tool_path};

const RELOAD_HOOK: &str = "poststarthook/start-encryption-provider-config-automatic-reload";

/// A KMS plugin in a process of its own.
struct Plugin(Child);

impl Plugin {
    fn start(socket: &Path) -> Self {
        let arguments = ["serve".as_ref(), socket.as_os_str(), "one".as_ref()];
        let child = Command::new(tool_path("encryption")).args(arguments).stdin(Stdio::piped()).spawn();
        Self(child.expect("the program starts"))
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn configuration(provider: &str) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
         - {{resources: [secrets], providers: [{provider}, {{identity: {{}}}}]}}\n"
    )
}

fn kms(socket: &Path) -> String {
    let endpoint = socket.display();
    configuration(&format!("{{kms: {{apiVersion: v2, name: kms, endpoint: 'unix://{endpoint}', timeout: 200ms}}}}"))
}

fn aes(key: &str) -> String {
    configuration(&format!("{{aesgcm: {{keys: [{{name: {key}, secret: AAECAwQFBgcICQoLDA0ODw==}}]}}}}"))
}

async fn server(file: &Path, automatic_reload: bool) -> Cluster {
    let encryption = EncryptionOptions { config_file: Some(file.to_owned()), automatic_reload };
    Cluster::with_options(Options { encryption, ..Options::default() }).await
}

/// The names of the checks of an endpoint.
async fn checks(cluster: &Cluster, endpoint: &str) -> Vec<String> {
    let text = cluster.get(&format!("/{endpoint}?verbose")).await.text();
    let name = |line: &str| Some(line.split_once(']')?.1.split(' ').next()?.to_owned());
    text.lines().filter_map(name).collect()
}

#[test]
fn a_plugin_that_is_away_fails_readyz_but_neither_the_start_nor_livez() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, socket) = (folder.path().join("encryption.yaml"), folder.path().join("kms.sock"));
        std::fs::write(&file, kms(&socket)).expect("a file");
        let cluster = server(&file, false).await;
        for endpoint in ["readyz", "healthz"] {
            let text = cluster.get(&format!("/{endpoint}")).await.expect(500).text();
            assert!(text.contains("[-]kms-providers failed: reason withheld\n"), "{text}");
            let names = checks(&cluster, endpoint).await;
            let place = names.iter().position(|name| name == "kms-providers").expect("the check");
            assert!(names[place - 1].starts_with("etcd"), "{names:?}");
            let single = cluster.get(&format!("/{endpoint}/kms-providers")).await.expect(500).text();
            let expect = "internal server error: kms-provider-0: ";
            assert!(single.starts_with(expect) && single.contains("code = DeadlineExceeded"), "{single}");
            let text = cluster.get(&format!("/{endpoint}?exclude=kms-providers")).await.expect(200).text();
            assert_eq!(text, "ok");
        }
        assert_eq!(cluster.get("/livez").await.expect(200).text(), "ok");
        assert!(!checks(&cluster, "livez").await.contains(&"kms-providers".to_owned()));
        let _ = cluster.get("/livez/kms-providers").await.expect(404);
        let index = cluster.get("/").await.expect(200).text();
        assert!(index.contains("\"/readyz/kms-providers\"") && !index.contains("\"/livez/kms-providers\""), "{index}");

        let _plugin = Plugin::start(&socket);
        eventually("the plugin is healthy", async || cluster.get("/readyz").await.status == 200).await;
        assert_eq!(cluster.get("/healthz/kms-providers").await.expect(200).text(), "ok");
        assert!(!checks(&cluster, "readyz").await.contains(&RELOAD_HOOK.to_owned()));
        let metrics = cluster.get("/metrics").await.expect(200).text();
        let name = "apiserver_envelope_encryption_kms_operations_latency_seconds_count";
        for status in ["OK", "DeadlineExceeded"] {
            let labels = format!("grpc_status_code=\"{status}\",method_name=\"/v2.KeyManagementService/Status\"");
            assert!(metrics.contains(&format!("{name}{{{labels},provider_name=\"kms\"}}")), "{metrics}");
        }
        cluster.stop().await;
    });
}

#[test]
fn a_changed_configuration_is_used_and_an_invalid_one_is_not() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("encryption.yaml");
        std::fs::write(&file, aes("one")).expect("a file");
        let cluster = server(&file, true).await;
        // A later configuration can have plugins.
        for (endpoint, has_plugins) in [("readyz", true), ("healthz", true), ("livez", false)] {
            let names = checks(&cluster, endpoint).await;
            assert!(names.contains(&RELOAD_HOOK.to_owned()), "{names:?}");
            assert_eq!(names.contains(&"kms-providers".to_owned()), has_plugins, "{names:?}");
            let _ = cluster.get(&format!("/{endpoint}")).await.expect(200);
        }
        let prefix = "apiserver_encryption_config_controller_";
        let lines = async || -> Vec<String> {
            let metrics = cluster.get("/metrics").await.expect(200).text();
            metrics.lines().filter(|line| line.starts_with(prefix)).map(str::to_owned).collect()
        };
        let begin = lines().await;
        assert!(matches!(begin.as_slice(), [info] if info.contains("last_config_info{")), "{begin:?}");
        let has = async |status: &str| {
            let label = format!("status=\"{status}\"");
            lines().await.iter().any(|line| line.contains("automatic_reloads_total") && line.contains(&label))
        };
        std::fs::write(&file, "x").expect("a file");
        eventually("the failure is counted", async || has("failure").await).await;
        assert!(lines().await.contains(&begin[0]) && !has("success").await);
        let _ = cluster.get("/readyz").await.expect(200);
        std::fs::write(&file, aes("two")).expect("a file");
        eventually("the reload is counted", async || has("success").await).await;
        assert!(!lines().await.contains(&begin[0]));
        cluster.stop().await;
    });
}
