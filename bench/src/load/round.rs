//! What a loop saw, and the arithmetic of repeated measurements.

use std::time::Duration;

/// What a loop saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    /// Requests answered.
    pub(crate) done: u64,
    /// Bytes of bodies received.
    pub(crate) bytes: u64,
    /// How long it took.
    pub(crate) elapsed: Duration,
    /// The server's CPU time meanwhile, where it can be known.
    pub(crate) cpu: Option<Duration>,
    /// How long each request took, in microseconds, ascending.
    pub(crate) latencies: Vec<u32>,
}

impl Round {
    /// Requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.done as f64 / self.elapsed.as_secs_f64()
    }

    /// Body bytes per second, in millions.
    pub(crate) fn megabytes(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64() / 1e6
    }

    /// Seconds per request, all clients together.
    pub(crate) fn seconds(&self) -> f64 {
        self.elapsed.as_secs_f64() / self.done.max(1) as f64
    }

    /// Microseconds of the server's CPU per request.
    pub(crate) fn micros(&self) -> Option<f64> {
        self.micros_each(self.done)
    }

    /// Microseconds of the server's CPU for each of `count` things.
    pub(crate) fn micros_each(&self, count: u64) -> Option<f64> {
        self.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / count.max(1) as f64)
    }

    /// The latencies in short.
    pub(crate) fn percentiles(&self) -> Percentiles {
        Percentiles::of(&self.latencies)
    }
}

/// Latencies in milliseconds: what half, all but one of a hundred and all but one of a thousand are not above.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

impl Percentiles {
    /// Of ascending microseconds.
    pub(crate) fn of(ascending: &[u32]) -> Self {
        Self { p50: quantile(ascending, 0.5), p99: quantile(ascending, 0.99), p999: quantile(ascending, 0.999) }
    }
}

/// A quantile of ascending microseconds, in milliseconds.
pub(crate) fn quantile(ascending: &[u32], at: f64) -> f64 {
    let last = ascending.len().saturating_sub(1);
    ascending.get((last as f64 * at).round() as usize).map_or(0.0, |micros| f64::from(*micros) / 1e3)
}

/// The round in the middle by its rate.
pub(crate) fn median(mut rounds: Vec<Round>) -> Round {
    rounds.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    let middle = rounds.len() / 2;
    if middle < rounds.len() { rounds.swap_remove(middle) } else { Round::default() }
}

/// The number in the middle; of no numbers, nothing.
pub(crate) fn middle(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        let micros: Vec<u32> = (0..=1000).map(|n| n * 100).collect();
        for (at, milliseconds) in [(0.0, 0.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert!((quantile(&micros, at) - milliseconds).abs() < 1e-9, "{at}");
        }
        assert!((Percentiles::of(&micros).p999 - 99.9).abs() < 1e-9);
        assert!(quantile(&[], 0.5).abs() < 1e-9);
    }

    #[test]
    fn medians() {
        assert!((middle([3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!(middle([]).abs() < 1e-9);
        let rounds = [5, 1, 3].map(|done| Round { done, elapsed: Duration::from_secs(1), ..Round::default() });
        assert_eq!(median(rounds.to_vec()).done, 3);
    }
}
