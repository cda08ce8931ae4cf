//! The header `Retry-After` of rejected requests (upstream: `dropped_requests_tracker.go`).

use std::collections::VecDeque;

/// The maximum value, in seconds.
const MAX: u64 = 32;

/// The value of `Retry-After` for the requests of a priority level. It doubles while many requests are rejected, and
/// falls by one when few are.
#[derive(Debug)]
pub(crate) struct RetryAfter {
    seconds: u64,
    /// The second in which the value was doubled.
    doubled_at: u64,
    /// The present second and its number of rejected requests.
    current: (u64, u64),
    /// Past seconds with their numbers of rejected requests, ascending.
    history: VecDeque<(u64, u64)>,
}

impl Default for RetryAfter {
    fn default() -> Self {
        Self { seconds: 1, doubled_at: 0, current: (0, 0), history: VecDeque::new() }
    }
}

impl RetryAfter {
    /// Counts a rejected request. `now` is in Unix time. Returns the value for its response.
    pub(crate) fn record(&mut self, now: u64) -> u64 {
        if now == self.current.0 {
            self.current.1 += 1;
            return self.seconds;
        }
        let oldest = self.current.0.saturating_sub((2 * self.seconds).min(MAX));
        self.history.push_back(self.current);
        while self.history.front().is_some_and(|(second, _)| *second < oldest) {
            self.history.pop_front();
        }
        self.current = (now, 1);
        self.update(now);
        self.seconds
    }

    fn update(&mut self, now: u64) {
        let since = now.saturating_sub(self.seconds);
        let recent = self.history.iter().filter(|(second, _)| (since..now).contains(second));
        let rejected: u64 = recent.map(|(_, count)| count).sum();
        if now.saturating_sub(self.doubled_at) >= self.seconds && rejected >= 3 * self.seconds {
            self.seconds = (2 * self.seconds).min(MAX);
            self.doubled_at = now;
        } else if rejected < self.seconds && self.seconds > 1 {
            self.seconds -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_follows_the_rejected_requests() {
        let mut retry_after = RetryAfter::default();
        let mut check = |second: u64, count: usize, expect: u64| {
            let last = (0..count).map(|_| retry_after.record(1000 + second)).last();
            assert_eq!(last, Some(expect), "{second}");
        };
        check(0, 3, 1);
        check(1, 10, 2);
        check(2, 10, 2);
        check(3, 100, 4);
        check(4, 100, 4);
        check(7, 100, 8);
        check(15, 100, 16);
        check(31, 100, 32);
        check(63, 100, 32);
        // Few requests were rejected before.
        check(200, 1, 31);
        check(201, 1, 30);
    }
}
