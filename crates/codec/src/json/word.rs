//! Examines eight bytes at a time. Most strings of objects are so short that a search with vector instructions would
//! cost more.

/// A word of equal bytes.
pub(super) const fn repeated(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The highest bit of the lowest byte that is zero; bits above it mean nothing. Zero if no byte is.
pub(super) const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(repeated(0x01)) & !word & repeated(0x80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_zero_byte_is_found() {
        for at in 0..8 {
            let mut bytes = [0x80, 0xff, 1, 0x7f, 0x81, 2, 0xfe, 3];
            bytes[at] = 0;
            assert_eq!(zero_bytes(u64::from_le_bytes(bytes)).trailing_zeros() as usize / 8, at);
        }
        assert_eq!(zero_bytes(u64::from_le_bytes([0x80, 0xff, 1, 0x7f, 0x81, 2, 0xfe, 3])), 0);
    }
}
