//! The message that is stored for a value (`EncryptedObject` in `kmsv2/v2/api.proto`), and upstream's limits of its fields.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use pintle_value::FieldPath;
use pintle_value::names::fully_qualified_domain_name;
use sha2::{Digest, Sha256};

use super::EncryptedDek;
use super::wire::{Fields, MALFORMED, WireValue, write_bytes, write_length, write_varint};
use crate::TransformError;

/// The maximum lengths in bytes: of the key's ID, of the encrypted DEK, and of all annotations together.
const MAX_KEY_ID: usize = 1024;
const MAX_DEK: usize = 1024;
const MAX_ANNOTATIONS: usize = 32 << 10;

/// How many annotations with a wrong name an error shows. Upstream shows all of them.
const MAX_PROBLEMS: usize = 100;

/// The numbers of the fields.
const DATA: u8 = 1;
const KEY_ID: u8 = 2;
const DEK: u8 = 3;
const ANNOTATIONS: u8 = 4;
const KIND: u8 = 5;

/// The kind of a DEK (`EncryptedDEKSourceType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DekKind {
    /// The key of AES-GCM for all values.
    AesGcmKey,
    /// The seed from which the keys of values are derived.
    HkdfSeed,
}

impl DekKind {
    const fn number(self) -> i32 {
        match self {
            Self::AesGcmKey => 0,
            Self::HkdfSeed => 1,
        }
    }
}

/// A stored value: the ciphertext, and the encrypted DEK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptedObject<'s> {
    /// The ciphertext.
    pub data: Cow<'s, [u8]>,
    /// The encrypted DEK.
    pub dek: EncryptedDek,
    /// The kind of the DEK.
    pub kind: DekKind,
}

impl<'s> EncryptedObject<'s> {
    /// Decodes and validates a message.
    ///
    /// # Errors
    /// Returns upstream's error.
    pub fn decode(message: &'s [u8]) -> Result<Self, TransformError> {
        let (mut data, mut dek, mut kind): (&[u8], _, _) = (&[], EncryptedDek::default(), 0);
        for field in Fields::of(message) {
            let (number, value) = field.ok_or_else(|| TransformError::new(MALFORMED))?;
            match (u8::try_from(number).unwrap_or_default(), value) {
                (DATA, WireValue::Bytes(bytes)) => data = bytes,
                (KEY_ID, WireValue::Bytes(bytes)) => dek.key_id = utf8(bytes)?.to_owned(),
                (DEK, WireValue::Bytes(bytes)) => dek.ciphertext = bytes.to_vec(),
                (ANNOTATIONS, WireValue::Bytes(bytes)) => {
                    let (name, value) = annotation(bytes)?;
                    dek.annotations.insert(name, value);
                }
                // Go keeps the lower half of the number.
                (KIND, WireValue::Varint(number)) => kind = number as u32 as i32,
                _ => {}
            }
        }
        let kind = match kind {
            0 => DekKind::AesGcmKey,
            1 => DekKind::HkdfSeed,
            kind => return Err(TransformError::new(format!("unknown encryptedDEKSourceType: {kind}"))),
        };
        if data.is_empty() {
            return Err(TransformError::new("encrypted data is empty"));
        }
        validate_dek(&dek).map_err(TransformError::new)?;
        Ok(Self { data: Cow::Borrowed(data), dek, kind })
    }

    /// Encodes the message as Go does, with the annotations sorted by name.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Vec::new();
        write_data_length(self.data.len(), &mut message);
        message.extend_from_slice(&self.data);
        write_dek(&self.dek, self.kind, &mut message);
        message
    }
}

/// Appends the start of a message whose ciphertext has this length and comes next.
pub(super) fn write_data_length(length: usize, message: &mut Vec<u8>) {
    write_length(DATA, length, message);
}

/// Appends the fields after the ciphertext.
pub(super) fn write_dek(dek: &EncryptedDek, kind: DekKind, message: &mut Vec<u8>) {
    write_bytes(KEY_ID, dek.key_id.as_bytes(), message);
    write_bytes(DEK, &dek.ciphertext, message);
    write_annotations(ANNOTATIONS, &dek.annotations, message);
    if kind != DekKind::AesGcmKey {
        message.push(KIND << 3);
        write_varint(kind.number().unsigned_abs().into(), message);
    }
}

