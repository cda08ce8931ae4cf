//! HTTP clients of webhooks. Each webhook has its own client, which keeps connections open between calls.

use std::fmt;

use parking_lot::Mutex;
use pintle_outbound::{Client, ClientConfig, ServerTrust};
use pintle_registry::WebhookClientConfig;

/// Maximum number of clients (upstream: `defaultCacheSize`).
const MAX_CLIENTS: usize = 200;

/// The most recently used clients, least recently used first. No client is built under its lock, because that reads files
/// and parses certificates.
pub(crate) struct RecentClients<K, C>(Mutex<Vec<(K, C)>>);

impl<K, C> Default for RecentClients<K, C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K, C: Clone> RecentClients<K, C> {
    /// The client whose key is the wanted one.
    pub(crate) fn get(&self, is_wanted: impl Fn(&K) -> bool) -> Option<C> {
        let mut clients = self.0.lock();
        let index = clients.iter().position(|(key, _)| is_wanted(key))?;
        let entry = clients.remove(index);
        let client = entry.1.clone();
        clients.push(entry);
        Some(client)
    }

    /// Adds a client, in place of one that was added for the same key meanwhile.
    pub(crate) fn insert(&self, key: K, client: C)
    where
        K: PartialEq,
    {
        let mut clients = self.0.lock();
        if let Some(index) = clients.iter().position(|(other, _)| *other == key) {
            clients.remove(index);
        } else if clients.len() == MAX_CLIENTS {
            clients.remove(0);
        }
        clients.push((key, client));
    }
}

/// The clients of the most recently called webhooks.
#[derive(Default)]
pub(crate) struct WebhookClients(RecentClients<WebhookClientConfig, Client>);

impl fmt::Debug for WebhookClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WebhookClients").field(&self.0.0.lock().len()).finish()
    }
}

impl WebhookClients {
    /// The client of a webhook, created on first use.
    ///
    /// # Errors
    /// Its certificate authorities cannot be used.
    pub(crate) fn get(&self, config: &WebhookClientConfig) -> Result<Client, String> {
        if let Some(client) = self.0.get(|other| other == config) {
            return Ok(client);
        }
        let server_trust = match config.authorities.as_slice() {
            [] => ServerTrust::System,
            authorities => ServerTrust::Authorities(authorities),
        };
        let client_config = ClientConfig { server_trust, credentials: None };
        let client = Client::new(&client_config).map_err(|error| error.to_string())?;
        self.0.insert(config.clone(), client.clone());
        Ok(client)
    }
}
