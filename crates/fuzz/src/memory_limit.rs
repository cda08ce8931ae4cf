//! Limits the memory that a decoder may allocate.

/// The maximum number of bytes that a decoder may have allocated at once.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimit {
    /// Bytes for each byte of the input.
    pub per_byte: usize,
    /// Bytes for any input, even an empty one.
    pub base: usize,
}

/// Runs a decoder and returns its result.
///
/// # Panics
/// Panics if the decoder's peak allocation exceeds the limit for an input of this length.
pub fn with_memory_limit<T>(input: usize, limit: MemoryLimit, decode: impl FnOnce() -> T) -> T {
    let mut result = None;
    let info = allocation_counter::measure(|| result = Some(decode()));
    let limit = (limit.per_byte * input + limit.base) as u64;
    assert!(
        info.bytes_max <= limit,
        "{} bytes were allocated for an input of {input} bytes, the limit is {limit}",
        info.bytes_max
    );
    match result {
        Some(value) => value,
        None => unreachable!("the decoder has returned"),
    }
}
