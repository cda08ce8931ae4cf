//! The form of the stores of a suite: unencrypted or encrypted. The suites that use the files of a store run with both.

use std::sync::Arc;

use pintle_store::{KeyWrapError, KeyWrapper, SecretKey, StoreEncryption, WrappedKey};

/// The form of a store file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Encrypted,
}

impl Form {
    pub(crate) fn encryption(self) -> Option<StoreEncryption> {
        match self {
            Form::Plain => None,
            Form::Encrypted => Some(StoreEncryption::new(Arc::new(MaskWrapper { masks: vec![0x5a] }))),
        }
    }

    /// A name that is unique among the suites.
    pub(crate) fn name(self, name: &str) -> String {
        match self {
            Form::Plain => name.to_owned(),
            Form::Encrypted => format!("{name}-encrypted"),
        }
    }
}

/// A wrapper without a cipher, which is the same in each process. The first mask wraps, and all masks unwrap.
#[derive(Debug)]
pub(crate) struct MaskWrapper {
    pub(crate) masks: Vec<u8>,
}

impl KeyWrapper for MaskWrapper {
    fn wrap(&self, key: &SecretKey) -> Result<WrappedKey, KeyWrapError> {
        let mask = self.masks[0];
        let bytes = key.bytes().iter().map(|byte| byte ^ mask).collect();
        Ok(WrappedKey { wrapped_with: format!("mask {mask}"), bytes })
    }

    fn unwrap(&self, wrapped: &WrappedKey) -> Result<SecretKey, KeyWrapError> {
        let mask = self.masks.iter().find(|mask| wrapped.wrapped_with == format!("mask {mask}"));
        let mask = mask.ok_or_else(|| KeyWrapError(format!("there is no {}", wrapped.wrapped_with)))?;
        let bytes: Vec<u8> = wrapped.bytes.iter().map(|byte| byte ^ mask).collect();
        SecretKey::from_slice(&bytes).ok_or_else(|| KeyWrapError("the length is wrong".to_owned()))
    }
}
