//! Which provider and key have encrypted a stored value, as far as its beginning tells without any key.

use std::borrow::Cow;

use crate::EncryptedObject;
use crate::metrics::hash;

/// The provider and the key of a stored value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredKey {
    /// The provider in the configuration, such as `aesgcm`; `identity` for a value that is not encrypted; `unknown` for a
    /// value that no provider has encrypted.
    pub provider: Cow<'static, str>,
    /// The name of the key; for a KMS plugin, the name of the plugin and the hash of the key's ID.
    pub key: String,
}

impl StoredKey {
    /// The provider and the key of a stored value.
    #[must_use]
    pub fn of(stored: &[u8]) -> Self {
        let Some(rest) = stored.strip_prefix(b"k8s:enc:") else { return Self::identity() };
        Self::of_encrypted(rest).unwrap_or_else(|| Self { provider: "unknown".into(), key: String::new() })
    }

    /// No key: values are not encrypted.
    pub(crate) fn identity() -> Self {
        Self { provider: "identity".into(), key: String::new() }
    }

    /// The key of a KMS plugin.
    pub(crate) fn of_kms(plugin: &str, key_id: &str) -> Self {
        Self { provider: "kms".into(), key: format!("{plugin} {}", hash(key_id)) }
    }

    fn of_encrypted(rest: &[u8]) -> Option<Self> {
        let mut parts = rest.splitn(4, |byte| *byte == b':');
        let mut next = || parts.next();
        let (provider, version, name, value) = (next()?, next()?, next()?, next()?);
        let (provider, version) = (std::str::from_utf8(provider).ok()?, std::str::from_utf8(version).ok()?);
        let name = String::from_utf8_lossy(name);
        let provider = match (provider, version) {
            ("aescbc" | "aesgcm" | "secretbox", "v1") => provider.to_owned(),
            ("kms", "v1") => "kms v1".to_owned(),
            ("kms", "v2") => return Some(Self::of_kms(&name, &EncryptedObject::decode(value).ok()?.dek.key_id)),
            _ => return None,
        };
        Some(Self { provider: provider.into(), key: name.into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_value_names_its_key() {
        for (stored, provider, key) in [
            (&b"{\"kind\":\"Secret\"}"[..], "identity", ""),
            (b"k8s\0value", "identity", ""),
            (b"k8s:enc:aesgcm:v1:key1:\0:1", "aesgcm", "key1"),
            (b"k8s:enc:secretbox:v1::x", "secretbox", ""),
            (b"k8s:enc:kms:v1:old:x", "kms v1", "old"),
            (b"k8s:enc:kms:v2:plugin:x", "unknown", ""),
            (b"k8s:enc:aesgcm:v2:key1:x", "unknown", ""),
            (b"k8s:enc:aesgcm", "unknown", ""),
            (b"k8s:enc:", "unknown", ""),
        ] {
            let found = StoredKey::of(stored);
            assert_eq!((&*found.provider, &*found.key), (provider, key), "{}", stored.escape_ascii());
        }
    }
}
