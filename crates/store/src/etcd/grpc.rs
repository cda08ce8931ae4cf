//! Calls of gRPC, written directly to the connection: with one message each way, or with a stream of messages each way.
//!
//! General gRPC clients pass messages through bodies, buffers and layers of middleware, which cost more than the rest
//! of a call. The format is gRPC's over HTTP/2 (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).
//! Compression is neither offered nor accepted.

use std::borrow::Cow;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::ResponseFuture;
use h2::{RecvStream, SendStream};
use http::header::{CONTENT_TYPE, HeaderName, TE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, Version};
use percent_encoding::percent_decode;
use prost::Message;

use super::connection::{ConnectionError, MemberConnection, SentRequest};

/// The length of a message's prefix: a byte that tells whether the message is compressed, and the length in four bytes.
const PREFIX_LENGTH: usize = 5;
/// The maximum memory that is reserved for a message at once, in bytes, whatever length its prefix says.
const MAX_RESERVED: usize = 16 << 20;
/// The headers with the code and the text of a status.
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const STATUS_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum GrpcError {
    /// The request or the response did not arrive.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The member answered with an error.
    #[error("{0}")]
    Status(Status),
    /// The response is no gRPC response, or not the expected message. The text is the reason.
    #[error("{0}")]
    Malformed(String),
    /// A message is longer than gRPC allows.
    #[error("the message is larger than 4 GiB")]
    TooLarge,
}

/// The error with which a call ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct Status {
    pub(super) code: Code,
    pub(super) message: String,
}

/// The code of a status (gRPC: `doc/statuscodes.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(u16);

impl Code {
    pub(super) const INVALID_ARGUMENT: Self = Self(3);
    pub(super) const DEADLINE_EXCEEDED: Self = Self(4);
    pub(super) const PERMISSION_DENIED: Self = Self(7);
    pub(super) const UNIMPLEMENTED: Self = Self(12);
    pub(super) const UNAUTHENTICATED: Self = Self(16);
    const OK: Self = Self(0);
    const UNKNOWN: Self = Self(2);
}

impl Status {
    /// The status in the headers before or after a body, if the headers have one.
    fn find(headers: &HeaderMap) -> Option<Result<(), Self>> {
        let code = headers.get(STATUS)?.to_str().ok().and_then(|code| code.parse().ok());
        let code = code.map_or(Code::UNKNOWN, Code);
        if code == Code::OK {
            return Some(Ok(()));
        }
        let message = headers.get(STATUS_MESSAGE).map(|message| percent_decode(message.as_bytes()).decode_utf8_lossy());
        let message = message.filter(|message| !message.is_empty()).map(Cow::into_owned);
        Some(Err(Self { code, message: message.unwrap_or_else(|| format!("gRPC status {}", code.0)) }))
    }
}

/// A message in its wire form. It can be sent again.
#[derive(Clone, Debug)]
pub(super) struct EncodedMessage(Bytes);

impl EncodedMessage {
    /// # Errors
    /// The message is too large.
    pub(super) fn new(message: &impl Message) -> Result<Self, GrpcError> {
        let length = message.encoded_len();
        let prefix = u32::try_from(length).map_err(|_| GrpcError::TooLarge)?;
        let mut bytes = BytesMut::with_capacity(PREFIX_LENGTH + length);
        bytes.put_u8(0);
        bytes.put_u32(prefix);
        message.encode(&mut bytes).map_err(|_| GrpcError::TooLarge)?;
        Ok(Self(bytes.freeze()))
    }
}

/// The head of a call of a method.
fn head(origin: &Uri, method: &'static str) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    let mut uri = origin.clone().into_parts();
    uri.path_and_query = Some(PathAndQuery::from_static(method));
    // A URL stays valid with another path.
    *request.uri_mut() = Uri::from_parts(uri).unwrap_or_default();
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(TE, HeaderValue::from_static("trailers"));
    request
}

