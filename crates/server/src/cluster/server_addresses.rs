//! The addresses of the servers that share a store, which each of them records beside the API and renews (upstream:
//! `pkg/controlplane/reconcilers`, whose `masterleases` these are).

use std::net::IpAddr;
use std::time::Duration;

use pintle_codec::json::{self, DecodeOptions};
use pintle_registry::ApiError;
use pintle_store::{Change, Compare, Error, Key, KeyInterval};
use pintle_value::{Value, object};

use super::{Cluster, store_error};

/// The prefix of the records. They are Endpoints with one address.
pub(crate) const SERVER_ADDRESSES_PREFIX: &str = "masterleases";

fn decoded(record: &[u8]) -> Option<Value> {
    json::decode(record, DecodeOptions::STORED).ok().map(|decoded| decoded.value)
}

impl Cluster {
    fn server_address_key(&self, address: IpAddr) -> Key {
        self.cache.store_key(SERVER_ADDRESSES_PREFIX, &address.to_string()).into()
    }

    /// Records for a time that a server runs at this address. Returns the addresses of all servers.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn record_server_address(&self, address: IpAddr, ttl: Duration) -> Result<Vec<IpAddr>, ApiError> {
        let key = self.server_address_key(address);
        let known = self.store.get(key.clone(), None).await;
        let known = match known {
            // It is written again.
            Err(Error::Transform { .. }) => None,
            known => known.map_err(store_error)?,
        };
        // Upstream counts how often it has renewed the record.
        let known = known.and_then(|known| decoded(&known.value));
        let generation = known.and_then(|known| known.int_at(&["metadata", "generation"])).unwrap_or_default();
        let record = object! {
            "kind": "Endpoints",
            "apiVersion": "v1",
            "metadata": object! { "generation": generation + 1 },
            "subsets": vec![object! { "addresses": vec![object! { "ip": address.to_string() }] }],
        };
        let value = json::encode(&record);
        let change = Change::put(key, value).with_ttl(ttl);
        self.store.commit(change).await.map_err(store_error)?;
        self.server_addresses().await
    }

    /// Removes the record of an address. Returns the addresses of the other servers.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn remove_server_address(&self, address: IpAddr) -> Result<Vec<IpAddr>, ApiError> {
        let change = Change::delete(self.server_address_key(address), Compare::Any);
        match self.store.commit(change).await {
            Ok(_) | Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(store_error(error)),
        }
        self.server_addresses().await
    }

    /// The addresses of all servers, in the order of their keys. Records that cannot be read do not count.
    async fn server_addresses(&self) -> Result<Vec<IpAddr>, ApiError> {
        let interval = KeyInterval::prefix(&self.cache.store_key(SERVER_ADDRESSES_PREFIX, ""));
        let found = self.store.range(interval, None, None).await.map_err(store_error)?;
        let address = |value: &[u8]| {
            let record = decoded(value)?;
            let subset = record.items_at(&["subsets"]).first()?;
            let address: &Value = subset.items_at(&["addresses"]).first()?;
            address.str_at(&["ip"]).parse().ok()
        };
        Ok(found.records.iter().filter_map(|record| address(&record.value)).collect())
    }
}
