//! Many open watches whose events are counted. What arrives is looked at as bytes, never as JSON, so that the generator
//! leaves the machine to the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::task::JoinSet;

use crate::Result;
use crate::client::{Connection, Outgoing, Protocol};
use crate::load::micros;
use crate::target::Server;

/// Watches that are being opened at a time.
const OPENING: usize = 32;
/// Watches on one HTTP/2 connection: as many as kube-apiserver lets a client have.
const STREAMS: usize = 100;
/// How many events' arrivals are kept.
const KEPT: usize = 1 << 18;
/// How long the last event may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How events follow each other in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// JSON: an event is a line.
    Lines,
    /// Protobuf: an event comes after its length, four bytes, the highest first.
    Lengths,
}

/// Counts events in pieces of a stream.
#[derive(Debug)]
struct Counter {
    framing: Framing,
    /// Of a length that has not come wholly: its bytes so far, and how many.
    length: (u32, u8),
    /// What is left of the event that has begun.
    left: usize,
}

impl Counter {
    fn new(framing: Framing) -> Self {
        Self { framing, length: (0, 0), left: 0 }
    }

    /// How many events end in this piece.
    fn count(&mut self, piece: &[u8]) -> u64 {
        match self.framing {
            // In short runs whose sums fit a byte, which the processor then adds many at a time.
            Framing::Lines => piece
                .chunks(255)
                .map(|run| u64::from(run.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>()))
                .sum(),
            Framing::Lengths => self.lengths(piece),
        }
    }

    fn lengths(&mut self, mut piece: &[u8]) -> u64 {
        let mut count = 0;
        while let [first, rest @ ..] = piece {
            if self.left == 0 {
                let (length, bytes) = self.length;
                self.length = (length << 8 | u32::from(*first), bytes + 1);
                piece = rest;
                if bytes == 3 {
                    self.left = self.length.0 as usize;
                    self.length = (0, 0);
                }
            } else {
                let taken = self.left.min(piece.len());
                self.left -= taken;
                piece = &piece[taken..];
                count += u64::from(self.left == 0);
            }
        }
        count
    }
}

/// When the last watcher of a collection had its n-th event, for each n.
#[derive(Debug)]
pub(crate) struct Arrivals {
    began: Instant,
    /// Microseconds since the beginning; zero where no one has it.
    last: Vec<AtomicU32>,
}

