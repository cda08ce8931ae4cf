//! The mark of a store that is the target of a migration. The migration writes it first and removes it at the end. So a
//! store with the mark is not complete, and no server serves it.

use bytes::Bytes;
use pintle_codec::json::{self, DecodeOptions};
use pintle_store::{Error, Key, Revision, Store};
use pintle_value::object;

/// The name of the key below the prefix of all keys. It belongs to no collection.
const NAME: &str = "pintle-migration";

/// The content of the mark, which names the migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    /// Where the objects come from.
    pub(super) source: String,
    /// The copied revision of the source.
    pub(super) revision: Revision,
}

impl Marker {
    pub(super) fn encode(&self) -> Bytes {
        let revision = self.revision.to_string();
        json::encode(&object! { "source": self.source.as_str(), "revision": revision.as_str() }).into()
    }

    /// Decodes a mark; `None` if it is malformed.
    fn decode(value: &[u8]) -> Option<Self> {
        let decoded = json::decode(value, DecodeOptions::STORED).ok()?.value;
        let revision = decoded.str_at(&["revision"]).parse().ok()?;
        Some(Self { source: decoded.str_at(&["source"]).to_owned(), revision: Revision(revision) })
    }
}

/// The key of the mark in a store.
pub(super) fn marker_key(prefix: &str) -> Key {
    format!("{prefix}/{NAME}").into()
}

/// The mark of a store and its revision. The inner `None` stands for a malformed mark.
pub(super) async fn read(store: &dyn Store, prefix: &str) -> Result<Option<(Option<Marker>, Revision)>, Error> {
    let found = store.get(marker_key(prefix), None).await?;
    Ok(found.map(|found| (Marker::decode(&found.value), found.mod_revision)))
}

/// Why a store must not be served: it is the target of an unfinished migration. `None` if it may be served.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn unfinished(store: &dyn Store, prefix: &str) -> Result<Option<String>, Error> {
    let found = read(store, prefix).await?;
    Ok(found.map(|(marker, _)| {
        let source = marker.map_or_else(|| "another store".to_owned(), |marker| marker.source);
        format!(
            "the store is not complete: a migration from {source} has not ended; let it end, or run the same 'pintle \
             migrate' again to continue it"
        )
    }))
}
