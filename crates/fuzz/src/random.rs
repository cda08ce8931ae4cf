//! A small deterministic pseudorandom number generator.

/// A seeded xorshift generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator. The same seed gives the same numbers.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // The state must not be zero, because xorshift would stay at zero.
        Self(seed ^ 0x9e37_79b9_7f4a_7c15 | 1)
    }

    /// Returns any number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number below `limit`, or 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = limit.max(1) as u64;
        usize::try_from(self.number() % limit).unwrap_or_default()
    }

    /// Returns true with a probability of one in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns one of the items.
    ///
    /// Panics if there are no items.
    /// Panics if there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
