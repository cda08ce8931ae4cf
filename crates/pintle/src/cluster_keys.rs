//! The record of the keys with which a cluster is served: hashes of the public keys of the authority and of service
//! accounts. A server with other keys would issue credentials that the other servers refuse, and it would refuse their
//! credentials.

use bytes::Bytes;
use pintle_auth::jwt::PublicKey;
use pintle_codec::json::{self, DecodeOptions};
use pintle_server::OWN_RECORDS_PREFIX;
use pintle_store::{Change, Error, Key, Store};
use pintle_value::object;

use crate::certificates::CertificateDetails;
use crate::server::StartError;

/// The name of the record.
const NAME: &str = "keys";

/// Hashes of the public keys of a server, for the comparison with the record.
#[derive(Clone, Debug)]
pub(crate) struct ServerKeys {
    /// The key of the server's own authority.
    authority: String,
    /// The keys of all authorities whose client certificates are accepted.
    accepted_authorities: Vec<String>,
    /// The key that signs tokens of service accounts.
    signing: String,
    /// The keys that verify tokens of service accounts.
    accepted_signing: Vec<String>,
}

/// The keys that the store records.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    authority: String,
    signing: String,
}

impl Record {
    fn encode(&self) -> Bytes {
        let value = object! {
            "certificateAuthority": self.authority.as_str(),
            "serviceAccountKey": self.signing.as_str(),
        };
        json::encode(&value).into()
    }

    /// Decodes a record. A malformed record gives no keys, so it counts as the record of another cluster.
    fn decode(value: &[u8]) -> Self {
        let decoded = json::decode(value, DecodeOptions::STORED).map(|decoded| decoded.value).unwrap_or_default();
        let text = |field: &str| decoded.str_at(&[field]).to_owned();
        Self { authority: text("certificateAuthority"), signing: text("serviceAccountKey") }
    }
}

impl ServerKeys {
    /// The keys of a server. `authorities` are in PEM, and the first is the server's own. `signing` and
    /// `accepted_signing` are keys of service accounts.
    pub(crate) fn new<'k>(
        authorities: &str,
        signing: &PublicKey,
        accepted_signing: impl IntoIterator<Item = &'k PublicKey>,
    ) -> Self {
        let accepted_authorities: Vec<String> =
            CertificateDetails::all_of(authorities).into_iter().map(|details| details.key_hash).collect();
        Self {
            authority: accepted_authorities.first().cloned().unwrap_or_default(),
            accepted_authorities,
            signing: signing.id().to_owned(),
            accepted_signing: accepted_signing.into_iter().map(|key| key.id().to_owned()).collect(),
        }
    }

    /// Which of the recorded keys this server does not accept.
    fn refused(&self, record: &Record) -> Option<&'static str> {
        let authority = !self.accepted_authorities.contains(&record.authority);
        let signing = record.signing != self.signing && !self.accepted_signing.contains(&record.signing);
        match (authority, signing) {
            (true, true) => Some("certificate authority and the service account key differ"),
            (true, false) => Some("certificate authority differs"),
            (false, true) => Some("service account key differs"),
            (false, false) => None,
        }
    }

    /// Checks that this server accepts the keys with which the cluster is served, or that there are none yet.
    /// `accepts_change` lets this server replace them.
    ///
    /// # Errors
    /// The cluster has other keys, or the store cannot be read.
    pub(crate) async fn check(
        &self,
        store: &dyn Store,
        key_prefix: &str,
        accepts_change: bool,
    ) -> Result<(), StartError> {
        let found = store.get(record_key(key_prefix), None).await.map_err(StartError::Unreadable)?;
        match found.and_then(|found| self.refused(&Record::decode(&found.value))) {
            Some(differs) if !accepts_change => {
                tracing::warn!(differs, "Refused to start: this cluster was served with other keys");
                Err(StartError::OtherKeys { differs })
            }
            Some(differs) => {
                tracing::warn!(differs, "The keys of this server replace those of the cluster");
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Records the keys of this server, once they are stored.
    ///
    /// # Errors
    /// The store cannot be written, or another server has recorded other keys in the meantime.
    pub(crate) async fn record(
        &self,
        store: &dyn Store,
        key_prefix: &str,
        accepts_change: bool,
    ) -> Result<(), StartError> {
        let record = Record { authority: self.authority.clone(), signing: self.signing.clone() };
        loop {
            let key = record_key(key_prefix);
            let found = store.get(key.clone(), None).await.map_err(StartError::Unreadable)?;
            let change = match found {
                Some(found) if Record::decode(&found.value) == record => return Ok(()),
                Some(found) => {
                    self.check(store, key_prefix, accepts_change).await?;
                    Change::update(key, found.mod_revision, record.encode())
                }
                None => Change::create(key, record.encode()),
            };
            match store.commit(change).await {
                Ok(_) => return Ok(()),
                Err(Error::Conflict { .. }) => {}
                // The server serves the store even if it accepts no writes.
                Err(error) => {
                    tracing::warn!(%error, "Failed to record the keys of this server, will retry at the next start");
                    return Ok(());
                }
            }
        }
    }
}

fn record_key(prefix: &str) -> Key {
    format!("{prefix}/{OWN_RECORDS_PREFIX}/{NAME}").into()
}

#[cfg(test)]
mod tests {
    use pintle_store::MemoryStore;

    use super::*;

    fn keys(authorities: &[&str], signing: &[&str]) -> ServerKeys {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        ServerKeys {
            authority: authorities[0].to_owned(),
            accepted_authorities: texts(authorities),
            signing: signing[0].to_owned(),
            accepted_signing: texts(signing),
        }
    }

    #[tokio::test]
    async fn keys_are_replaced_by_servers_that_accept_the_old_ones() {
        let store = MemoryStore::default();
        let start = async |authorities: &[&str], signing: &[&str], accepts_change| {
            let keys = keys(authorities, signing);
            keys.check(&store, "/registry", accepts_change).await.map_err(|error| error.to_string())?;
            keys.record(&store, "/registry", accepts_change).await.map_err(|error| error.to_string())
        };
        let check = |result: Result<(), String>, expect: &str| {
            let text = result.err().unwrap_or_default();
            assert!(text.contains(expect) && text.is_empty() == expect.is_empty(), "{text:?}");
        };
        check(start(&["a"], &["k"], false).await, "");
        check(start(&["a"], &["k"], false).await, "");
        check(start(&["b"], &["k"], false).await, "the certificate authority differs");
        check(start(&["a"], &["l"], false).await, "the service account key differs");
        check(start(&["b"], &["l"], false).await, "the certificate authority and the service account key differ");
        check(start(&["b", "a"], &["l", "k"], false).await, "");
        check(start(&["a"], &["l", "k"], false).await, "the certificate authority differs");
        check(start(&["a", "b"], &["k"], true).await, "");
        check(start(&["a"], &["k"], false).await, "");
    }
}
