//! Limits the work that any input may cost in any target. A time limit alone would not notice an input whose work grows
//! faster than its length.

use crate::FuzzTarget;

/// The limit of memory that is allocated at once: bytes for any input, and bytes for each byte of the input. Compiled
/// patterns take the most, up to 12 MB. Decoders have their own limits ([`crate::with_memory_limit`]).
const BYTES: (usize, usize) = (32 << 20, 1 << 10);
/// The limit of allocations, in the same form. Allocations stand for steps: unlike time, they are the same on a busy
/// machine. Selectors take the most, 38 for each byte.
const ALLOCATIONS: (usize, usize) = (500_000, 64);

impl FuzzTarget {
    /// Runs the target with an input.
    ///
    /// # Panics
    /// Panics if a property of the target does not hold. Panics if the input costs more memory or allocations than its
    /// length allows.
    pub fn run(&self, input: &[u8]) {
        let info = allocation_counter::measure(|| (self.target)(input));
        for (what, cost, (base, per_byte)) in
            [("bytes", info.bytes_max, BYTES), ("allocations", info.count_total, ALLOCATIONS)]
        {
            let limit = (base + per_byte * input.len()) as u64;
            assert!(cost <= limit, "{cost} {what} for an input of {} bytes, the limit is {limit}", input.len());
        }
    }
}
