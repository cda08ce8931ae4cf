//! The controller of token secrets (upstream: `pkg/controller/serviceaccount/tokens_controller.go`). It fills the token
//! secrets of service accounts, and deletes the token secrets of deleted service accounts. When a token secret is
//! deleted, it removes the service account's reference to the secret.

mod contents;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use pintle_cache::{Event, Object, WatchScope};
use pintle_metrics::WorkQueueMetrics;
use pintle_registry::{ApiError, DeletionPropagation, GroupResource};
use pintle_value::{Str, Value};

pub use self::contents::{IssueToken, TokenSecretContents};
use crate::controller_manager::{self, CONTROLLER_MANAGER};
use crate::informer::{Informer, InformerEvent, InformerSource};
use crate::objects::{tree, try_find, watch_cache_of};
use crate::work_queue::{ReconcileResult, WorkQueue};
use crate::{ClusterClient, DeleteRequest, ObjectRef};

/// The type of token secrets.
pub(crate) const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
/// The annotations that name the service account of a token.
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// How many items are processed at the same time.
const MAX_CONCURRENT: usize = 32;
const FAILURE: &str = "Failed to reconcile a service account token, will retry";

/// A service account, as its token secrets name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ServiceAccountRef {
    namespace: Str,
    name: Str,
    /// Empty if the secret names no uid: then it belongs to any account of the name.
    uid: Str,
}

impl ServiceAccountRef {
    /// The service account of a secret; `None` if the secret is no token.
    pub(crate) fn of(secret: &Object) -> Option<Self> {
        let secret = tree(secret)?;
        let annotation = |key| Str::from(secret.annotation(key).unwrap_or_default());
        let is_token = secret.str_at(&["type"]) == TOKEN_TYPE;
        is_token.then(|| Self {
            namespace: secret.namespace().into(),
            name: annotation(ACCOUNT_NAME),
            uid: annotation(ACCOUNT_UID),
        })
    }

    fn object_ref(&self) -> ObjectRef {
        object_ref("serviceaccounts", &self.namespace, &self.name)
    }

    /// The service account, if it exists.
    ///
    /// # Errors
    /// It is corrupt.
    pub(crate) fn find(&self, client: &Arc<dyn ClusterClient>) -> Result<Option<Value>, ApiError> {
        Ok(try_find(client, &self.object_ref())?.filter(|account| self.matches(account)))
    }

    fn matches(&self, account: &Value) -> bool {
        self.uid.is_empty() || account.uid() == self.uid
    }
}

fn object_ref(resource: &str, namespace: &str, name: &str) -> ObjectRef {
    let resource = GroupResource::new("", resource);
    ObjectRef { resource, namespace: namespace.to_owned(), name: name.to_owned() }
}

/// An item that the controller reconciles.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum TokenItem {
    /// A token secret, by namespace and name: its service account may be gone.
    Secret(Str, Str),
    /// A service account that may reference a secret, by name, that is gone.
    Reference(ServiceAccountRef, Str),
}

impl TokenItem {
    async fn reconcile(
        &self,
        client: &Arc<dyn ClusterClient>,
        contents: &TokenSecretContents,
    ) -> Result<ReconcileResult, ApiError> {
        match self {
            TokenItem::Secret(namespace, name) => {
                reconcile_secret(client, contents, &object_ref("secrets", namespace, name)).await
            }
            TokenItem::Reference(account, secret) => remove_dangling_reference(client, account, secret).await,
        }
    }
}

/// Deletes a token secret whose service account is gone. Fills a secret whose service account exists.
async fn reconcile_secret(
    client: &Arc<dyn ClusterClient>,
    contents: &TokenSecretContents,
    target: &ObjectRef,
) -> Result<ReconcileResult, ApiError> {
    let key = format!("{}/{}", target.namespace, target.name);
    let watch_cache = watch_cache_of(client, &target.resource);
    let Some(secret) = watch_cache.and_then(|watch_cache| watch_cache.get(&key, None).ok().flatten()) else {
        return Ok(ReconcileResult::Done);
    };
    let Some(account) = ServiceAccountRef::of(&secret).filter(|account| !account.name.is_empty()) else {
        return Ok(ReconcileResult::Done);
    };
    client.clone().catch_up().await?;
    // A corrupt account may come back, so its secrets are kept.
    if let Some(account) = account.find(client)? {
        return fill_secret(client, contents, target, &secret, &account).await;
    }
    if controller_manager::is_active(client) {
        return Ok(ReconcileResult::Retry);
    }
    let uid = tree(&secret).map_or_else(Str::default, |secret| secret.uid().into());
    let request = DeleteRequest { uid, revision: secret.revision, propagation: DeletionPropagation::Background };
    client.clone().delete(target.clone(), request).await?;
    Ok(ReconcileResult::Done)
}

/// Fills the missing parts of a service account's secret.
async fn fill_secret(
    client: &Arc<dyn ClusterClient>,
    contents: &TokenSecretContents,
    target: &ObjectRef,
    secret: &Object,
    account: &Value,
) -> Result<ReconcileResult, ApiError> {
    let Some(secret) = tree(secret) else { return Ok(ReconcileResult::Done) };
    let Some(fill) = contents.fill(&secret, account).map_err(ApiError::Internal)? else {
        return Ok(ReconcileResult::Done);
    };
    if controller_manager::is_active(client) {
        return Ok(ReconcileResult::Retry);
    }
    client.clone().update_as(target.clone(), "", CONTROLLER_MANAGER, Arc::new(fill)).await?;
    Ok(ReconcileResult::Done)
}

