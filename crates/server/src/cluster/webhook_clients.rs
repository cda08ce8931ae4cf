//! HTTP clients of webhooks. Each webhook has its own client, which keeps connections open between calls.

use std::fmt;

use pintle_locks::Mutex;
use pintle_outbound::{Client, ClientConfig, ServerTrust};
use pintle_registry::WebhookClientConfig;

use crate::client_protocols::webhook_protocols;
use crate::egress::EgressSelector;

/// Maximum number of clients (upstream: `defaultCacheSize`).
const MAX_CLIENTS: usize = 200;

/// The most recently used clients, least recently used first. No client is built under the lock, because building a
/// client reads files and parses certificates.
pub(crate) struct RecentClients<K, C>(Mutex<Vec<(K, C)>>);

impl<K, C> Default for RecentClients<K, C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K, C: Clone> RecentClients<K, C> {
    /// The client with the wanted key.
    pub(crate) fn get(&self, is_wanted: impl Fn(&K) -> bool) -> Option<C> {
        let mut clients = self.0.lock();
        let index = clients.iter().position(|(key, _)| is_wanted(key))?;
        let entry = clients.remove(index);
        let client = entry.1.clone();
        clients.push(entry);
        Some(client)
    }

    /// Adds a client, and returns it. If another client was added for the same key meanwhile, this returns that client,
    /// so that its connections are shared.
    pub(crate) fn add(&self, key: K, client: C) -> C
    where
        K: PartialEq,
    {
        let mut clients = self.0.lock();
        if let Some((_, present)) = clients.iter().find(|(other, _)| *other == key) {
            return present.clone();
        }
        if clients.len() == MAX_CLIENTS {
            clients.remove(0);
        }
        clients.push((key, client.clone()));
        client
    }
}

/// The clients of the most recently called webhooks, or the error for a webhook without a client.
#[derive(Default)]
pub(crate) struct WebhookClients {
    egress: EgressSelector,
    clients: RecentClients<WebhookClientConfig, Result<Client, String>>,
}

impl fmt::Debug for WebhookClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WebhookClients").field(&self.clients.0.lock().len()).finish()
    }
}

impl WebhookClients {
    /// No clients yet. The egress selector decides how they reach their webhooks.
    pub(crate) fn new(egress: EgressSelector) -> Self {
        Self { egress, clients: RecentClients::default() }
    }

    /// The client of a webhook, created on first use. Invalid authorities of a webhook are not read again, because
    /// another configuration has another key. The system's authorities are read again, because they may become
    /// readable.
    ///
    /// # Errors
    /// The certificate authorities of the webhook cannot be used.
    pub(crate) fn get(&self, config: &WebhookClientConfig) -> Result<Client, String> {
        if let Some(client) = self.clients.get(|other| other == config) {
            return client;
        }
        let server_trust = match config.authorities.as_slice() {
            [] => ServerTrust::System,
            authorities => ServerTrust::Authorities(authorities),
        };
        let (protocols, dialer) = (webhook_protocols(config), self.egress.webhook_dialer(config));
        let client_config = ClientConfig { server_trust, credentials: None, protocols, dialer };
        let client = Client::new(&client_config).map_err(|error| error.to_string());
        if client.is_ok() || !config.authorities.is_empty() { self.clients.add(config.clone(), client) } else { client }
    }

    /// True if the authorities of a webhook cannot be used.
    pub(crate) fn has_invalid_authorities(&self, config: &WebhookClientConfig) -> bool {
        !config.authorities.is_empty() && self.get(config).is_err()
    }
}

#[cfg(test)]
mod tests {
    use pintle_registry::WebhookTarget;

    use super::*;

    fn config(url: &str, authorities: &[u8]) -> WebhookClientConfig {
        WebhookClientConfig { target: WebhookTarget::Url(url.into()), authorities: authorities.to_vec() }
    }

    /// The cached errors.
    fn errors(clients: &WebhookClients) -> Vec<String> {
        clients.clients.0.lock().iter().filter_map(|(_, client)| client.as_ref().err().cloned()).collect()
    }

    #[test]
    fn authorities_that_cannot_be_used_are_read_once() {
        let clients = WebhookClients::default();
        let broken = config("https://a", b"-----BEGIN CERTIFICATE-----\nAQ==\n-----END CERTIFICATE-----\n");
        let error = clients.get(&broken).err().expect("an error");
        assert_eq!(errors(&clients), std::slice::from_ref(&error));
        assert_eq!(clients.get(&broken).err(), Some(error.clone()));
        assert_eq!(errors(&clients), [error]);
        assert!(clients.has_invalid_authorities(&broken));
    }

    #[test]
    fn clients_made_at_once_share_their_connections() {
        let clients = RecentClients::default();
        assert_eq!(clients.add("a", 1), 1);
        assert_eq!(clients.add("a", 2), 1);
        assert_eq!(clients.add("b", 3), 3);
        assert_eq!(clients.get(|key| *key == "a"), Some(1));
    }

    #[test]
    fn another_configuration_is_tried_anew() {
        let clients = WebhookClients::default();
        let authority = include_bytes!("../../../auth/tests/jwt/rsa.certificate.pem");
        assert!(clients.get(&config("https://a", b"no certificate")).is_err());
        assert!(clients.get(&config("https://a", authority)).is_ok());
        assert!(!clients.has_invalid_authorities(&config("https://a", authority)));
        assert!(!clients.has_invalid_authorities(&config("https://a", b"")));
    }
}
