//! Load: requests from a script, sent by many clients at once. In a closed loop each client sends its next request when
//! the answer to the last one is there, which finds out how much a server does per second and per CPU second. In an open
//! loop requests are due at a steady pace whatever the server does, and a latency counts from when the request was due:
//! a server that stalls is charged for all who would have asked meanwhile.

mod pacer;
mod round;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;

use crate::Result;
use crate::client::{Connection, Outgoing, Protocol};
use crate::target::Server;

pub(crate) use pacer::Pacer;
pub(crate) use round::{Percentiles, Round, median, middle, quantile};

/// Makes the requests of a loop. In a closed loop it is given the client's number and how many requests that client has
/// sent already; in an open one, a client's number that means nothing and how many requests were due before this one.
/// `None` ends the client's work.
pub(crate) type Script = Arc<dyn Fn(usize, u64) -> Option<Outgoing> + Send + Sync>;

/// Sees every answer.
pub(crate) type Witness = Arc<dyn Fn(&Answer<'_>) + Send + Sync>;

/// An answer to a request of a script.
pub(crate) struct Answer<'a> {
    /// The number that the script was given.
    pub(crate) number: u64,
    /// When the request was due.
    pub(crate) due: Instant,
    /// When the answer was there.
    pub(crate) answered: Instant,
    /// What it was.
    pub(crate) body: &'a [u8],
}

/// When requests are sent.
#[derive(Clone, Copy)]
enum Pace {
    Closed(Duration),
    Open { rate: f64, time: Duration },
}

/// A load to put on a server.
#[derive(Clone)]
pub(crate) struct Load {
    clients: usize,
    pace: Pace,
    protocol: Protocol,
    expect: StatusCode,
    witness: Option<Witness>,
}

impl Load {
    /// A closed loop of `clients` for `time`, or until the script ends.
    pub(crate) fn closed(clients: usize, time: Duration) -> Self {
        Self { clients, pace: Pace::Closed(time), protocol: Protocol::Http1, expect: StatusCode::OK, witness: None }
    }

    /// An open loop: `rate` requests per second are due for `time`. At most `clients` of them are under way at once; a
    /// request that has to wait for a free client is late.
    pub(crate) fn open(clients: usize, rate: f64, time: Duration) -> Self {
        Self { pace: Pace::Open { rate, time }, ..Self::closed(clients, time) }
    }

    /// How the requests travel; HTTP/1.1 unless told.
    pub(crate) fn over(self, protocol: Protocol) -> Self {
        Self { protocol, ..self }
    }

    /// The code that every answer has to have; 200 unless told. Another one ends the measurement.
    pub(crate) fn expecting(self, expect: StatusCode) -> Self {
        Self { expect, ..self }
    }

    /// Shows every answer to `witness`, which makes the generator keep bodies for so long.
    pub(crate) fn witnessed(self, witness: Witness) -> Self {
        Self { witness: Some(witness), ..self }
    }

    /// Sends a script's requests.
    pub(crate) async fn run(&self, server: &Server, script: &Script) -> Result<Round> {
        let connections = server.endpoint.connect_all(self.clients, self.protocol).await?;
        let cpu = server.meter.cpu()?;
        let started = Instant::now();
        let schedule = Arc::new(match self.pace {
            Pace::Closed(time) => Schedule::Closed(started + time),
            Pace::Open { rate, time } => Schedule::Open(Pacer::start(rate, time, self.clients)?),
        });
        let tasks: Vec<_> = connections
            .into_iter()
            .enumerate()
            .map(|(client, connection)| {
                let load = self.clone();
                tokio::spawn(load.work(connection, client, schedule.clone(), script.clone()))
            })
            .collect();
        let mut round = Round::default();
        for task in tasks {
            let (bytes, latencies) = task.await??;
            round.bytes += bytes;
            round.done += latencies.len() as u64;
            round.latencies.extend(latencies);
        }
        round.elapsed = started.elapsed();
        round.cpu = server.meter.cpu_since(cpu)?;
        round.latencies.sort_unstable();
        Ok(round)
    }

    async fn work(
        self,
        mut connection: Connection,
        client: usize,
        schedule: Arc<Schedule>,
        script: Script,
    ) -> Result<(u64, Vec<u32>)> {
        let mut bytes = 0;
        let mut latencies = Vec::with_capacity(1 << 14);
        while let Some((number, due)) = schedule.next(latencies.len() as u64).await {
            let Some(request) = script(client, number) else { break };
            let answered = match &self.witness {
                None => {
                    bytes += connection.exchange(request, self.expect).await?;
                    Instant::now()
                }
                Some(witness) => {
                    let body: Bytes = connection.fetch(request, self.expect).await?;
                    let answered = Instant::now();
                    bytes += body.len() as u64;
                    witness(&Answer { number, due, answered, body: &body });
                    answered
                }
            };
            latencies.push(micros(answered.saturating_duration_since(due)));
        }
        Ok((bytes, latencies))
    }
}

/// When the next request is due, and which one it is.
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

/// A time in microseconds, as latencies are kept.
pub(crate) fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
