//! A token bucket (upstream: client-go's `flowcontrol.NewTokenBucketRateLimiter`).

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Limits a rate.
pub(crate) struct Throttle {
    /// Tokens for each second.
    rate: f64,
    /// Maximum number of tokens.
    burst: f64,
    /// The tokens at `updated`. A negative number is the number of callers that wait.
    tokens: f64,
    updated: Instant,
}

impl Throttle {
    /// A full bucket. Both numbers are positive.
    pub(crate) fn new(rate: f64, burst: f64) -> Self {
        Self { rate, burst, tokens: burst, updated: Instant::now() }
    }

    /// Takes a token, as soon as there is one.
    pub(crate) async fn accept(&mut self) {
        let now = Instant::now();
        let refilled = self.tokens + now.duration_since(self.updated).as_secs_f64() * self.rate;
        self.tokens = refilled.min(self.burst) - 1.0;
        self.updated = now;
        if self.tokens < 0.0 {
            let wait = Duration::try_from_secs_f64(-self.tokens / self.rate).unwrap_or(Duration::MAX);
            sleep(wait).await;
        }
    }
}