/// Calls a method with one message each way.
///
/// # Errors
/// See [`GrpcError`].
pub(super) async fn call<A: Message + Default>(
    connection: &MemberConnection,
    method: &'static str,
    message: EncodedMessage,
) -> Result<A, GrpcError> {
    let head = head(connection.origin(), method);
    let connection = connection.open().await?;
    let _open = connection.begin_call();
    let SentRequest { mut body, response } = connection.send(head)?;
    // If sending fails, the response has the error.
    let _ = body.send_data(message.0, true);
    let mut responses = ResponseStream::of(response).await?;
    let response =
        responses.next().await?.ok_or_else(|| GrpcError::Malformed("etcd's response has no message".to_owned()))?;
    match responses.next_bytes().await? {
        None => Ok(response),
        Some(_) => Err(GrpcError::Malformed("etcd's response has several messages".to_owned())),
    }
}

/// A call with a stream of messages each way. The call ends when this value is dropped.
#[derive(Debug)]
pub(super) struct GrpcStream {
    requests: SendStream<Bytes>,
    responses: ResponseStream,
}

impl GrpcStream {
    /// Calls a method with a first message, and waits for the head of its responses. `metadata` are headers.
    ///
    /// # Errors
    /// See [`GrpcError`].
    pub(super) async fn open(
        connection: &MemberConnection,
        method: &'static str,
        metadata: &[(&'static str, &'static str)],
        first: &impl Message,
    ) -> Result<Self, GrpcError> {
        let mut head = head(connection.origin(), method);
        for (name, value) in metadata {
            head.headers_mut().insert(*name, HeaderValue::from_static(value));
        }
        let message = EncodedMessage::new(first)?;
        let SentRequest { body: mut requests, response } = connection.open().await?.send(head)?;
        // If sending fails, the response has the error.
        let _ = requests.send_data(message.0, false);
        Ok(Self { requests, responses: ResponseStream::of(response).await? })
    }

    /// Sends a message. The message waits in the connection until the other end takes it.
    ///
    /// # Errors
    /// The stream has ended, or the message is too large.
    pub(super) fn send(&mut self, message: &impl Message) -> Result<(), GrpcError> {
        let sent = self.requests.send_data(EncodedMessage::new(message)?.0, false);
        sent.map_err(|error| ConnectionError::of_response(&error).into())
    }

    /// The next response, or `None` at the end. No response is lost if the future is dropped.
    ///
    /// # Errors
    /// The status with which the stream ended. See also [`GrpcError`].
    pub(super) async fn next<A: Message + Default>(&mut self) -> Result<Option<A>, GrpcError> {
        self.responses.next().await
    }
}

/// The messages of a response.
#[derive(Debug)]
struct ResponseStream {
    body: RecvStream,
    received: ReceiveBuffer,
}

impl ResponseStream {
    /// Waits for the head of a response.
    async fn of(response: ResponseFuture) -> Result<Self, GrpcError> {
        let response = response.await.map_err(|error| ConnectionError::of_request(&error))?;
        // A call that fails at once has its status in the head.
        if let Some(status) = Status::find(response.headers()) {
            status.map_err(GrpcError::Status)?;
        }
        let content_type = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        match response.status() {
            StatusCode::OK if content_type.starts_with(b"application/grpc") => {
                Ok(Self { body: response.into_body(), received: ReceiveBuffer::default() })
            }
            status => {
                let content_type = content_type.escape_ascii();
                let reason =
                    format!("etcd's response is not gRPC: HTTP status {status}, content type '{content_type}'");
                Err(GrpcError::Malformed(reason))
            }
        }
    }

    async fn next<A: Message + Default>(&mut self) -> Result<Option<A>, GrpcError> {
        let Some(bytes) = self.next_bytes().await? else { return Ok(None) };
        match A::decode(bytes) {
            Ok(message) => Ok(Some(message)),
            Err(error) => Err(GrpcError::Malformed(format!("etcd's response is not valid: {error}"))),
        }
    }

    async fn next_bytes(&mut self) -> Result<Option<Bytes>, GrpcError> {
        loop {
            if let Some(message) = self.received.take_message()? {
                return Ok(Some(message));
            }
            let Some(data) = self.body.data().await else { break };
            let data = data.map_err(|error| ConnectionError::of_response(&error))?;
            let released = self.body.flow_control().release_capacity(data.len());
            released.map_err(|error| ConnectionError::of_response(&error))?;
            self.received.push(data);
        }
        let trailers = self.body.trailers().await.map_err(|error| ConnectionError::of_response(&error))?;
        match trailers.as_ref().and_then(Status::find) {
            Some(status) => status.map_err(GrpcError::Status)?,
            None => return Err(GrpcError::Malformed("etcd's response has no status".to_owned())),
        }
        match self.received.is_empty() {
            true => Ok(None),
            false => Err(GrpcError::Malformed("etcd's response ends within a message".to_owned())),
        }
    }
}

