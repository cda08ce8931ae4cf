//! HTTP clients of webhooks. Each webhook has its own client, which keeps connections open between calls.

use std::fmt;

use parking_lot::Mutex;
use pintle_outbound::{Client, ClientConfig, ServerTrust};
use pintle_registry::WebhookClientConfig;

/// Maximum number of clients (upstream: `defaultCacheSize`).
const MAX_CLIENTS: usize = 200;

/// The clients of the most recently called webhooks, least recently used first.
#[derive(Default)]
pub(crate) struct WebhookClients(Mutex<Vec<(WebhookClientConfig, Client)>>);

impl fmt::Debug for WebhookClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WebhookClients").field(&self.0.lock().len()).finish()
    }
}

impl WebhookClients {
    /// The client of a webhook, created on first use.
    ///
    /// # Errors
    /// Its certificate authorities cannot be used.
    pub(crate) fn get(&self, config: &WebhookClientConfig) -> Result<Client, String> {
        let mut clients = self.0.lock();
        if let Some(index) = clients.iter().position(|(other, _)| other == config) {
            let entry = clients.remove(index);
            let client = entry.1.clone();
            clients.push(entry);
            return Ok(client);
        }
        let server_trust = match config.authorities.as_slice() {
            [] => ServerTrust::System,
            authorities => ServerTrust::Authorities(authorities),
        };
        let client_config = ClientConfig { server_trust, credentials: None };
        let client = Client::new(&client_config).map_err(|error| error.to_string())?;
        if clients.len() == MAX_CLIENTS {
            clients.remove(0);
        }
        clients.push((config.clone(), client.clone()));
        Ok(client)
    }
}
