//! The load generator: many concurrent clients send a workload's requests. In a closed loop each client sends its next
//! request after its last response. This measures throughput and CPU time per request. In an open loop requests are
//! scheduled at a fixed rate regardless of the server, and latency counts from the scheduled time. So a server that
//! stalls is charged for every request that was due meanwhile (no coordinated omission).

mod pacer;
mod round;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;

use crate::Result;
use crate::client::{Connection, HttpRequest, Protocol};
use crate::target::Server;

pub(crate) use pacer::Pacer;
pub(crate) use round::{Percentiles, RoundResult, median, median_round, quantile};

/// Generates the requests of a loop. In a closed loop the arguments are the client's number and the number of requests
/// that this client has sent. In an open loop the client's number is arbitrary, and the second argument is the number
/// of requests scheduled before. `None` stops the client.
pub(crate) type Workload = Arc<dyn Fn(usize, u64) -> Option<HttpRequest> + Send + Sync>;

/// A callback for every response.
pub(crate) type ResponseObserver = Arc<dyn Fn(&ObservedResponse<'_>) + Send + Sync>;

/// A response as an observer sees it.
pub(crate) struct ObservedResponse<'a> {
    /// The request number that the workload received.
    pub(crate) number: u64,
    /// When the request was scheduled.
    pub(crate) due: Instant,
    /// When the response was complete.
    pub(crate) answered: Instant,
    /// The response body.
    pub(crate) body: &'a [u8],
}

/// The mode of a loop: closed or open.
#[derive(Clone, Copy)]
enum LoopMode {
    Closed(Duration),
    Open { rate: f64, time: Duration },
}

/// A load to run against a server.
#[derive(Clone)]
pub(crate) struct Load {
    clients: usize,
    mode: LoopMode,
    protocol: Protocol,
    expect: StatusCode,
    observer: Option<ResponseObserver>,
}

impl Load {
    /// A closed loop of `clients` for `time`, or until the workload ends.
    pub(crate) fn closed(clients: usize, time: Duration) -> Self {
        Self {
            clients,
            mode: LoopMode::Closed(time),
            protocol: Protocol::Http1,
            expect: StatusCode::OK,
            observer: None,
        }
    }

    /// An open loop that schedules `rate` requests per second for `time`. At most `clients` requests are in flight. A
    /// request that waits for a free client is late.
    pub(crate) fn open(clients: usize, rate: f64, time: Duration) -> Self {
        Self { mode: LoopMode::Open { rate, time }, ..Self::closed(clients, time) }
    }

    /// Sets the HTTP version. The default is HTTP/1.1.
    pub(crate) fn protocol(self, protocol: Protocol) -> Self {
        Self { protocol, ..self }
    }

    /// Sets the required status code. The default is 200. Any other status fails the measurement.
    pub(crate) fn expect_status(self, expect: StatusCode) -> Self {
        Self { expect, ..self }
    }

    /// Calls `observer` for every response. The generator then buffers response bodies.
    pub(crate) fn observed_by(self, observer: ResponseObserver) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// Runs the workload and returns the merged result of all clients.
    pub(crate) async fn run(&self, server: &Server, workload: &Workload) -> Result<RoundResult> {
        let connections = server.endpoint.connect_all(self.clients, self.protocol).await?;
        let cpu = server.meter.cpu_time()?;
        let started = Instant::now();
        let schedule = Arc::new(match self.mode {
            LoopMode::Closed(time) => Schedule::Closed(started + time),
            LoopMode::Open { rate, time } => Schedule::Open(Pacer::start(rate, time, self.clients)?),
        });
        let tasks: Vec<_> = connections
            .into_iter()
            .enumerate()
            .map(|(client, connection)| {
                let load = self.clone();
                tokio::spawn(load.run_client(connection, client, schedule.clone(), workload.clone()))
            })
            .collect();
        let mut round = RoundResult::default();
        for task in tasks {
            let (bytes, latencies) = task.await??;
            round.bytes += bytes;
            round.completed += latencies.len() as u64;
            round.latencies.extend(latencies);
        }
        round.elapsed = started.elapsed();
        round.cpu = server.meter.cpu_time_since(cpu)?;
        round.latencies.sort_unstable();
        Ok(round)
    }

    async fn run_client(
        self,
        mut connection: Connection,
        client: usize,
        schedule: Arc<Schedule>,
        workload: Workload,
    ) -> Result<(u64, Vec<u32>)> {
        let mut bytes = 0;
        let mut latencies = Vec::with_capacity(1 << 14);
        while let Some((number, due)) = schedule.next(latencies.len() as u64).await {
            let Some(request) = workload(client, number) else { break };
            let answered = match &self.observer {
                None => {
                    bytes += connection.execute(request, self.expect).await?;
                    Instant::now()
                }
                Some(observer) => {
                    let body: Bytes = connection.fetch(request, self.expect).await?;
                    let answered = Instant::now();
                    bytes += body.len() as u64;
                    observer(&ObservedResponse { number, due, answered, body: &body });
                    answered
                }
            };
            latencies.push(micros(answered.saturating_duration_since(due)));
        }
        Ok((bytes, latencies))
    }
}

/// Yields the number and the scheduled time of the next request.
enum Schedule {
    Closed(Instant),
    Open(Pacer),
}

impl Schedule {
    async fn next(&self, sent: u64) -> Option<(u64, Instant)> {
        match self {
            Schedule::Closed(end) => {
                let now = Instant::now();
                (now < *end).then_some((sent, now))
            }
            Schedule::Open(pacer) => pacer.next().await,
        }
    }
}

/// A duration in microseconds, the unit of recorded latencies.
pub(crate) fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
