//! Objects as trees.

use pintle_cache::Object;
use pintle_value::Value;

/// The tree of an object, if it can be read.
pub(crate) fn tree(object: &Object) -> Option<Value> {
    Some(pintle_codec::json::decode(&object.json, pintle_codec::json::Options::default()).ok()?.value)
}
