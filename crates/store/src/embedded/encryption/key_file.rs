//! A file with key-encryption keys. Each line has 32 bytes as base64, and a line that begins with `#` is a comment. The
//! first key wraps data keys, and all keys unwrap them. So a new key is put before the old keys. An old key is removed
//! when no data key is wrapped with it any more.
//!
//! The file is read whenever it is needed, so that the process keeps no key-encryption key in memory.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pintle_sealing::{Cipher, CodeKey, SecretKey};
use zeroize::Zeroizing;

use super::wrapper::{KeyWrapError, KeyWrapper, WrappedKey};

/// The context of a wrapped data key.
const CONTEXT: &[u8] = b"pintle store data key";

/// The text whose code identifies a key-encryption key.
const ID_TEXT: &[u8] = b"pintle store key id";

/// The number of bytes of an id.
const ID_BYTES: usize = 8;

/// A file with key-encryption keys.
#[derive(Clone, Debug)]
pub struct StoreKeyFile {
    path: PathBuf,
}

impl StoreKeyFile {
    /// The keys of this file, which is read when a key is needed.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Reads the file. Returns the id of the key that wraps data keys.
    ///
    /// # Errors
    /// The file cannot be read, other users may read it, or it has no valid key.
    pub fn check(&self) -> Result<String, KeyWrapError> {
        Ok(id_of(&self.first()?))
    }

    fn error(&self, detail: impl std::fmt::Display) -> KeyWrapError {
        KeyWrapError(format!("the key file {}: {detail}", self.path.display()))
    }

    fn read(&self) -> Result<Vec<SecretKey>, KeyWrapError> {
        self.check_mode()?;
        let content = fs::read(&self.path).map(Zeroizing::new).map_err(|error| self.error(error))?;
        let mut keys = Vec::new();
        for (number, line) in content.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let decoded = BASE64_STANDARD.decode(line).map(Zeroizing::new).ok();
            let key = decoded.and_then(|bytes| SecretKey::from_slice(&bytes));
            keys.push(key.ok_or_else(|| self.error(format!("line {} is not 32 bytes as base64", number + 1)))?);
        }
        if keys.is_empty() { Err(self.error("it has no key")) } else { Ok(keys) }
    }

    fn first(&self) -> Result<SecretKey, KeyWrapError> {
        self.read()?.into_iter().next().ok_or_else(|| self.error("it has no key"))
    }

    #[cfg(unix)]
    fn check_mode(&self) -> Result<(), KeyWrapError> {
        use std::os::unix::fs::MetadataExt;
        let mode = fs::metadata(&self.path).map_err(|error| self.error(error))?.mode() & 0o777;
        if mode & 0o077 == 0 {
            return Ok(());
        }
        Err(self.error(format!("other users may access it (mode {mode:04o}); its mode must be 0600 or 0400")))
    }

    #[cfg(not(unix))]
    fn check_mode(&self) -> Result<(), KeyWrapError> {
        Ok(())
    }
}

impl KeyWrapper for StoreKeyFile {
    fn wrap(&self, key: &SecretKey) -> Result<WrappedKey, KeyWrapError> {
        let wrapping = self.first()?;
        let sealed =
            pintle_sealing::random().and_then(|nonce| Cipher::new(&wrapping).seal(nonce, key.bytes(), CONTEXT));
        let bytes = sealed.map_err(|error| self.error(error))?;
        Ok(WrappedKey { wrapped_with: id_of(&wrapping), bytes })
    }

    fn unwrap(&self, wrapped: &WrappedKey) -> Result<SecretKey, KeyWrapError> {
        let keys = self.read()?;
        let Some(wrapping) = keys.iter().find(|key| id_of(key) == wrapped.wrapped_with) else {
            let ids: Vec<String> = keys.iter().map(id_of).collect();
            let (wanted, ids) = (&wrapped.wrapped_with, ids.join(", "));
            return Err(self.error(format!("it lacks the key with the id {wanted}; the ids of its keys are {ids}")));
        };
        let opened = Cipher::new(wrapping).open(&wrapped.bytes, CONTEXT).map(Zeroizing::new);
        opened
            .and_then(|bytes| SecretKey::from_slice(&bytes))
            .ok_or_else(|| self.error("the wrapped data key is not authentic"))
    }
}

/// The id of a key: the start of a code that does not reveal the key.
fn id_of(key: &SecretKey) -> String {
    let code = CodeKey::new(key).code(&[ID_TEXT]);
    code.iter().take(ID_BYTES).fold(String::new(), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

    use super::*;

    const ONE: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    const TWO: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

    fn key_file(folder: &tempfile::TempDir, name: &str, content: &str) -> StoreKeyFile {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        #[cfg(unix)]
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        StoreKeyFile::new(&path)
    }

    #[test]
    fn the_first_key_wraps_and_all_keys_unwrap() {
        let folder = tempfile::tempdir().unwrap();
        let old = key_file(&folder, "old", ONE);
        let new = key_file(&folder, "new", &format!("# Two keys\n\n {TWO}\r\n{ONE}\n"));
        let key = SecretKey::new([7; 32]);
        let wrapped = old.wrap(&key).unwrap();
        assert_eq!(wrapped.wrapped_with, old.check().unwrap());
        assert_eq!(new.unwrap(&wrapped).unwrap().bytes(), key.bytes());
        let again = new.wrap(&key).unwrap();
        assert_ne!(again.wrapped_with, wrapped.wrapped_with);
        let error = old.unwrap(&again).unwrap_err().to_string();
        let (path, new_id, old_id) = (old.path.display(), new.check().unwrap(), old.check().unwrap());
        let expected =
            format!("the key file {path}: it lacks the key with the id {new_id}; the ids of its keys are {old_id}");
        assert_eq!(error, expected);
        let mut changed = wrapped;
        changed.bytes[20] ^= 1;
        assert!(old.unwrap(&changed).unwrap_err().to_string().ends_with("the wrapped data key is not authentic"));
        assert_eq!(format!("{key:?}"), "[REDACTED]");
    }

    #[test]
    fn a_file_without_a_usable_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |content: &str| key_file(&folder, "key", content).check().unwrap_err().to_string();
        assert!(refused("# nothing\n").ends_with("it has no key"));
        assert!(refused(&format!("{ONE}\nAQEB\n")).ends_with("line 2 is not 32 bytes as base64"));
        assert!(refused("secret!").ends_with("line 1 is not 32 bytes as base64"), "the text is not shown");
        let missing = StoreKeyFile::new(&folder.path().join("missing")).check().unwrap_err().to_string();
        assert!(missing.contains("missing: No such file"), "{missing}");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_other_users_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = key_file(&folder, "key", ONE);
        for (mode, is_private) in [(0o400, true), (0o600, true), (0o640, false), (0o604, false)] {
            fs::set_permissions(&file.path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(file.check().is_ok(), is_private, "{mode:o}");
        }
        let error = file.check().unwrap_err().to_string();
        assert!(error.ends_with("other users may access it (mode 0604); its mode must be 0600 or 0400"), "{error}");
    }
}