impl Arrivals {
    /// Begins now.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), last: (0..KEPT).map(|_| AtomicU32::new(0)).collect() })
    }

    /// Notes that someone has the events from number `from` on, `count` of them.
    fn note(&self, from: u64, count: u64) {
        let now = micros(self.began.elapsed());
        for last in self.last.iter().skip(from as usize).take(count as usize) {
            last.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// How long after `since` the last watcher had the n-th event, in microseconds.
    pub(crate) fn after(&self, number: usize, since: Instant) -> Option<u32> {
        let last = self.last.get(number)?.load(Ordering::Relaxed);
        (last > 0).then(|| last.saturating_sub(micros(since.saturating_duration_since(self.began))))
    }
}

/// What watchers do beside counting.
#[derive(Clone)]
pub(crate) struct Watching {
    protocol: Protocol,
    framing: Framing,
    arrivals: Option<Arc<Arrivals>>,
}

impl Watching {
    /// Watches in JSON.
    pub(crate) fn over(protocol: Protocol) -> Self {
        Self { protocol, framing: Framing::Lines, arrivals: None }
    }

    /// Watches whose events are framed in another way.
    pub(crate) fn framed(self, framing: Framing) -> Self {
        Self { framing, ..self }
    }

    /// Notes when events arrive.
    pub(crate) fn noting(self, arrivals: &Arc<Arrivals>) -> Self {
        Self { arrivals: Some(arrivals.clone()), ..self }
    }

    /// Opens a watch for each request. All are open when this returns.
    pub(crate) async fn open(
        &self,
        server: &Server,
        requests: impl ExactSizeIterator<Item = Outgoing>,
    ) -> Result<Watchers> {
        let count = requests.len();
        let mut connections = Vec::with_capacity(count);
        match self.protocol {
            Protocol::Http1 => connections = server.endpoint.connect_all(count, Protocol::Http1).await?,
            Protocol::Http2 => {
                while connections.len() < count {
                    let streams = STREAMS.min(count - connections.len());
                    connections.extend(server.endpoint.connect_all(streams, Protocol::Http2).await?);
                }
            }
        }
        let mut watchers = Watchers { seen: Vec::with_capacity(count), readers: JoinSet::new() };
        let mut opening = JoinSet::new();
        for (mut connection, request) in connections.into_iter().zip(requests) {
            if opening.len() == OPENING
                && let Some(opened) = opening.join_next().await
            {
                self.read(opened??, &mut watchers);
            }
            opening.spawn(async move {
                let body = connection.expect(request, StatusCode::OK).await?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>((connection, body))
            });
        }
        while let Some(opened) = opening.join_next().await {
            self.read(opened??, &mut watchers);
        }
        Ok(watchers)
    }

    fn read(&self, (connection, mut body): (Connection, Incoming), watchers: &mut Watchers) {
        let (mut counter, arrivals) = (Counter::new(self.framing), self.arrivals.clone());
        let seen = Arc::new(AtomicU64::new(0));
        watchers.seen.push(seen.clone());
        watchers.readers.spawn(async move {
            while let Some(Ok(frame)) = body.frame().await {
                let events = counter.count(frame.data_ref().map_or(&[][..], Bytes::as_ref));
                let before = seen.fetch_add(events, Ordering::Relaxed);
                if let Some(arrivals) = &arrivals {
                    arrivals.note(before, events);
                }
            }
            drop(connection);
        });
    }
}

/// Open watches. They end when this is dropped.
pub(crate) struct Watchers {
    seen: Vec<Arc<AtomicU64>>,
    readers: JoinSet<()>,
}

impl Watchers {
    /// Events that have come, to all watchers together.
    pub(crate) fn events(&self) -> u64 {
        self.seen.iter().map(|seen| seen.load(Ordering::Relaxed)).sum()
    }

    /// Waits until so many have come. More than these, or fewer after long, are a fault.
    pub(crate) async fn wait_for(&self, expected: u64) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.events() {
                events if events == expected => return Ok(()),
                events if events > expected || Instant::now() > deadline => {
                    return Err(format!("{events} events came of {expected}").into());
                }
                _ => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    }

    /// Ends all watches and waits until their connections are let go.
    pub(crate) async fn close(mut self) {
        self.readers.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts in pieces of each size: where a stream is cut makes no difference.
    fn check(framing: Framing, stream: &[u8], events: u64) {
        for size in 1..=stream.len() {
            let mut counter = Counter::new(framing);
            let count: u64 = stream.chunks(size).map(|piece| counter.count(piece)).sum();
            assert_eq!(count, events, "{framing:?} in pieces of {size}");
        }
    }

    #[test]
    fn events_are_counted() {
        check(Framing::Lines, b"{}\n{\"a\":1}\n{", 2);
        check(Framing::Lines, "\n".repeat(1000).as_bytes(), 1000);
        check(Framing::Lengths, b"\0\0\0\x02ab\0\0\0\x01c\0\0\0\x05de", 2);
        check(Framing::Lengths, &[&[0, 0, 1, 0][..], &[7; 256], &[0, 0]].concat(), 1);
    }

    #[test]
    fn the_last_arrival_counts() {
        let arrivals = Arrivals::new();
        std::thread::sleep(Duration::from_millis(1));
        arrivals.note(0, 2);
        arrivals.note(0, 1);
        let (first, second) = (arrivals.after(0, arrivals.began), arrivals.after(1, arrivals.began));
        assert!(first >= second && second > Some(0));
        assert_eq!(arrivals.after(2, arrivals.began), None);
    }
}
