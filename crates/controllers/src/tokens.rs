//! Tokens of service accounts that are kept in secrets go with their account, and accounts forget the secrets that go
//! (upstream: `pkg/controller/serviceaccount/tokens_controller.go`, which also writes the tokens).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use pintle_cache::{Event, KeyRange, Object, WatchCache, WatchScope, Watcher};
use pintle_registry::{ApiError, DeletionPropagation, GroupResource};
use pintle_value::{Str, Value};

use crate::objects::{find, tree, watch_cache_of};
use crate::work_queue::WorkQueue;
use crate::{ClusterClient, DeleteRequest, ObjectRef, others};

/// The type of secrets that are tokens.
const TYPE: &str = "kubernetes.io/service-account-token";
/// Whose token a secret is.
const NAME: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";

/// A service account, as its tokens name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Account {
    namespace: Str,
    name: Str,
    /// Empty if any of the name is meant.
    uid: Str,
}

impl Account {
    /// Whose token a secret is; `None` if it is no token.
    fn of(secret: &Object) -> Option<Self> {
        let secret = tree(secret)?;
        let annotation = |key| Str::from(secret.annotation(key).unwrap_or_default());
        let is_token = secret.str_at(&["type"]) == TYPE;
        is_token.then(|| Self { namespace: secret.namespace().into(), name: annotation(NAME), uid: annotation(UID) })
    }

    fn place(&self) -> ObjectRef {
        place("serviceaccounts", &self.namespace, &self.name)
    }

    /// The account, if it is there.
    fn find(&self, client: &Arc<dyn ClusterClient>) -> Option<Value> {
        find(client, &self.place()).filter(|account| self.is(account))
    }

    fn is(&self, account: &Value) -> bool {
        self.uid.is_empty() || account.uid() == self.uid
    }
}

fn place(resource: &str, namespace: &str, name: &str) -> ObjectRef {
    let resource = GroupResource::new("", resource);
    ObjectRef { resource, namespace: namespace.to_owned(), name: name.to_owned() }
}

/// What is to be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Item {
    /// A token, by its namespace and name: its account may be gone.
    Token(Str, Str),
    /// An account that may still name a secret that is gone.
    Reference(Account, Str),
}

impl Item {
    /// Returns false if it has to be looked at again.
    async fn look_at(self, client: &Arc<dyn ClusterClient>) -> bool {
        let looked = match &self {
            Item::Token(namespace, name) => look_at_token(client, &place("secrets", namespace, name)).await,
            Item::Reference(account, secret) => look_at_reference(client, account, secret).await,
        };
        match looked {
            Ok(is_done) => is_done,
            // Someone else was faster: their change is heard of.
            Err(ApiError::NotFound { .. } | ApiError::Conflict { .. }) => true,
            Err(error) => {
                tracing::info!(%error, item = ?self, "a token is not cleaned up yet");
                false
            }
        }
    }
}

/// Deletes a token whose account is gone.
async fn look_at_token(client: &Arc<dyn ClusterClient>, place: &ObjectRef) -> Result<bool, ApiError> {
    let key = format!("{}/{}", place.namespace, place.name);
    let watch_cache = watch_cache_of(client, &place.resource);
    let Some(secret) = watch_cache.and_then(|watch_cache| watch_cache.get(&key, None).ok().flatten()) else {
        return Ok(true);
    };
    let Some(account) = Account::of(&secret).filter(|account| !account.name.is_empty()) else { return Ok(true) };
    client.clone().catch_up().await?;
    if account.find(client).is_some() {
        return Ok(true);
    }
    if others::are_there(client) {
        return Ok(false);
    }
    let uid = tree(&secret).map_or_else(Str::default, |secret| secret.uid().into());
    let deletion = DeleteRequest { uid, revision: secret.revision, propagation: DeletionPropagation::Background };
    client.clone().delete(place.clone(), deletion).await?;
    Ok(true)
}

/// Has an account forget a secret that is gone.
async fn look_at_reference(client: &Arc<dyn ClusterClient>, account: &Account, secret: &Str) -> Result<bool, ApiError> {
    let names = |reference: &Value| reference.str_at(&["name"]) == secret.as_str();
    let found = account.find(client);
    if !found.is_some_and(|account| account.items_at(&["secrets"]).iter().any(names))
        || find(client, &place("secrets", &account.namespace, secret)).is_some()
    {
        return Ok(true);
    }
    if others::are_there(client) {
        return Ok(false);
    }
    let (meant, secret) = (account.clone(), secret.clone());
    let forget = move |account: &Value| {
        let mut account = account.clone();
        if meant.is(&account) {
            let left = account.items_at(&["secrets"]).iter().filter(|of| of.str_at(&["name"]) != secret.as_str());
            let left: Vec<Value> = left.cloned().collect();
            account.set("secrets", Some(left).filter(|left| !left.is_empty()));
        }
        account
    };
    client.clone().change(account.place(), "", Arc::new(forget)).await?;
    Ok(true)
}

