//! The values that this process has written. They are kept until the watch returns them, which saves decoding them.

use pintle_locks::Mutex;
use std::collections::HashMap;

use bytes::Bytes;

use crate::Key;

/// The maximum size of the kept values, in bytes. A watch that is behind must decode the values that it receives.
const MAX_BYTES: usize = 16 << 20;

/// Written values by their keys.
#[derive(Debug, Default)]
pub(super) struct WrittenValues(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    by_key: HashMap<Key, Written>,
    bytes: usize,
}

/// A value with its stored form, which is decoded to the same bytes.
#[derive(Debug)]
struct Written {
    stored: Bytes,
    value: Bytes,
}

impl Written {
    fn size(&self) -> usize {
        self.stored.len() + self.value.len()
    }
}

impl Inner {
    fn remove(&mut self, key: &Key) -> Option<Written> {
        let written = self.by_key.remove(key)?;
        self.bytes -= written.size();
        Some(written)
    }
}

impl WrittenValues {
    /// Keeps a value that is about to be written, instead of an earlier value of the key.
    pub(super) fn insert(&self, key: Key, stored: Bytes, value: Bytes) {
        let written = Written { stored, value };
        let mut inner = self.0.lock();
        inner.remove(&key);
        if inner.bytes + written.size() > MAX_BYTES {
            *inner = Inner::default();
        }
        if written.size() > MAX_BYTES {
            return;
        }
        inner.bytes += written.size();
        inner.by_key.insert(key, written);
    }

    /// Forgets the value of a key, because it was not written, or because nobody knows whether it was written.
    pub(super) fn remove(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// The value of a stored form, if it is kept. Each value is returned once.
    pub(super) fn take(&self, key: &Key, stored: &Bytes) -> Option<Bytes> {
        let mut inner = self.0.lock();
        inner.by_key.get(key).filter(|written| written.stored == *stored)?;
        inner.remove(key).map(|written| written.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(values: &WrittenValues, key: &str, stored: &'static str, value: &'static str) {
        values.insert(key.into(), Bytes::from(stored), Bytes::from(value));
    }

    #[test]
    fn values_are_found_by_their_stored_form_once() {
        let values = WrittenValues::default();
        let take = |key: &str, stored: &'static str| values.take(&key.into(), &Bytes::from(stored));
        insert(&values, "a", "A", "first");
        insert(&values, "b", "B", "other");
        assert_eq!(take("a", "B"), None);
        assert_eq!(take("a", "A"), Some("first".into()));
        assert_eq!(take("a", "A"), None);
        insert(&values, "b", "C", "second");
        assert_eq!(take("b", "B"), None);
        assert_eq!(take("b", "C"), Some("second".into()));
        insert(&values, "c", "A", "first");
        values.remove(&"c".into());
        assert_eq!(take("c", "A"), None);
        assert_eq!(values.0.lock().bytes, 0);
    }

    #[test]
    fn no_more_is_kept_than_the_limit() {
        let values = WrittenValues::default();
        for number in 0..20 {
            values.insert(format!("{number}").into(), Bytes::from(vec![0; 1 << 20]), Bytes::from(vec![0; 1 << 20]));
            assert!(values.0.lock().bytes <= MAX_BYTES);
        }
        assert!(values.take(&"19".into(), &Bytes::from(vec![0; 1 << 20])).is_some());
        assert!(values.take(&"0".into(), &Bytes::from(vec![0; 1 << 20])).is_none());
    }
}
