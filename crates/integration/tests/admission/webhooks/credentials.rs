//! The credentials of the server for webhooks, and the configuration that names them.

use std::collections::BTreeMap;

use pintle_admission::AdmissionConfiguration;
use pintle_integration::{Cluster, Options, run};
use serde_json::json;

use super::webhook::{Behavior, MUTATING, VALIDATING, Webhook, allow, configure, rule};
use super::{CONFIGMAPS, config_map};

#[test]
fn the_kubeconfig_of_a_plugin_has_the_credentials_for_hosts() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let (known, other) =
            (Webhook::start(Behavior::Respond(allow)).await, Webhook::start(Behavior::Respond(allow)).await);
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\nusers:\n- {{name: '127.0.0.1:{}', user: {{token: secret}}}}\n",
            known.server.port
        );
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, kubeconfig).expect("a file");
        let configuration = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: WebhookAdmissionConfiguration\nkubeConfigFile: {}\n",
            path.display()
        );
        let plugins = BTreeMap::from([("ValidatingAdmissionWebhook".to_owned(), configuration.into_bytes())]);
        let admission = AdmissionConfiguration { plugins, ..AdmissionConfiguration::default() };
        let cluster = Cluster::with_options(Options { admission, ..Options::default() }).await;
        let rules = [rule(&["*"], &["configmaps"])];
        let webhook = |webhook: &Webhook| webhook.configured("w.example.com", &rules, &json!({}));
        for (path, server, expect) in
            [(VALIDATING, &known, Some("Bearer secret")), (VALIDATING, &other, None), (MUTATING, &known, None)]
        {
            configure(&cluster, path, "w", &[webhook(server)]).await;
            let _ = cluster.post(&format!("{CONFIGMAPS}?dryRun=All"), config_map("c")).await.expect(201);
            assert_eq!(server.last().0.header("authorization"), expect, "{path}");
            let _ = cluster.delete(&format!("{path}/w")).await.expect(200);
        }
        cluster.stop().await;
    });
}