/// Appends annotations as a field with this number.
pub(super) fn write_annotations(number: u8, annotations: &BTreeMap<String, Vec<u8>>, message: &mut Vec<u8>) {
    for (name, value) in annotations {
        let mut entry = Vec::new();
        write_bytes(1, name.as_bytes(), &mut entry);
        write_bytes(2, value, &mut entry);
        write_bytes(number, &entry, message);
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, TransformError> {
    str::from_utf8(bytes).map_err(|_| TransformError::new("string field contains invalid UTF-8"))
}

/// The name and the value of an annotation, an entry of a map.
pub(super) fn annotation(entry: &[u8]) -> Result<(String, Vec<u8>), TransformError> {
    let (mut name, mut content) = ("", [].as_slice());
    for field in Fields::of(entry) {
        match field.ok_or_else(|| TransformError::new(MALFORMED))? {
            (1, WireValue::Bytes(bytes)) => name = utf8(bytes)?,
            (2, WireValue::Bytes(bytes)) => content = bytes,
            _ => {}
        }
    }
    Ok((name.to_owned(), content.to_vec()))
}

/// Checks the limits of an encrypted DEK (`ValidateEncryptedObject`).
pub(super) fn validate_dek(dek: &EncryptedDek) -> Result<(), String> {
    let problem = match dek.ciphertext.len() {
        0 => Some("encrypted DEK source is empty".to_owned()),
        length if length > MAX_DEK => {
            Some(format!("encrypted DEK source is {length} bytes, which exceeds the max size of {MAX_DEK}"))
        }
        _ => None,
    };
    if let Some(problem) = problem {
        return Err(format!("failed to validate encrypted DEK source: {problem}"));
    }
    validate_key_id(&dek.key_id).map_err(|problem| format!("failed to validate key id: {problem}"))?;
    validate_annotations(&dek.annotations).map_err(|problem| format!("failed to validate annotations: {problem}"))
}

/// Checks the length of a key's ID (`ValidateKeyID`).
pub(super) fn validate_key_id(key_id: &str) -> Result<(), InvalidKeyId> {
    match key_id.len() {
        0 => Err(InvalidKeyId::Empty),
        length if length > MAX_KEY_ID => Err(InvalidKeyId::TooLong(length)),
        _ => Ok(()),
    }
}

/// Why a key's ID is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InvalidKeyId {
    Empty,
    /// The ID has so many bytes.
    TooLong(usize),
}

impl InvalidKeyId {
    /// The reason in metrics (`ErrCodeKeyID`).
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLong(_) => "too_long",
        }
    }
}

impl fmt::Display for InvalidKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("keyID is empty"),
            Self::TooLong(length) => {
                write!(f, "keyID is {length} bytes, which exceeds the max size of {MAX_KEY_ID}")
            }
        }
    }
}

fn validate_annotations(annotations: &BTreeMap<String, Vec<u8>>) -> Result<(), TransformError> {
    let path = FieldPath::new("annotations");
    let problem = |name: &String| {
        let errors = fully_qualified_domain_name(&path, name);
        (!errors.is_empty()).then(|| errors.message())
    };
    let mut problems: Vec<String> = annotations.keys().filter_map(problem).take(MAX_PROBLEMS).collect();
    let length: usize = annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
    if length > MAX_ANNOTATIONS {
        let problem = format!("total size of annotations is {length}, which exceeds the max size of {MAX_ANNOTATIONS}");
        problems.push(problem);
    }
    let problems = problems.into_iter().map(TransformError::new);
    problems
        .reduce(|mut all, problem| {
            all.append(problem);
            all
        })
        .map_or(Ok(()), Err)
}

/// The name of a DEK in the cache: the hash of everything that the plugin gets for its decryption.
pub(super) fn cache_key(dek: &EncryptedDek, kind: DekKind) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(kind.number().to_be_bytes());
    // No part is longer than 32 KiB.
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    part(&dek.ciphertext);
    part(dek.key_id.as_bytes());
    for (name, value) in &dek.annotations {
        part(name.as_bytes());
        part(value);
    }
    hash.finalize().into()
}
