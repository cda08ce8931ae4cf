//! Calls of admission webhooks, with the credentials that the configuration of the plugins names (upstream: apiserver's
//! `pkg/util/webhook`, `ClientManager` and `AuthenticationInfoResolver`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Uri;
use pintle_admission::PluginChain;
use pintle_admission::webhook::{ReviewEndpoint, WebhookCall, WebhookCallError, WebhookCaller};
use pintle_outbound::Dialer;
use pintle_registry::{BoxFuture, WebhookClientConfig, WebhookTarget};

use super::post::{Post, TimeoutSource, WebhookClient};
use super::{KubeconfigClient, KubeconfigError, KubeconfigUsers, ReviewClient};
use crate::client_protocols::webhook_protocols;
use crate::cluster::{Cluster, RecentClients};

/// Maximum size of an answer, in bytes. A patch may contain the whole object, in base64.
const MAX_RESPONSE_BYTES: usize = 16 << 20;
/// The time limit of each request for a review (upstream: `defaultRequestTimeout`).
const REVIEW_TIMEOUT: Duration = Duration::from_secs(30);

/// The clients with credentials by their kubeconfigs and webhooks, or the reason why there is no client.
type Clients = RecentClients<(PathBuf, WebhookClientConfig), Result<Arc<KubeconfigClient>, String>>;

/// Calls the admission webhooks of a cluster.
pub(crate) struct AdmissionWebhooks {
    cluster: Weak<Cluster>,
    /// The users of each kubeconfig.
    users: BTreeMap<PathBuf, KubeconfigUsers>,
    clients: Clients,
    /// The clients of the servers that plugins ask for reviews.
    reviewers: BTreeMap<PathBuf, ReviewClient>,
}

impl AdmissionWebhooks {
    /// Reads the kubeconfigs that plugins name.
    ///
    /// # Errors
    /// The name of the plugin whose kubeconfig cannot be used, and the reason.
    pub(crate) fn load(cluster: &Arc<Cluster>, plugins: &PluginChain) -> Result<Self, (&'static str, KubeconfigError)> {
        let load = |(plugin, path): (&'static str, &Path)| {
            let users = KubeconfigUsers::load(path).map_err(|error| (plugin, error))?;
            Ok((path.to_owned(), users))
        };
        let users = plugins.kubeconfigs().map(load).collect::<Result<_, _>>()?;
        let load = |(plugin, endpoint): (&'static str, &ReviewEndpoint)| {
            // As in upstream, plugins ask their own servers directly.
            let client = ReviewClient::load(&endpoint.kubeconfig, REVIEW_TIMEOUT, Dialer::Direct);
            let client = client.map_err(|error| (plugin, error))?;
            Ok((endpoint.kubeconfig.clone(), client.with_first_delay(endpoint.first_delay)))
        };
        let reviewers = plugins.review_endpoints().map(load).collect::<Result<_, _>>()?;
        Ok(Self { cluster: Arc::downgrade(cluster), users, clients: Clients::default(), reviewers })
    }

    fn client(&self, cluster: &Cluster, call: &WebhookCall<'_>) -> Result<WebhookClient, String> {
        let config = call.client;
        let users = call.kubeconfig.and_then(|path| Some((path, self.users.get(path)?)));
        let user = users.and_then(|(path, users)| Some((path, users.user_for(&authority(config)?)?)));
        let Some((path, user)) = user else {
            return cluster.outbound.webhook_clients.get(config).map(WebhookClient::Anonymous);
        };
        if let Some(client) = self.clients.get(|(other_path, other)| other_path == path && other == config) {
            return client.map(WebhookClient::User);
        }
        let protocols = webhook_protocols(config);
        let dialer = cluster.outbound.egress.webhook_dialer(config);
        let client = tokio::task::block_in_place(|| user.client(&config.url(), &config.authorities, protocols, dialer));
        let client = client.map(Arc::new).map_err(|error| error.to_string());
        // The credentials of the user may be in files, which may become readable.
        let is_final = client.is_ok() || cluster.outbound.webhook_clients.has_invalid_authorities(config);
        let client = if is_final { self.clients.add((path.to_owned(), config.clone()), client) } else { client };
        client.map(WebhookClient::User)
    }
}

/// The host and the port of a webhook.
fn authority(config: &WebhookClientConfig) -> Option<String> {
    match &config.target {
        WebhookTarget::Service { namespace, name, port, .. } => Some(format!("{name}.{namespace}.svc:{port}")),
        WebhookTarget::Url(url) => {
            let uri: Uri = url.parse().ok()?;
            Some(format!("{}:{}", uri.host()?, uri.port_u16().unwrap_or(443)))
        }
    }
}

impl WebhookCaller for AdmissionWebhooks {
    fn call<'a>(&'a self, call: WebhookCall<'a>) -> BoxFuture<'a, Result<Bytes, WebhookCallError>> {
        Box::pin(async move {
            let cluster = self
                .cluster
                .upgrade()
                .ok_or_else(|| WebhookCallError::NoClient("the server has stopped".to_owned()))?;
            let client = self.client(&cluster, &call).map_err(WebhookCallError::NoClient)?;
            let post = Post {
                cluster: &cluster,
                client: &client,
                config: call.client,
                timeout: call.timeout,
                timeout_source: TimeoutSource::Context,
                limit: MAX_RESPONSE_BYTES,
            };
            let failed = |error: super::PostError| WebhookCallError::Failed {
                message: error.message,
                code: error.status.map(|status| status.as_u16()).filter(|code| *code >= 400),
                lacks_san: error.lacks_san,
            };
            post.send(call.review.clone()).await.map_err(failed)
        })
    }

    fn review<'a>(
        &'a self,
        endpoint: &'a ReviewEndpoint,
        review: Bytes,
        deadline: Option<Instant>,
    ) -> BoxFuture<'a, Result<Bytes, String>> {
        Box::pin(async move {
            let cluster = self.cluster.upgrade().ok_or("the server has stopped")?;
            let client = self.reviewers.get(&endpoint.kubeconfig).ok_or("the kubeconfig was not read")?;
            let copy = |body: &[u8]| Ok(Bytes::copy_from_slice(body));
            let answer = client.post(&cluster, review, deadline, copy, &|_, _| {}).await;
            answer.map_err(|error| error.message)
        })
    }
}
