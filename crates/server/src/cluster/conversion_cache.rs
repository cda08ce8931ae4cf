//! A cache of objects that conversion webhooks converted recently. Lists and watches of the same version share it.
//! Upstream has a watch cache for each version of a custom resource instead. An entry is valid for one revision of the
//! CRD and one revision of the object. Memory is bounded; the oldest entries are evicted first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use pintle_cache::Object;
use pintle_locks::Mutex;
use pintle_registry::ApiError;
use tokio::sync::watch;

/// Maximum size of all converted objects, in bytes.
const MAX_BYTES: usize = 32 << 20;
/// Approximate memory of an object in addition to its JSON, in bytes.
const OVERHEAD: usize = 400;

/// Converted objects, in the order of the request.
pub(crate) type ConversionResult = Result<Vec<Arc<Object>>, ApiError>;
/// Delivers the result of a webhook call that is in flight.
pub(crate) type PendingResult = watch::Receiver<Option<ConversionResult>>;

/// The key of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConversionKey {
    /// The revision of the CRD.
    pub(crate) crd: u64,
    /// The revision of the object.
    pub(crate) object: u64,
    /// The `apiVersion` that the object is converted to.
    pub(crate) version: Arc<str>,
}

/// The state of one object in the cache.
pub(crate) enum Lookup {
    /// The object was already converted.
    Converted(Arc<Object>),
    /// The object is part of a webhook call that is in flight, at this index of the call's result.
    Pending(PendingResult, usize),
}

#[derive(Default)]
struct State {
    entries: HashMap<ConversionKey, Lookup>,
    /// The converted entries, oldest first.
    order: VecDeque<ConversionKey>,
    bytes: usize,
}

/// Objects that were converted or are being converted.
#[derive(Clone, Default)]
pub(crate) struct ConversionCache(Arc<Mutex<State>>);

impl ConversionCache {
    /// Looks up objects. Unknown objects become part of the call whose result `pending` will deliver; their keys and
    /// objects are returned second, in the order of that result.
    pub(crate) fn lookup(
        &self,
        keys: &[ConversionKey],
        objects: &[Arc<Object>],
        pending: &PendingResult,
    ) -> (Vec<Lookup>, Vec<(ConversionKey, Arc<Object>)>) {
        let mut state = self.0.lock();
        let mut unknown = Vec::new();
        let lookups = keys.iter().zip(objects).map(|(key, object)| match state.entries.get(key) {
            Some(Lookup::Converted(converted)) => Lookup::Converted(converted.clone()),
            Some(Lookup::Pending(result, index)) if is_alive(result) => Lookup::Pending(result.clone(), *index),
            _ => {
                let index = unknown.len();
                state.entries.insert(key.clone(), Lookup::Pending(pending.clone(), index));
                unknown.push((key.clone(), object.clone()));
                Lookup::Pending(pending.clone(), index)
            }
        });
        (lookups.collect(), unknown)
    }

    /// Removes all converted objects.
    pub(crate) fn clear(&self) {
        let mut state = self.0.lock();
        let State { entries, order, bytes } = &mut *state;
        for key in std::mem::take(order) {
            if let Some(Lookup::Converted(object)) = entries.remove(&key) {
                *bytes -= object.json.len() + OVERHEAD;
            }
        }
    }

    /// Stores the result of a webhook call. After an error the next lookup calls again.
    pub(crate) fn store(&self, keys: Vec<ConversionKey>, result: &ConversionResult) {
        let mut state = self.0.lock();
        let State { entries, order, bytes } = &mut *state;
        match result {
            Ok(objects) => {
                for (key, object) in keys.into_iter().zip(objects) {
                    *bytes += object.json.len() + OVERHEAD;
                    entries.insert(key.clone(), Lookup::Converted(object.clone()));
                    order.push_back(key);
                }
            }
            Err(_) => keys.iter().for_each(|key| drop(entries.remove(key))),
        }
        while *bytes > MAX_BYTES
            && let Some(oldest) = order.pop_front()
        {
            if let Some(Lookup::Converted(object)) = entries.remove(&oldest) {
                *bytes -= object.json.len() + OVERHEAD;
            }
        }
    }
}

/// False if the task that made the call ended without a result. Then the objects have to be converted again.
fn is_alive(result: &PendingResult) -> bool {
    result.has_changed().is_ok() || result.borrow().is_some()
}
