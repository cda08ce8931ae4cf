//! The result of a load loop, and the statistics of repeated measurements.

use std::time::Duration;

/// The result of one loop.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoundResult {
    /// The number of completed requests.
    pub(crate) completed: u64,
    /// The number of response body bytes.
    pub(crate) bytes: u64,
    /// The duration of the loop.
    pub(crate) elapsed: Duration,
    /// The server's CPU time during the loop, if it is known.
    pub(crate) cpu: Option<Duration>,
    /// The latency of each request in microseconds, ascending.
    pub(crate) latencies: Vec<u32>,
}

impl RoundResult {
    /// Requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.completed as f64 / self.elapsed.as_secs_f64()
    }

    /// Response body throughput in MB/s.
    pub(crate) fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64() / 1e6
    }

    /// Elapsed seconds per completed request, over all clients.
    pub(crate) fn seconds_per_request(&self) -> f64 {
        self.elapsed.as_secs_f64() / self.completed.max(1) as f64
    }

    /// The server's CPU time per request, in microseconds.
    pub(crate) fn cpu_micros(&self) -> Option<f64> {
        self.cpu_micros_per(self.completed)
    }

    /// The server's CPU time divided by `count`, in microseconds.
    pub(crate) fn cpu_micros_per(&self, count: u64) -> Option<f64> {
        self.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / count.max(1) as f64)
    }

    /// The latency percentiles.
    pub(crate) fn percentiles(&self) -> Percentiles {
        Percentiles::of(&self.latencies)
    }
}

/// Latency percentiles in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

impl Percentiles {
    /// Computes the percentiles of ascending latencies in microseconds.
    pub(crate) fn of(ascending: &[u32]) -> Self {
        Self { p50: quantile(ascending, 0.5), p99: quantile(ascending, 0.99), p999: quantile(ascending, 0.999) }
    }
}

/// A quantile of ascending latencies in microseconds, converted to milliseconds.
pub(crate) fn quantile(ascending: &[u32], at: f64) -> f64 {
    let last = ascending.len().saturating_sub(1);
    ascending.get((last as f64 * at).round() as usize).map_or(0.0, |micros| f64::from(*micros) / 1e3)
}

/// The round with the median throughput.
pub(crate) fn median_round(mut rounds: Vec<RoundResult>) -> RoundResult {
    rounds.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    let median = rounds.len() / 2;
    if median < rounds.len() { rounds.swap_remove(median) } else { RoundResult::default() }
}

/// The median of the numbers, or 0 if there are no numbers.
pub(crate) fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_in_milliseconds() {
        let micros: Vec<u32> = (0..=1000).map(|n| n * 100).collect();
        for (at, milliseconds) in [(0.0, 0.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert!((quantile(&micros, at) - milliseconds).abs() < 1e-9, "{at}");
        }
        assert!((Percentiles::of(&micros).p999 - 99.9).abs() < 1e-9);
        assert!(quantile(&[], 0.5).abs() < 1e-9);
    }

    #[test]
    fn median_of_numbers_and_of_rounds() {
        assert!((median([3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!(median([]).abs() < 1e-9);
        let rounds = [5, 1, 3].map(|completed| RoundResult {
            completed,
            elapsed: Duration::from_secs(1),
            ..RoundResult::default()
        });
        assert_eq!(median_round(rounds.to_vec()).completed, 3);
    }
}
