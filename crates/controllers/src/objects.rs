//! Objects in the logs.

use std::sync::Arc;

use pintle_cache::{Key, KeyRange, Log, Object};
use pintle_value::Value;

/// Objects looked at at once.
const STRIDE: usize = 512;

/// The objects in a range now. The newest state can always be read.
pub(crate) fn objects(log: &Arc<Log>, range: &KeyRange) -> impl Iterator<Item = Arc<Object>> {
    let mut next = Some(None);
    let pages = std::iter::from_fn(move || {
        let after: Option<Key> = next.take()?;
        let page = log.page(range, after.as_deref(), u64::MAX, STRIDE).ok()?;
        next = page.last.map(Some);
        Some(page.objects)
    });
    pages.flatten()
}

/// The tree of an object, if it can be read.
pub(crate) fn tree(object: &Object) -> Option<Value> {
    Some(pintle_codec::json::decode(&object.json, pintle_codec::json::Options::default()).ok()?.value)
}