/// Received bytes. A message that arrives in one piece, as most messages do, is not copied.
#[derive(Debug, Default)]
struct ReceiveBuffer {
    piece: Bytes,
    /// All bytes, if a message has several pieces.
    joined: BytesMut,
}

impl ReceiveBuffer {
    fn is_empty(&self) -> bool {
        self.piece.is_empty() && self.joined.is_empty()
    }

    fn push(&mut self, data: Bytes) {
        if self.is_empty() {
            self.piece = data;
            return;
        }
        let piece = std::mem::take(&mut self.piece);
        if self.joined.is_empty() {
            let length = length_with_prefix(&piece).unwrap_or_default();
            self.joined.reserve(length.min(MAX_RESERVED).max(piece.len() + data.len()));
            self.joined.extend_from_slice(&piece);
        }
        self.joined.extend_from_slice(&data);
    }

    /// The next message, once it is complete.
    fn take_message(&mut self) -> Result<Option<Bytes>, GrpcError> {
        let bytes = if self.joined.is_empty() { &self.piece[..] } else { &self.joined };
        if bytes.first().is_some_and(|compressed| *compressed != 0) {
            return Err(GrpcError::Malformed("etcd's response is compressed".to_owned()));
        }
        let Some(length) = length_with_prefix(bytes).filter(|length| bytes.len() >= *length) else { return Ok(None) };
        let mut message = match self.joined.is_empty() {
            true => self.piece.split_to(length),
            false => self.joined.split_to(length).freeze(),
        };
        message.advance(PREFIX_LENGTH);
        Ok(Some(message))
    }
}

