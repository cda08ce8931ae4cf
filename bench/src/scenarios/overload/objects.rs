//! The objects of the scenario. They are pods that are listed, leases and pods of nodes, the lease of a leader election, and
//! the configuration of the webhook.

use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::json;

use super::users;
use crate::Result;
use crate::client::{plain, with_body};
use crate::objects::{config_map, config_maps_path, fill, lease, leases_path, pod, pods_path};
use crate::plan::Plan;
use crate::scenarios::admission::rule;
use crate::target::{Server, Target};
use crate::webhook::Webhook;

/// The number of nodes, unless the plan has fewer.
const MAX_NODES: u64 = 100;
/// The namespace of the nodes' leases. A node may renew its lease only there.
const NODE_LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const WEBHOOK: &str = "bench-overload";

/// The paths and names of the objects.
pub(super) struct Objects {
    /// The collection that the noisy user lists and watches.
    pub(super) pods: String,
    /// The collection of the noisy user's large objects.
    pub(super) large_collection: String,
    /// A collection whose creates wait for the webhook.
    pub(super) slow_collection: String,
    /// The collection of the quiet user, and the name of the object that the user reads.
    pub(super) quiet_collection: String,
    pub(super) small_object: &'static str,
    /// The lease of the leader election.
    pub(super) election_lease: String,
    /// The names of the nodes. Each has a lease with its name, and the n-th node has the pod `pod-n`.
    pub(super) nodes: Arc<[String]>,
    pub(super) node_leases: &'static str,
    pub(super) node_pods: String,
}

impl Objects {
    /// Creates the objects.
    pub(super) async fn create(target: &mut Target, plan: &Plan, webhook: &Webhook) -> Result<Self> {
        let mut namespaces = Vec::new();
        for name in ["overload", "overload-quiet", "overload-nodes", "overload-slow"] {
            namespaces.push(target.namespace(name).await?);
        }
        let [noisy, quiet, node_pods, slow] = namespaces.as_slice() else { return Err("four namespaces".into()) };
        let prefix = target.namespace_prefix();
        let objects = Self {
            pods: pods_path(noisy),
            large_collection: config_maps_path(noisy),
            slow_collection: config_maps_path(slow),
            quiet_collection: config_maps_path(quiet),
            small_object: "small",
            election_lease: format!("{}/election", leases_path(quiet)),
            nodes: (0..plan.nodes.min(MAX_NODES)).map(|number| format!("{prefix}-node-{number}")).collect(),
            node_leases: NODE_LEASES,
            node_pods: pods_path(node_pods),
        };
        let server = &target.server;
        users::allow_everything(server).await?;
        fill(server, &objects.pods, plan.listed_objects, |number| pod(&format!("pod-{number}"), "", number)).await?;
        fill(server, &objects.quiet_collection, 1, |number| config_map("small", number)).await?;
        fill(server, &leases_path(quiet), 1, |number| lease("election", number, None)).await?;
        let nodes = objects.nodes.clone();
        let count = nodes.len() as u64;
        fill(server, NODE_LEASES, count, move |number| lease(&nodes[number as usize], number, None)).await?;
        let nodes = objects.nodes.clone();
        let node_pod = move |number| pod(&format!("pod-{number}"), &nodes[number as usize], number);
        fill(server, &objects.node_pods, count, node_pod).await?;
        configure_webhook(server, webhook, slow).await?;
        Ok(objects)
    }

    /// Deletes the objects that are in no namespace of the scenario.
    pub(super) async fn delete(&self, server: &Server) -> Result<()> {
        let mut connection = server.connect().await?;
        connection.execute(plain(Method::DELETE, format!("{WEBHOOKS}/{WEBHOOK}")), StatusCode::OK).await?;
        for node in &*self.nodes {
            connection.execute(plain(Method::DELETE, format!("{NODE_LEASES}/{node}")), StatusCode::OK).await?;
        }
        users::forbid_again(server).await
    }
}

/// Lets the webhook validate the ConfigMaps of a namespace.
async fn configure_webhook(server: &Server, webhook: &Webhook, namespace: &str) -> Result<()> {
    let webhook = json!({
        "name": "overload.bench.example.com",
        "clientConfig": webhook.client_config,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": 10,
        "rules": [rule("configmaps")],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "objectSelector": {},
    });
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": WEBHOOK},
        "webhooks": [webhook],
    });
    let request = with_body(Method::POST, WEBHOOKS, object.to_string());
    server.connect().await?.execute(request, StatusCode::CREATED).await?;
    Ok(())
}
