//! The addresses of the servers that share a store. Each server records its address in addition to the API and renews
//! the record (upstream: `pkg/controlplane/reconcilers`, with the same `masterleases`).

use std::net::IpAddr;
use std::time::Duration;

use pintle_codec::json;
use pintle_registry::ApiError;
use pintle_store::{Change, Compare, Error, KeyInterval};
use pintle_value::{Value, object};

use super::records::{check_decrypted, decoded};
use super::{Cluster, store_error};

/// The prefix of the records of running servers. The records are Endpoints with one address, and their names are the
/// addresses.
pub const SERVER_ADDRESSES_PREFIX: &str = "masterleases";

impl Cluster {
    /// Records that a server runs at this address, for the duration `ttl`. Returns the addresses of all servers.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn record_server_address(&self, address: IpAddr, ttl: Duration) -> Result<Vec<IpAddr>, ApiError> {
        let name = address.to_string();
        let known = self.read_record(SERVER_ADDRESSES_PREFIX, &name).await?;
        // Like upstream, the generation counts how often the record was renewed.
        let generation = known.and_then(|(known, _)| known.int_at(&["metadata", "generation"])).unwrap_or_default();
        let record = object! {
            "kind": "Endpoints",
            "apiVersion": "v1",
            "metadata": object! { "generation": generation + 1 },
            "subsets": vec![object! { "addresses": vec![object! { "ip": name.as_str() }] }],
        };
        let key = self.record_key(SERVER_ADDRESSES_PREFIX, &name);
        let change = Change::put(key, json::encode(&record)).with_ttl(ttl);
        self.stores.main.commit(change).await.map_err(store_error)?;
        self.server_addresses().await
    }

    /// Removes the record of an address. Returns the addresses of the other servers.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn remove_server_address(&self, address: IpAddr) -> Result<Vec<IpAddr>, ApiError> {
        let change = Change::delete(self.record_key(SERVER_ADDRESSES_PREFIX, &address.to_string()), Compare::Any);
        match self.stores.main.commit(change).await {
            Ok(_) | Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(store_error(error)),
        }
        self.server_addresses().await
    }

    /// The addresses of all servers, in the order of their keys. Broken records do not count.
    ///
    /// # Errors
    /// The store fails, or a record cannot be decrypted.
    async fn server_addresses(&self) -> Result<Vec<IpAddr>, ApiError> {
        let interval = KeyInterval::prefix(&self.stores.cache.store_key(SERVER_ADDRESSES_PREFIX, ""));
        let found = self.stores.main.range(interval, None, None).await.map_err(store_error)?;
        found.records.iter().try_for_each(|record| check_decrypted(&record.value))?;
        let address = |value: &[u8]| {
            let record = decoded(value)?;
            let subset = record.items_at(&["subsets"]).first()?;
            let address: &Value = subset.items_at(&["addresses"]).first()?;
            address.str_at(&["ip"]).parse().ok()
        };
        Ok(found.records.iter().filter_map(|record| address(&record.value)).collect())
    }
}
