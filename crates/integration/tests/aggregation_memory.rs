//! The memory that streams of other API servers use. This is a separate test program because it measures its process,
//! which includes the API server and the client.

use std::time::Duration;

use bytes::Bytes;
use pintle_integration::{
    Cluster, HttpsServer, ProcessMemory, Protocol, ReceivedRequest, ResponseStream, SERVICE_HOST, SentBody,
    SentResponse, run,
};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Sender, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::time::timeout;

/// The tests measure the same process.
static SERIAL: Mutex<()> = Mutex::const_new(());

const THINGS: &str = "/apis/x.example.com/v1/things";
/// The maximum growth of the memory, in bytes.
const MAX_GROWTH: usize = 64 << 20;
/// The size of the large body.
const BODY_SIZE: usize = 1 << 30;
/// The piece that the large body repeats. Its size is not a power of two, so a lost buffer is noticed.
const PIECE: &[u8] = &{
    let mut piece = [0; 60_000];
    let mut i = 0;
    while i < piece.len() {
        piece[i] = (i % 251) as u8;
        i += 1;
    }
    piece
};

/// An API server. For each request with `stream`, the test gets a channel for the pieces of the body.
async fn start_server(protocol: Protocol) -> (HttpsServer, UnboundedReceiver<Sender<Bytes>>) {
    let (sender, streams) = unbounded_channel();
    let answer = move |request: ReceivedRequest| answer(request, sender.clone());
    let server = match protocol {
        Protocol::Http1 => HttpsServer::start_with_names(&[SERVICE_HOST], answer).await,
        Protocol::Any => HttpsServer::start_with_http2(&[SERVICE_HOST], answer).await,
    };
    (server, streams)
}

async fn answer(request: ReceivedRequest, streams: UnboundedSender<Sender<Bytes>>) -> SentResponse {
    if !request.path.contains("stream") {
        return SentResponse::json(200, vec![b' '; 1 << 20]);
    }
    let (pieces, received) = channel(1);
    let _ = streams.send(pieces);
    SentResponse { body: SentBody::Pieces(received), ..SentResponse::json(200, "") }
}

/// The start of a measurement.
struct Measurement(Option<usize>);

impl Measurement {
    fn start() -> Self {
        ProcessMemory::reset_own_peak();
        Self(ProcessMemory::own().map(|memory| memory.resident))
    }

    /// Asserts that the memory has never grown much since the start.
    fn assert_small(self) {
        let Some((before, after)) = self.0.zip(ProcessMemory::own()) else { return };
        let growth = after.peak.saturating_sub(before);
        assert!(growth < MAX_GROWTH, "grew by {} KiB from {} KiB", growth >> 10, before >> 10);
    }
}

async fn open(cluster: &Cluster, protocol: Protocol) -> ResponseStream {
    let stream = cluster.client(protocol).request("GET", &format!("{THINGS}?watch=1&stream")).stream().await;
    stream.unwrap_or_else(|error| panic!("{error}")).expect("200 OK")
}

#[test]
fn a_large_body_needs_little_memory() {
    run(async {
        let _serial = SERIAL.lock().await;
        for protocol in [Protocol::Http1, Protocol::Any] {
            let cluster = Cluster::with_api_services().await;
            let (server, mut streams) = start_server(protocol).await;
            cluster.register_available(&server).await;
            let memory = Measurement::start();
            let mut stream = open(&cluster, protocol).await;
            let pieces = streams.recv().await.expect("a request");
            let producer = tokio::spawn(async move {
                let mut rest = BODY_SIZE;
                while rest > 0 {
                    let piece = &PIECE[..rest.min(PIECE.len())];
                    rest -= piece.len();
                    pieces.send(Bytes::from_static(piece)).await.expect("the client receives");
                }
            });
            let mut received = 0;
            while let Some(mut chunk) = stream.next().await.unwrap_or_else(|error| panic!("{error}")) {
                while !chunk.is_empty() {
                    let expect = &PIECE[received % PIECE.len()..];
                    let part = chunk.split_to(chunk.len().min(expect.len()));
                    assert!(expect.starts_with(&part), "other bytes at {received}");
                    received += part.len();
                }
            }
            assert_eq!(received, BODY_SIZE);
            producer.await.expect("no panic");
            memory.assert_small();
            cluster.stop().await;
        }
    });
}

/// How many events one piece of a watch has.
const EVENTS_PER_PIECE: usize = 50;
/// The number of events of a watch: as many as a fast API server sends in ten seconds.
const EVENTS: usize = 500_000;

/// Some events, which are numbered.
fn events(first: usize) -> Bytes {
    let event = |number: usize| {
        let name = format!("{number:07}");
        let pad = "x".repeat(100);
        format!("{{\"type\":\"MODIFIED\",\"object\":{{\"metadata\":{{\"name\":\"{name}\",\"pad\":\"{pad}\"}}}}}}\n")
    };
    (first..first + EVENTS_PER_PIECE).map(event).collect::<String>().into()
}

/// Sends events until the API server cannot send more. Returns their number.
async fn fill(pieces: &Sender<Bytes>) -> usize {
    let mut sent = 0;
    // Nothing announces that a body is stuck.
    while let Ok(slot) = timeout(Duration::from_secs(1), pieces.reserve()).await {
        slot.expect("the watch is open").send(events(sent));
        sent += EVENTS_PER_PIECE;
        assert!(sent < EVENTS, "nothing holds the API server back");
    }
    sent
}

#[test]
fn events_for_slow_clients_wait_at_the_api_server() {
    run(async {
        let _serial = SERIAL.lock().await;
        for protocol in [Protocol::Http1, Protocol::Any] {
            let cluster = Cluster::with_api_services().await;
            let (server, mut streams) = start_server(protocol).await;
            cluster.register_available(&server).await;
            let memory = Measurement::start();
            let mut watches = Vec::new();
            for _ in 0..3 {
                let watch = open(&cluster, protocol).await;
                let pieces = streams.recv().await.expect("a request");
                watches.push((watch, fill(&pieces).await, pieces));
            }
            // Other requests do not wait, neither for this server nor for the API server.
            let _ = cluster.get("/api/v1/namespaces/default").await.expect(200);
            assert_eq!(cluster.get(THINGS).await.expect(200).body.len(), 1 << 20);
            // The clients get each event.
            for (mut watch, mut sent, pieces) in watches {
                let producer = tokio::spawn(async move {
                    while sent < EVENTS {
                        pieces.send(events(sent)).await.expect("the watch is open");
                        sent += EVENTS_PER_PIECE;
                    }
                });
                let (mut received, mut expect) = (0, Bytes::new());
                while let Some(mut chunk) = watch.next().await.unwrap_or_else(|error| panic!("{error}")) {
                    while !chunk.is_empty() {
                        if expect.is_empty() {
                            expect = events(received);
                            received += EVENTS_PER_PIECE;
                        }
                        let length = chunk.len().min(expect.len());
                        assert_eq!(chunk.split_to(length), expect.split_to(length), "an event before {received}");
                    }
                }
                assert_eq!((received, expect.len()), (EVENTS, 0));
                producer.await.expect("no panic");
            }
            memory.assert_small();
            cluster.stop().await;
        }
    });
}
