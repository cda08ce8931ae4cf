//! A closed loop: each connection sends its next request when the answer to the last one is there. It finds out how much
//! a server does per second and per CPU second; it does not show how latency grows when requests come at their own pace.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;

use crate::Result;
use crate::client::{Connection, Outgoing};
use crate::process::Process;

/// Makes the requests of a loop: for a connection's number and how many it has sent already, the next request, or
/// `None` when that connection has nothing left to send.
pub(crate) type Script = Arc<dyn Fn(usize, u64) -> Option<Outgoing> + Send + Sync>;

/// What a loop saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    /// Requests answered.
    pub(crate) done: u64,
    /// Bytes of bodies received.
    pub(crate) bytes: u64,
    /// How long it took.
    pub(crate) elapsed: Duration,
    /// The server's CPU time meanwhile.
    pub(crate) cpu: Duration,
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

    /// Microseconds of the server's CPU per request.
    pub(crate) fn micros(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.done.max(1) as f64
    }

    /// A quantile of the latencies in milliseconds.
    pub(crate) fn quantile(&self, at: f64) -> f64 {
        quantile(&self.latencies, at)
    }
}

/// A quantile of ascending microseconds, in milliseconds.
pub(crate) fn quantile(ascending: &[u32], at: f64) -> f64 {
    let last = ascending.len().saturating_sub(1);
    ascending.get((last as f64 * at).round() as usize).map_or(0.0, |micros| f64::from(*micros) / 1e3)
}

/// Sends a script's requests on `connections` new connections for `time`, or until the script ends. An answer other
/// than `expect` ends the benchmark.
pub(crate) async fn closed_loop(
    server: &Process,
    connections: usize,
    time: Duration,
    expect: StatusCode,
    script: &Script,
) -> Result<Round> {
    let connections = server.endpoint.connect_all(connections).await?;
    let cpu = server.cpu()?;
    let started = Instant::now();
    let end = started + time;
    let tasks: Vec<_> = connections
        .into_iter()
        .enumerate()
        .map(|(worker, connection)| tokio::spawn(work(connection, worker, end, expect, script.clone())))
        .collect();
    let mut round = Round::default();
    for task in tasks {
        let (bytes, latencies) = task.await??;
        round.bytes += bytes;
        round.done += latencies.len() as u64;
        round.latencies.extend(latencies);
    }
    round.elapsed = started.elapsed();
    round.cpu = server.cpu()?.saturating_sub(cpu);
    round.latencies.sort_unstable();
    Ok(round)
}

async fn work(
    mut connection: Connection,
    worker: usize,
    end: Instant,
    expect: StatusCode,
    script: Script,
) -> Result<(u64, Vec<u32>)> {
    let mut bytes = 0;
    let mut latencies = Vec::with_capacity(1 << 16);
    while let Some(request) = script(worker, latencies.len() as u64) {
        let sent = Instant::now();
        if sent >= end {
            break;
        }
        bytes += connection.exchange(request, expect).await?;
        latencies.push(u32::try_from(sent.elapsed().as_micros()).unwrap_or(u32::MAX));
    }
    Ok((bytes, latencies))
}

/// The round in the middle by `key`.
pub(crate) fn median(mut rounds: Vec<Round>, key: fn(&Round) -> f64) -> Round {
    rounds.sort_by(|a, b| key(a).total_cmp(&key(b)));
    let middle = rounds.len() / 2;
    if middle < rounds.len() { rounds.swap_remove(middle) } else { Round::default() }
}

/// The number in the middle.
pub(crate) fn middle(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        let micros: Vec<u32> = (0..=100).map(|n| n * 1000).collect();
        for (at, milliseconds) in [(0.0, 0.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert!((quantile(&micros, at) - milliseconds).abs() < 1e-9, "{at}");
        }
        assert!(quantile(&[], 0.5).abs() < 1e-9);
    }

    #[test]
    fn medians() {
        assert!((middle(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!(middle(Vec::new()).abs() < 1e-9);
        let rounds = [5, 1, 3].map(|done| Round { done, elapsed: Duration::from_secs(1), ..Round::default() });
        assert_eq!(median(rounds.to_vec(), Round::rate).done, 3);
    }
}