/// The length of a message with its prefix, once the prefix is complete.
fn length_with_prefix(bytes: &[u8]) -> Option<usize> {
    let length = bytes.get(1..)?.first_chunk::<4>()?;
    usize::try_from(u32::from_be_bytes(*length)).ok()?.checked_add(PREFIX_LENGTH)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use h2::Reason;
    use h2::server::{Connection, SendResponse};
    use http::Response;
    use pintle_outbound::Dialer;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;

    use super::*;
    use crate::etcd::api::LeaseStatus;

    /// The response of a member to a call.
    #[derive(Clone, Copy)]
    enum FakeResponse {
        /// Messages, and a status unless it is empty.
        Messages(&'static [&'static [u8]], &'static str),
        /// A status without a message.
        Status(&'static str),
        NotGrpc,
        /// A reset of the stream at once, or after the head.
        Reset(Reason, bool),
        Nothing,
    }

    /// The only message of the responses. Its one field is five.
    const FIVE: &[u8] = &[0, 0, 0, 0, 2, 8, 5];

    /// A member that gives these responses to the calls of its connection. It keeps calls without a response open.
    async fn member(responses: &'static [FakeResponse]) -> (MemberConnection, JoinHandle<()>) {
        let (connection, listener) = listening().await;
        let serve = async move {
            let (stream, _) = listener.accept().await.expect("a connection");
            let mut connection: Connection<TcpStream, Bytes> = h2::server::handshake(stream).await.expect("HTTP/2");
            let (mut responses, mut open) = (responses.iter(), Vec::new());
            while let Some(Ok((request, respond))) = connection.accept().await {
                open.push((request, respond));
                if let (Some(response), Some((_, respond))) = (responses.next(), open.last_mut()) {
                    send(*response, respond);
                }
            }
        };
        (connection, tokio::spawn(serve))
    }

    async fn listening() -> (MemberConnection, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let url: Uri = format!("http://{}", listener.local_addr().expect("an address")).parse().expect("a URL");
        (MemberConnection::new(&url, Dialer::Direct, || Err(String::new())).expect("a connection"), listener)
    }

    /// True if the bytes that a client has sent contain the frame of a call's head.
    fn has_call(mut received: &[u8]) -> bool {
        const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        const HEADERS: u8 = 1;
        received = received.get(PREFACE.len()..).unwrap_or_default();
        while let [high, middle, low, kind, ..] = *received {
            if kind == HEADERS {
                return true;
            }
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            received = received.get(9 + length..).unwrap_or_default();
        }
        false
    }

    fn send(response: FakeResponse, respond: &mut SendResponse<Bytes>) {
        let grpc = || Response::builder().header("content-type", "application/grpc+proto");
        match response {
            FakeResponse::Messages(pieces, status) => {
                let mut body = respond.send_response(grpc().body(()).unwrap(), false).unwrap();
                for piece in pieces {
                    body.send_data(Bytes::from_static(piece), false).unwrap();
                }
                let trailers = (!status.is_empty()).then(|| headers(&[("grpc-status", status)]));
                body.send_trailers(trailers.unwrap_or_default()).unwrap();
            }
            FakeResponse::Status(code) => {
                let head = grpc().header("grpc-status", code).header("grpc-message", "no").body(()).unwrap();
                respond.send_response(head, true).unwrap();
            }
            FakeResponse::NotGrpc => {
                let head = Response::builder().header("content-type", "text/html").body(()).unwrap();
                respond.send_response(head, false).unwrap().send_data("<html>".into(), true).unwrap();
            }
            FakeResponse::Reset(reason, false) => respond.send_reset(reason),
            FakeResponse::Reset(reason, true) => {
                let mut body = respond.send_response(grpc().body(()).unwrap(), false).unwrap();
                // A reset discards data that was not yet sent. The runtime has one thread, so this task begins when the
                // task of the connection has sent the head and waits.
                tokio::spawn(async move { body.send_reset(reason) });
            }
            FakeResponse::Nothing => {}
        }
    }

    async fn call(connection: &MemberConnection) -> Result<i64, GrpcError> {
        let message = EncodedMessage::new(&LeaseStatus { id: 1 })?;
        super::call::<LeaseStatus>(connection, "/etcdserverpb.KV/Txn", message).await.map(|response| response.id)
    }

    #[tokio::test]
    async fn responses_and_errors_are_told_apart() {
        const RESPONSES: &[FakeResponse] = &[
            FakeResponse::Messages(&[FIVE], "0"),
            FakeResponse::Messages(&[&[0, 0, 0], &[0, 2, 8], &[5]], "0"),
            FakeResponse::Status("14"),
            FakeResponse::Messages(&[FIVE], "9"),
            FakeResponse::Messages(&[FIVE], ""),
            FakeResponse::Messages(&[], "0"),
            FakeResponse::Messages(&[FIVE, FIVE], "0"),
            FakeResponse::Messages(&[&[0, 0, 0, 0, 2, 8]], "0"),
            FakeResponse::Messages(&[&[0, 0, 0, 0, 1, 8]], "0"),
            FakeResponse::NotGrpc,
            FakeResponse::Reset(Reason::REFUSED_STREAM, false),
            FakeResponse::Reset(Reason::REFUSED_STREAM, true),
            FakeResponse::Reset(Reason::INTERNAL_ERROR, false),
        ];
        let (connection, _member) = member(RESPONSES).await;
        let mut responses = Vec::new();
        for _ in RESPONSES {
            responses.push(match call(&connection).await {
                Ok(number) => number.to_string(),
                Err(GrpcError::Status(Status { code, message })) => format!("status {}: {message}", code.0),
                Err(GrpcError::Malformed(why)) => format!("malformed: {why}"),
                Err(GrpcError::Connection(ConnectionError::NotSent(_))) => "not sent".to_owned(),
                Err(GrpcError::Connection(ConnectionError::Lost(_))) => "lost".to_owned(),
                Err(GrpcError::TooLarge) => "too large".to_owned(),
            });
        }
        let expect = [
            "5",
            "5",
            "status 14: no",
            "status 9: gRPC status 9",
            "malformed: etcd's response has no status",
            "malformed: etcd's response has no message",
            "malformed: etcd's response has several messages",
            "malformed: etcd's response ends within a message",
            "malformed: etcd's response is not valid: failed to decode Protobuf message: LeaseStatus.id: invalid varint",
            "malformed: etcd's response is not gRPC: HTTP status 200 OK, content type 'text/html'",
            "not sent",
            "lost",
            "lost",
        ];
        assert_eq!(responses, expect);
    }

    #[tokio::test]
    async fn a_call_that_nobody_waits_for_any_more_leaves_the_connection_as_it_was() {
        const RESPONSES: &[FakeResponse] = &[FakeResponse::Nothing, FakeResponse::Messages(&[FIVE], "0")];
        let (connection, _member) = member(RESPONSES).await;
        let waited = tokio::time::timeout(Duration::from_millis(50), call(&connection)).await;
        assert!(waited.is_err(), "{waited:?}");
        assert_eq!(call(&connection).await.expect("a response"), 5);
    }

    #[tokio::test]
    async fn a_member_that_goes_away_says_which_calls_it_has_not_looked_at() {
        for (last_stream, expect) in [(0, "not sent"), (1, "lost")] {
            let (connection, listener) = listening().await;
            let serve = async move {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
                stream.write_all(&settings).await.expect("written");
                let (mut received, mut buffer) = (Vec::new(), [0; 1024]);
                while !has_call(&received) {
                    let length = stream.read(&mut buffer).await.expect("read");
                    received.extend_from_slice(&buffer[..length]);
                }
                let go_away = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, last_stream, 0, 0, 0, 0];
                stream.write_all(&go_away).await.expect("written");
            };
            let (result, ()) = tokio::join!(call(&connection), serve);
            let result = match result {
                Err(GrpcError::Connection(ConnectionError::NotSent(_))) => "not sent",
                Err(GrpcError::Connection(ConnectionError::Lost(_))) => "lost",
                other => panic!("{other:?}"),
            };
            assert_eq!(result, expect, "the last stream is {last_stream}");
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_status_has_a_code_and_a_message() {
        assert_eq!(Status::find(&headers(&[])), None);
        assert_eq!(Status::find(&headers(&[("grpc-status", "0"), ("grpc-message", "fine")])), Some(Ok(())));
        let error = |code, message: &str| Some(Err(Status { code, message: message.to_owned() }));
        let pairs = [("grpc-status", "3"), ("grpc-message", "100%25 of %C3%A4")];
        assert_eq!(Status::find(&headers(&pairs)), error(Code::INVALID_ARGUMENT, "100% of ä"));
        assert_eq!(Status::find(&headers(&[("grpc-status", "x")])), error(Code::UNKNOWN, "gRPC status 2"));
    }

    #[test]
    fn heads_name_the_method() {
        let request = head(&Uri::from_static("https://etcd-0:2379/"), "/etcdserverpb.KV/Txn");
        assert_eq!(request.uri(), "https://etcd-0:2379/etcdserverpb.KV/Txn");
        assert_eq!(request.headers(), &headers(&[("content-type", "application/grpc"), ("te", "trailers")]));
    }

    #[test]
    fn messages_are_found_whatever_pieces_they_arrive_in() {
        // The first message is empty.
        let sent: Vec<LeaseStatus> = [0, 1, 1 << 20, 0, i64::MAX].map(|id| LeaseStatus { id }).into();
        let encoded = |message| EncodedMessage::new(message).expect("a short message").0;
        let bytes: Vec<u8> = sent.iter().flat_map(encoded).collect();
        for size in 1..=bytes.len() {
            let (mut received, mut found) = (ReceiveBuffer::default(), Vec::new());
            for piece in bytes.chunks(size) {
                received.push(Bytes::copy_from_slice(piece));
                while let Some(message) = received.take_message().expect("no compression") {
                    found.push(message);
                }
            }
            assert!(received.is_empty(), "pieces of {size} bytes");
            let found: Vec<LeaseStatus> = found.into_iter().map(|found| Message::decode(found).expect("one")).collect();
            assert_eq!(found, sent, "pieces of {size} bytes");
        }
        let mut received = ReceiveBuffer::default();
        received.push(Bytes::from_static(&[1, 0, 0, 0, 0]));
        assert!(received.take_message().is_err());
    }
}