/// Cleans up after the tokens of a cluster for as long as it is there.
pub async fn tokens(client: Weak<dyn ClusterClient>) {
    let mut cleaner = Cleaner::default();
    let Some(mut watch_caches) = client.upgrade().and_then(|client| cleaner.follow(&client)) else { return };
    loop {
        let looked = client.clone();
        cleaner.queue.begin(|item| {
            let (item, client) = (item.clone(), looked.clone());
            Some(async move {
                match client.upgrade() {
                    Some(client) => item.look_at(&client).await,
                    None => true,
                }
            })
        });
        let heard = tokio::select! {
            events = watch_caches.secrets.next() => events.map(|events| events.iter().for_each(|e| cleaner.hear_of_secret(e))),
            events = watch_caches.accounts.next() => events.map(|events| events.iter().for_each(|e| cleaner.hear_of_account(e))),
            _ = cleaner.queue.ready() => Ok(()),
        };
        if heard.is_err() {
            // History is lost: whatever is there is looked at again.
            match client.upgrade().and_then(|client| cleaner.follow(&client)) {
                Some(anew) => watch_caches = anew,
                None => return,
            }
        }
        if client.strong_count() == 0 {
            return;
        }
    }
}

/// What is followed.
struct WatchCaches {
    secrets: Watcher,
    accounts: Watcher,
}

#[derive(Default)]
struct Cleaner {
    /// The names of tokens, by the namespace and name of their account.
    tokens: HashMap<(Str, Str), HashSet<Str>>,
    queue: WorkQueue<Item>,
}

impl Cleaner {
    fn follow(&mut self, client: &Arc<dyn ClusterClient>) -> Option<WatchCaches> {
        let place = {
            let registry = client.registry();
            let secrets = registry.resource("", "v1", "secrets")?;
            secrets.strategy.selectable_field_names().iter().position(|name| *name == "type")?
        };
        let watch_cache = |resource: &str| watch_cache_of(client, &GroupResource::new("", resource));
        let watch =
            |watch_cache: &Arc<WatchCache>, scope: WatchScope| watch_cache.watch(scope, watch_cache.newest_revision());
        let (secrets, accounts) = (watch_cache("secrets")?, watch_cache("serviceaccounts")?);
        let watch_caches = WatchCaches {
            secrets: watch(&secrets, WatchScope::Field(place, TYPE.into())),
            accounts: watch(&accounts, WatchScope::All),
        };
        self.tokens.clear();
        for secret in secrets.objects(KeyRange::All).filter(|secret| secret.field(place) == TYPE) {
            self.note(&secret);
        }
        Some(watch_caches)
    }

    /// Takes note of a token, and has it looked at.
    fn note(&mut self, secret: &Object) {
        let Some(Account { namespace, name, .. }) = Account::of(secret) else { return };
        let token = Str::from(secret.name());
        self.tokens.entry((namespace.clone(), name)).or_default().insert(token.clone());
        self.queue.push(Item::Token(namespace, token));
    }

    fn hear_of_secret(&mut self, event: &Event) {
        if let Some(previous) = &event.previous
            && let Some(account) = Account::of(previous)
        {
            let (name, of) = (Str::from(previous.name()), (account.namespace.clone(), account.name.clone()));
            if let Some(tokens) = self.tokens.get_mut(&of) {
                tokens.remove(&name);
                if tokens.is_empty() {
                    self.tokens.remove(&of);
                }
            }
            if event.object.is_none() {
                self.queue.push(Item::Reference(account, name));
            }
        }
        if let Some(secret) = &event.object {
            self.note(secret);
        }
    }

    fn hear_of_account(&mut self, event: &Event) {
        if event.object.is_some() {
            return;
        }
        let (namespace, name) = event.key.split_once('/').unwrap_or(("", &event.key));
        for token in self.tokens.get(&(namespace.into(), name.into())).into_iter().flatten() {
            self.queue.push(Item::Token(namespace.into(), token.clone()));
        }
    }
}
