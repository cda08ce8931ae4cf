//! Opens many watches and counts their events. Responses are scanned as bytes and never parsed as JSON, so that the
//! load generator leaves the machine's CPU to the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::task::JoinSet;

use crate::Result;
use crate::client::{Connection, HttpRequest, Protocol};
use crate::load::micros;
use crate::target::Server;

/// The maximum number of watches that are being opened at once.
const MAX_CONCURRENT_OPENS: usize = 32;
/// The number of watches on one HTTP/2 connection, like kube-apiserver's limit of concurrent streams.
pub(crate) const STREAMS_PER_CONNECTION: usize = 100;
/// The maximum number of events whose arrival times are recorded.
const MAX_RECORDED_EVENTS: usize = 1 << 18;
/// The timeout for the last event.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How events are delimited in a watch stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// JSON: one event per line.
    NewlineDelimited,
    /// Protobuf: a big-endian 32-bit length before each event.
    LengthDelimited,
}

/// Counts complete events in the chunks of a stream.
#[derive(Debug)]
struct EventCounter {
    framing: Framing,
    /// The bytes of an incomplete length prefix: their value so far, and their number.
    length: (u32, u8),
    /// The remaining bytes of the current event.
    left: usize,
}

impl EventCounter {
    fn new(framing: Framing) -> Self {
        Self { framing, length: (0, 0), left: 0 }
    }

    /// Returns the number of events that end in this chunk.
    fn count(&mut self, chunk: &[u8]) -> u64 {
        match self.framing {
            // Short runs keep each sum in a byte, which lets the compiler vectorize the addition.
            Framing::NewlineDelimited => chunk
                .chunks(255)
                .map(|run| u64::from(run.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>()))
                .sum(),
            Framing::LengthDelimited => self.count_length_delimited(chunk),
        }
    }

    fn count_length_delimited(&mut self, mut chunk: &[u8]) -> u64 {
        let mut count = 0;
        while let [first, rest @ ..] = chunk {
            if self.left == 0 {
                let (length, bytes) = self.length;
                self.length = (length << 8 | u32::from(*first), bytes + 1);
                chunk = rest;
                if bytes == 3 {
                    self.left = self.length.0 as usize;
                    self.length = (0, 0);
                }
            } else {
                let consumed = self.left.min(chunk.len());
                self.left -= consumed;
                chunk = &chunk[consumed..];
                count += u64::from(self.left == 0);
            }
        }
        count
    }
}

/// For each n, the time at which the last watcher of a collection received its n-th event.
#[derive(Debug)]
pub(crate) struct EventArrivals {
    began: Instant,
    /// Microseconds since `began`. Zero if no watcher received the event.
    last: Vec<AtomicU32>,
}

