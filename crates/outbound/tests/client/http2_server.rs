//! An HTTP/2 server whose frames a test sends and receives one by one (RFC 9113).

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::support::acceptor;

/// The first bytes from a client.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames.
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;

/// Flags of frames.
const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Error codes.
pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const PROTOCOL_ERROR: u32 = 1;
pub(crate) const INTERNAL_ERROR: u32 = 2;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const CANCEL: u32 = 8;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

/// The setting that limits the number of streams.
const MAX_CONCURRENT_STREAMS: u16 = 3;

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// Accepts connections.
pub(crate) struct FrameServer {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    /// `HOST:PORT`.
    pub(crate) address: String,
}

impl FrameServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        Self { listener, acceptor: acceptor(&["h2"]), address }
    }

    /// The next connection, after the preface and the server's settings, which limit the number of streams.
    pub(crate) async fn accept(&self, max_streams: u32) -> FrameConnection {
        let (stream, _) = self.listener.accept().await.expect("a connection");
        let stream = self.acceptor.accept(stream).await.expect("a handshake");
        let mut connection = FrameConnection { stream, answers_pings: true };
        let mut preface = [0; PREFACE.len()];
        connection.stream.read_exact(&mut preface).await.expect("a preface");
        assert_eq!(preface, PREFACE);
        let setting = [&MAX_CONCURRENT_STREAMS.to_be_bytes()[..], &max_streams.to_be_bytes()].concat();
        connection.send(SETTINGS, 0, 0, &setting).await;
        connection
    }
}

/// A connection of the server.
pub(crate) struct FrameConnection {
    stream: TlsStream<TcpStream>,
    pub(crate) answers_pings: bool,
}

impl FrameConnection {
    pub(crate) async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
        let frame = [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat();
        self.stream.write_all(&frame).await.expect("an open connection");
        self.stream.flush().await.expect("an open connection");
    }

    /// The next frame.
    ///
    /// # Errors
    /// The connection has ended.
    async fn receive(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload).await?;
        Ok(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// The next frame of a type; `None` if the connection has ended. Skips other frames, but acknowledges settings and
    /// pings.
    pub(crate) async fn next(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.receive().await.ok()?;
            if frame.kind == SETTINGS && frame.flags & ACK == 0 {
                self.send(SETTINGS, ACK, 0, &[]).await;
            }
            if frame.kind == PING && self.answers_pings {
                self.send(PING, ACK, 0, &frame.payload).await;
            }
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// Receives the head of the next request. Returns its stream.
    pub(crate) async fn request(&mut self) -> u32 {
        self.next(HEADERS).await.expect("a request").stream
    }

    /// Responds with the status 200 and a body.
    pub(crate) async fn respond(&mut self, stream: u32, body: &str) {
        // The status 200 is entry 8 of the static table (RFC 7541, appendix A).
        self.send(HEADERS, END_HEADERS, stream, &[0x88]).await;
        self.send(DATA, END_STREAM, stream, body.as_bytes()).await;
    }

    /// Sends the head of a response with the status 200.
    pub(crate) async fn send_head(&mut self, stream: u32) {
        self.send(HEADERS, END_HEADERS, stream, &[0x88]).await;
    }

    /// Sends the head of a response with the status 200 and a length of 100 bytes, and a part of the body.
    pub(crate) async fn send_part(&mut self, stream: u32, part: &str) {
        // The name `content-length` is entry 28 of the static table. The value is a literal of three bytes.
        self.send(HEADERS, END_HEADERS, stream, b"\x88\x0f\x0d\x03100").await;
        self.send(DATA, 0, stream, part.as_bytes()).await;
    }

    pub(crate) async fn reset(&mut self, stream: u32, code: u32) {
        self.send(RST_STREAM, 0, stream, &code.to_be_bytes()).await;
    }

    /// Announces that streams after the last one are not processed.
    pub(crate) async fn go_away(&mut self, last_stream: u32, code: u32) {
        let payload = [last_stream.to_be_bytes(), code.to_be_bytes()].concat();
        self.send(GOAWAY, 0, 0, &payload).await;
    }

    /// The body of the request on a stream.
    pub(crate) async fn request_body(&mut self, stream: u32) -> String {
        let mut body = Vec::new();
        loop {
            let frame = self.next(DATA).await.expect("a frame");
            assert_eq!(frame.stream, stream);
            body.extend(frame.payload);
            if frame.flags & END_STREAM != 0 {
                return String::from_utf8(body).expect("text");
            }
        }
    }
}