/// Removes the reference of a service account to a secret that is gone.
async fn remove_dangling_reference(
    client: &Arc<dyn ClusterClient>,
    account: &ServiceAccountRef,
    secret: &Str,
) -> Result<ReconcileResult, ApiError> {
    let is_reference = |reference: &Value| reference.str_at(&["name"]) == secret.as_str();
    let found = account.find(client)?;
    if !found.is_some_and(|account| account.items_at(&["secrets"]).iter().any(is_reference))
        || try_find(client, &object_ref("secrets", &account.namespace, secret))?.is_some()
    {
        return Ok(ReconcileResult::Done);
    }
    if controller_manager::is_active(client) {
        return Ok(ReconcileResult::Retry);
    }
    let (expected, secret) = (account.clone(), secret.clone());
    let remove_reference = move |account: &Value| {
        let mut account = account.clone();
        if expected.matches(&account) {
            let left = account.items_at(&["secrets"]).iter();
            let left = left.filter(|reference| reference.str_at(&["name"]) != secret.as_str());
            let left: Vec<Value> = left.cloned().collect();
            account.set("secrets", Some(left).filter(|left| !left.is_empty()));
        }
        account
    };
    client.clone().update_as(account.object_ref(), "", CONTROLLER_MANAGER, Arc::new(remove_reference)).await?;
    Ok(ReconcileResult::Done)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenSource {
    Secrets,
    ServiceAccounts,
}

/// Runs the controller until the cluster is gone.
pub(crate) async fn run(client: Weak<dyn ClusterClient>, contents: TokenSecretContents) {
    let Some((mut informer, mut controller)) = client.upgrade().map(|client| {
        let controller = TokenController::new(client.work_queues().queue("serviceaccount_tokens_service"));
        (Informer::new(&client, sources(&client)), controller)
    }) else {
        return;
    };
    loop {
        controller.queue.start_with(&client, FAILURE, |client, item| {
            let contents = contents.clone();
            async move { item.reconcile(&client, &contents).await }
        });
        tokio::select! {
            event = informer.next() => match event {
                Some(event) => controller.handle_event(&event),
                None => return,
            },
            _ = controller.queue.wait() => {}
        }
    }
}

/// Token secrets and all service accounts. Of service accounts, only deletions matter.
fn sources(client: &Arc<dyn ClusterClient>) -> Vec<InformerSource<TokenSource>> {
    let registry = client.registry();
    let type_index = registry.resource("", "v1", "secrets").and_then(|secrets| {
        let fields = secrets.strategy.selectable_field_names();
        fields.iter().position(|name| *name == "type")
    });
    let tokens = type_index.map_or(WatchScope::All, |index| WatchScope::Field(index, TOKEN_TYPE.into()));
    let core = |plural: &str| GroupResource::new("", plural);
    vec![
        InformerSource::new(TokenSource::Secrets, core("secrets"), tokens),
        InformerSource::new(TokenSource::ServiceAccounts, core("serviceaccounts"), WatchScope::All).without_list(),
    ]
}

struct TokenController {
    /// The names of token secrets by the namespace and name of their service account.
    secrets: HashMap<(Str, Str), HashSet<Str>>,
    queue: WorkQueue<TokenItem>,
}

impl TokenController {
    fn new(metrics: Arc<WorkQueueMetrics>) -> Self {
        Self { secrets: HashMap::new(), queue: WorkQueue::new(MAX_CONCURRENT, metrics) }
    }

    fn handle_event(&mut self, event: &InformerEvent<TokenSource>) {
        match event {
            InformerEvent::Added(_, secrets) => secrets.iter().for_each(|secret| self.add_secret(secret)),
            InformerEvent::Changed(events) => {
                for (source, event) in events {
                    match source {
                        TokenSource::Secrets => self.handle_secret_event(event),
                        TokenSource::ServiceAccounts => self.handle_account_event(event),
                    }
                }
            }
            // The list after the reset enqueues all secrets.
            InformerEvent::Reset(TokenSource::Secrets) => self.secrets.clear(),
            // Deletions of accounts may have been missed.
            InformerEvent::Reset(TokenSource::ServiceAccounts) => {
                for ((namespace, _), secrets) in &self.secrets {
                    secrets
                        .iter()
                        .for_each(|secret| self.queue.add(TokenItem::Secret(namespace.clone(), secret.clone())));
                }
            }
        }
    }

    /// Records a token secret and enqueues it.
    fn add_secret(&mut self, secret: &Object) {
        let Some(ServiceAccountRef { namespace, name, .. }) = ServiceAccountRef::of(secret) else { return };
        let secret = Str::from(secret.name());
        self.secrets.entry((namespace.clone(), name)).or_default().insert(secret.clone());
        self.queue.add(TokenItem::Secret(namespace, secret));
    }

    fn handle_secret_event(&mut self, event: &Event) {
        if let Some(previous) = &event.previous
            && let Some(account) = ServiceAccountRef::of(previous)
        {
            let secret = Str::from(previous.name());
            let key = (account.namespace.clone(), account.name.clone());
            if let Some(secrets) = self.secrets.get_mut(&key) {
                secrets.remove(&secret);
                if secrets.is_empty() {
                    self.secrets.remove(&key);
                }
            }
            if event.object.is_none() {
                self.queue.add(TokenItem::Reference(account, secret));
            }
        }
        if let Some(secret) = &event.object {
            self.add_secret(secret);
        }
    }

    fn handle_account_event(&mut self, event: &Event) {
        if event.object.is_some() {
            return;
        }
        let (namespace, name) = event.key.split_once('/').unwrap_or(("", &event.key));
        for secret in self.secrets.get(&(namespace.into(), name.into())).into_iter().flatten() {
            self.queue.add(TokenItem::Secret(namespace.into(), secret.clone()));
        }
    }
}
