//! How much memory a decoder may take.

/// The most bytes that may be held at once while an input is decoded.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// For each byte of the input.
    pub per_byte: usize,
    /// For any input, an empty one too.
    pub at_least: usize,
}

/// Runs a decoder and returns what it returns.
///
/// # Panics
/// If it held more memory at once than an input of this length may take.
pub fn bounded<T>(input: usize, bound: Bound, decode: impl FnOnce() -> T) -> T {
    let mut result = None;
    let info = allocation_counter::measure(|| result = Some(decode()));
    let most = (bound.per_byte * input + bound.at_least) as u64;
    assert!(info.bytes_max <= most, "{} bytes were held for an input of {input}, {most} may be", info.bytes_max);
    match result {
        Some(value) => value,
        None => unreachable!("the decoder has returned"),
    }
}
