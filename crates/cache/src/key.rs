//! The keys of objects. Every object has a key, so the key shares its text with the store's key.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// The key of an object: `namespace/name`, or `name` if the kind is cluster-scoped. All versions and events of an
/// object share its text.
#[derive(Clone)]
pub struct Key {
    /// The key, or a store key that ends with it.
    text: Arc<str>,
    start: u32,
}

impl Key {
    /// The key at the end of a store key. `length` is the length of the key.
    pub(crate) fn at_end_of(store_key: &pintle_store::Key, length: usize) -> Self {
        match store_key.len().checked_sub(length).map(u32::try_from) {
            Some(Ok(start)) if store_key.is_char_boundary(start as usize) => {
                Self { text: store_key.shared_text(), start }
            }
            _ => Self::from(&**store_key),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text[self.start as usize..]
    }
}

impl Deref for Key {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        self
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self { text: text.into(), start: 0 }
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self { text: text.into(), start: 0 }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_end_of_the_store_key_that_it_shares() {
        let store_key = pintle_store::Key::from("/registry/pods/default/web");
        let key = Key::at_end_of(&store_key, "default/web".len());
        assert_eq!((&*key, &key), ("default/web", &Key::from("default/web")));
        assert_eq!(key.as_bytes().as_ptr_range().end, store_key.as_bytes().as_ptr_range().end);
        assert!(Key::from("default/a") < key && key < Key::from("default/wex"));
        assert_eq!(&*Key::at_end_of(&store_key, 100), &*store_key);
    }
}
