//! AES-CBC with PKCS #7 padding. A stored value has a random initialization vector of 16 bytes and the ciphertext. Nothing
//! is authenticated, as in upstream.

use std::fmt;
use std::sync::Arc;

use aes::cipher::consts::U16;
use aes::cipher::{
    Array, BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, BlockSizeUser, InnerIvInit,
    KeyInit,
};
use aes::{Aes128, Aes192, Aes256};
use cbc::{Decryptor, Encryptor};

use super::{Decrypted, TOO_SHORT, Transformer, fill_random};
use crate::TransformError;

const BLOCK_LENGTH: usize = 16;

const NO_WHOLE_BLOCKS: TransformError = TransformError::fixed("the stored data is not a multiple of the block size");
const NOT_PADDED: TransformError = TransformError::fixed("invalid PKCS7 data (empty or not padded)");
const INVALID_PADDING: TransformError = TransformError::fixed("invalid padding on input");

/// A key with the length of its type.
struct AesCbc<C>(C);

/// A transformer with a key of 16, 24 or 32 bytes.
pub(super) fn new(key: &[u8]) -> Option<Arc<dyn Transformer>> {
    Some(match key.len() {
        16 => Arc::new(AesCbc(Aes128::new_from_slice(key).ok()?)),
        24 => Arc::new(AesCbc(Aes192::new_from_slice(key).ok()?)),
        32 => Arc::new(AesCbc(Aes256::new_from_slice(key).ok()?)),
        _ => return None,
    })
}

impl<C> fmt::Debug for AesCbc<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AesCbc")
    }
}

impl<C> Transformer for AesCbc<C>
where
    C: BlockSizeUser<BlockSize = U16> + BlockCipherEncrypt + BlockCipherDecrypt + Send + Sync,
{
    fn encrypt_to(&self, value: &[u8], _context: &[u8], stored: &mut Vec<u8>) -> Result<(), TransformError> {
        let mut vector = [0; BLOCK_LENGTH];
        fill_random(&mut vector)?;
        let padding = BLOCK_LENGTH - value.len() % BLOCK_LENGTH;
        stored.reserve(BLOCK_LENGTH + value.len() + padding);
        stored.extend_from_slice(&vector);
        let start = stored.len();
        stored.extend_from_slice(value);
        stored.extend(std::iter::repeat_n(padding as u8, padding));
        let (blocks, _) = Array::slice_as_chunks_mut(&mut stored[start..]);
        Encryptor::inner_iv_init(&self.0, &vector.into()).encrypt_blocks(blocks);
        Ok(())
    }

    fn decrypt<'s>(&self, stored: &'s [u8], _context: &[u8]) -> Result<Decrypted<'s>, TransformError> {
        let (vector, ciphertext) = stored.split_first_chunk::<BLOCK_LENGTH>().ok_or(TOO_SHORT)?;
        let mut value = ciphertext.to_vec();
        let (blocks, rest) = Array::slice_as_chunks_mut(&mut value);
        if !rest.is_empty() {
            return Err(NO_WHOLE_BLOCKS);
        }
        Decryptor::inner_iv_init(&self.0, &(*vector).into()).decrypt_blocks(blocks);
        // Go panics if there is no block.
        let last = value.last().copied().unwrap_or_default();
        let length = value.len().checked_sub(last.into()).filter(|_| last > 0).ok_or(NOT_PADDED)?;
        // As in upstream, a padding may be longer than a block.
        if value[length..].iter().any(|byte| *byte != last) {
            return Err(INVALID_PADDING);
        }
        value.truncate(length);
        Ok(Decrypted::fresh(value))
    }
}