impl EventArrivals {
    /// Creates an empty record whose clock starts now.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), last: (0..MAX_RECORDED_EVENTS).map(|_| AtomicU32::new(0)).collect() })
    }

    /// Records that a watcher received `count` events, starting with number `from`.
    fn record(&self, from: u64, count: u64) {
        let now = micros(self.began.elapsed());
        for last in self.last.iter().skip(from as usize).take(count as usize) {
            last.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// The microseconds from `since` until the last watcher received the n-th event.
    pub(crate) fn latency_since(&self, number: usize, since: Instant) -> Option<u32> {
        let last = self.last.get(number)?.load(Ordering::Relaxed);
        (last > 0).then(|| last.saturating_sub(micros(since.saturating_duration_since(self.began))))
    }
}

/// Options for opening watches.
#[derive(Clone)]
pub(crate) struct WatchOptions {
    protocol: Protocol,
    framing: Framing,
    arrivals: Option<Arc<EventArrivals>>,
    streams_per_connection: usize,
}

impl WatchOptions {
    /// Options for watches in JSON.
    pub(crate) fn new(protocol: Protocol) -> Self {
        let streams_per_connection = STREAMS_PER_CONNECTION;
        Self { protocol, framing: Framing::NewlineDelimited, arrivals: None, streams_per_connection }
    }

    /// Sets the number of watches on one HTTP/2 connection.
    pub(crate) fn sharing(self, streams_per_connection: usize) -> Self {
        Self { streams_per_connection, ..self }
    }

    /// Sets how events are delimited.
    pub(crate) fn framed(self, framing: Framing) -> Self {
        Self { framing, ..self }
    }

    /// Records arrival times in `arrivals`.
    pub(crate) fn recording(self, arrivals: &Arc<EventArrivals>) -> Self {
        Self { arrivals: Some(arrivals.clone()), ..self }
    }

    /// Opens one watch for each request. All watches are open when this returns.
    pub(crate) async fn open(
        &self,
        server: &Server,
        requests: impl ExactSizeIterator<Item = HttpRequest>,
    ) -> Result<Watchers> {
        let count = requests.len();
        let mut connections = Vec::with_capacity(count);
        match self.protocol {
            Protocol::Http1 => connections = server.endpoint.connect_all(count, Protocol::Http1).await?,
            Protocol::Http2 => {
                while connections.len() < count {
                    let streams = self.streams_per_connection.min(count - connections.len());
                    connections.extend(server.endpoint.connect_all(streams, Protocol::Http2).await?);
                }
            }
        }
        let mut watchers =
            Watchers { counts: Vec::with_capacity(count), ended: Arc::default(), readers: JoinSet::new() };
        let mut opening = JoinSet::new();
        for (mut connection, request) in connections.into_iter().zip(requests) {
            if opening.len() == MAX_CONCURRENT_OPENS
                && let Some(opened) = opening.join_next().await
            {
                self.read(opened??, &mut watchers);
            }
            opening.spawn(async move {
                let body = connection.send_expecting(request, StatusCode::OK).await?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>((connection, body))
            });
        }
        while let Some(opened) = opening.join_next().await {
            self.read(opened??, &mut watchers);
        }
        Ok(watchers)
    }

    fn read(&self, (connection, mut body): (Connection, Incoming), watchers: &mut Watchers) {
        let (mut counter, arrivals) = (EventCounter::new(self.framing), self.arrivals.clone());
        let count = Arc::new(AtomicU64::new(0));
        watchers.counts.push(count.clone());
        let ended = watchers.ended.clone();
        watchers.readers.spawn(async move {
            while let Some(Ok(frame)) = body.frame().await {
                let events = counter.count(frame.data_ref().map_or(&[][..], Bytes::as_ref));
                let before = count.fetch_add(events, Ordering::Relaxed);
                if let Some(arrivals) = &arrivals {
                    arrivals.record(before, events);
                }
            }
            ended.fetch_add(1, Ordering::Relaxed);
            drop(connection);
        });
    }
}

/// Open watches. Dropping this value closes them.
pub(crate) struct Watchers {
    counts: Vec<Arc<AtomicU64>>,
    /// The number of watches that the server has closed.
    ended: Arc<AtomicU64>,
    readers: JoinSet<()>,
}

impl Watchers {
    /// The number of events received by all watchers together.
    pub(crate) fn events(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Waits until exactly `expected` events were received.
    ///
    /// # Errors
    /// Returns an error if there are more events, or fewer after the timeout or after the server has closed a watch.
    pub(crate) async fn wait_for(&self, expected: u64) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            // The count of ended watches is read first, because a watch may end after its last event.
            let ended = self.ended.load(Ordering::Relaxed);
            match self.events() {
                events if events == expected => return Ok(()),
                events if events > expected || ended > 0 || Instant::now() > deadline => {
                    let closed = format!("the server closed {ended} of {} watches", self.counts.len());
                    return Err(format!("received {events} events, expected {expected}; {closed}").into());
                }
                _ => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    }

    /// Closes all watches and waits until their connections are released.
    pub(crate) async fn close(mut self) {
        self.readers.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts events in chunks of every size. The chunk boundaries must not matter.
    fn check(framing: Framing, stream: &[u8], events: u64) {
        for size in 1..=stream.len() {
            let mut counter = EventCounter::new(framing);
            let count: u64 = stream.chunks(size).map(|chunk| counter.count(chunk)).sum();
            assert_eq!(count, events, "{framing:?} in chunks of {size}");
        }
    }

    #[test]
    fn events_are_counted_across_chunk_boundaries() {
        check(Framing::NewlineDelimited, b"{}\n{\"a\":1}\n{", 2);
        check(Framing::NewlineDelimited, "\n".repeat(1000).as_bytes(), 1000);
        check(Framing::LengthDelimited, b"\0\0\0\x02ab\0\0\0\x01c\0\0\0\x05de", 2);
        check(Framing::LengthDelimited, &[&[0, 0, 1, 0][..], &[7; 256], &[0, 0]].concat(), 1);
    }

    #[test]
    fn the_last_arrival_is_recorded() {
        let arrivals = EventArrivals::new();
        std::thread::sleep(Duration::from_millis(1));
        arrivals.record(0, 2);
        arrivals.record(0, 1);
        let (first, second) = (arrivals.latency_since(0, arrivals.began), arrivals.latency_since(1, arrivals.began));
        assert!(first >= second && second > Some(0));
        assert_eq!(arrivals.latency_since(2, arrivals.began), None);
    }
}
