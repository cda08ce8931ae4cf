//! Exec and attach of clients over WebSockets, translated to SPDY for kubelets that only speak SPDY (upstream:
//! `util/proxy.StreamTranslatorHandler`, and the executor of client-go's `tools/remotecommand`). Each channel of the
//! WebSocket is a stream of SPDY.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{Peekable, SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{CONNECTION, HeaderValue, UPGRADE};
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt as _, Empty};
use pintle_outbound::{Client, ResponseBody, StreamOptions, UpgradeResponse, UpgradedStream};
use pintle_registry::ApiError;
use pintle_spdy::{Decoder, Encoder, Frame};
use pintle_value::{Value, object};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;

use super::Location;
use super::copy::{ClientStream, take_over};
use super::tunnel::STREAM_PROTOCOL;
use super::upgrade::uri_of;
use super::websocket::{Socket, normal_end, offered_protocols, open};
use crate::context::RequestContext;
use crate::http::Response;
use crate::read::{check_opening, switching_protocols};
use crate::represent::status::error_status;
use crate::represent::typed_json;

/// The subprotocol that is translated. Other subprotocols are passed on, because their clients cannot end one channel
/// alone.
const PROTOCOL: &str = "v5.channel.k8s.io";
/// The protocols inside SPDY that the server offers to kubelets.
const SPDY_PROTOCOLS: [&str; 5] =
    [PROTOCOL, "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];
/// The first byte of the message that ends a channel.
const CLOSE_SIGNAL: u8 = 255;
/// The number of channels.
const CHANNELS: u8 = 5;
/// The interval between pings to the kubelet.
const PING_PERIOD: Duration = Duration::from_secs(5);
/// The time without activity after which the connection ends (upstream: `defaultIdleConnectionTimeout`).
const IDLE_TIME: Duration = Duration::from_secs(4 * 3600);
/// Time limit for the last message (upstream: `writeErrorDeadline`).
const STATUS_TIME: Duration = Duration::from_secs(10);
/// Maximum size of the kubelet's message about the end of the command, in bytes.
const MAX_RESULT_BYTES: usize = 1 << 20;
/// Maximum number of waiting answers to frames of the kubelet; further answers are dropped.
const MAX_ANSWERS: usize = 16;
/// Maximum number of the kubelet's bytes that are read at once.
const READ_BYTES: usize = 32 * 1024;

/// The channels of the WebSocket (upstream: `util/remotecommand`).
mod channel {
    pub(super) const STDIN: u8 = 0;
    pub(super) const STDOUT: u8 = 1;
    pub(super) const STDERR: u8 = 2;
    pub(super) const ERROR: u8 = 3;
    pub(super) const RESIZE: u8 = 4;
}

/// The streams that a client wants.
#[derive(Clone, Copy, Debug)]
struct WantedStreams {
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
}

impl WantedStreams {
    fn of(options: &Value) -> Self {
        let is_set = |name| options.bool_at(&[name]);
        Self { stdin: is_set("stdin"), stdout: is_set("stdout"), stderr: is_set("stderr"), tty: is_set("tty") }
    }

    /// The channels with the types of their streams, in the order in which they are opened.
    fn channels(self) -> Vec<(u8, &'static str)> {
        let mut channels = vec![(channel::ERROR, "error")];
        channels.extend(self.stdin.then_some((channel::STDIN, "stdin")));
        channels.extend(self.stdout.then_some((channel::STDOUT, "stdout")));
        channels.extend((self.stderr && !self.tty).then_some((channel::STDERR, "stderr")));
        channels.extend(self.tty.then_some((channel::RESIZE, "resize")));
        channels
    }

    /// The channel on which the client learns that the connection is established.
    fn first_channel(self) -> u8 {
        match (self.stdout, self.stderr) {
            (true, _) => channel::STDOUT,
            (_, true) => channel::STDERR,
            _ => channel::ERROR,
        }
    }
}

/// True if a client asks for a WebSocket that is translated.
pub(super) fn is_wanted(request: &RequestContext) -> bool {
    offered_protocols(&request.headers).contains(&PROTOCOL)
}

/// Connects a client with a kubelet. As in upstream, the WebSocket begins before the server calls the kubelet. Errors
/// are sent on the error channel.
pub(super) fn translate(
    request: &Arc<RequestContext>,
    client: Client,
    location: Location,
    options: &Value,
) -> Result<Response, ApiError> {
    let wanted = WantedStreams::of(options);
    let rejected = |response| {
        request.cluster.metrics.connections().record_translated(400);
        Ok(response)
    };
    let key = match check_opening(&request.method, &request.headers) {
        Ok(key) => key,
        Err(rejection) => return rejected(rejection),
    };
    let Some(upgrade) = request.upgrade() else {
        return Err(ApiError::Unclassified("request connection cannot be hijacked".to_owned()));
    };
    let response = switching_protocols(key, PROTOCOL);
    let context = request.clone();
    Ok(take_over(request, upgrade, response, move |stream| serve(context, stream, client, location, wanted)))
}

/// The outcome of a command.
enum Outcome {
    Success,
    /// The command has an exit code other than 0.
    Exited(u8),
    /// The command could not be run, or the connection failed.
    Failed(Failure),
}

/// The reason why a command could not be run.
enum Failure {
    /// The `Status` that the kubelet sent.
    Status(Value),
    Message(String),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

/// Serves a client until its command has ended or the client has disconnected.
async fn serve(
    request: Arc<RequestContext>,
    stream: ClientStream,
    client: Client,
    location: Location,
    wanted: WantedStreams,
) {
    let mut socket = open(stream).await;
    if socket.send(Message::Binary(Bytes::copy_from_slice(&[wanted.first_channel()]))).await.is_err() {
        return;
    }
    let (to_client, from_client) = socket.split();
    let mut from_client = from_client.peekable();
    let to_client = Mutex::new(to_client);
    let connected = tokio::select! {
        connected = connect(&client, &location) => connected,
        () = departure(&mut from_client) => return,
    };
    let outcome = match connected {
        Ok(backend) => run(backend, &to_client, &mut from_client, wanted).await,
        Err(failure) => Some(Outcome::Failed(failure)),
    };
    // Without an outcome, the client has disconnected.
    let Some(outcome) = outcome else { return };
    let (code, status) = status_of(outcome);
    request.cluster.metrics.connections().record_translated(code);
    let mut message = BytesMut::from(&[channel::ERROR][..]);
    message.extend_from_slice(&typed_json(&request.cluster, "meta/v1.Status", &status));
    let mut to_client = to_client.into_inner();
    let ending = async {
        let _ = to_client.send(Message::Binary(message.freeze())).await;
        let _ = to_client.send(normal_end()).await;
        let _ = to_client.close().await;
        // If the server closed the connection before its client does, TCP would reset it. Then the client would lose
        // bytes that it has not read yet.
        while let Some(Ok(_)) = from_client.next().await {}
    };
    let _ = timeout(STATUS_TIME, ending).await;
}

/// The code of an outcome in metrics, and the status that the client gets.
fn status_of(outcome: Outcome) -> (u16, Value) {
    match outcome {
        Outcome::Success => (200, object! { "metadata": Value::object(), "status": "Success" }),
        Outcome::Exited(code) => {
            let message =
                format!("command terminated with non-zero exit code: command terminated with exit code {code}");
            let cause = object! { "reason": "ExitCode", "message": code.to_string() };
            let status = object! {
                "metadata": Value::object(),
                "status": "Failure",
                "message": message,
                "reason": "NonZeroExitCode",
                "details": object! { "causes": vec![cause] },
            };
            (200, status)
        }
        Outcome::Failed(Failure::Status(status)) => {
            let code = status.int_at(&["code"]).and_then(|code| u16::try_from(code).ok()).unwrap_or_default();
            (code, status)
        }
        Outcome::Failed(Failure::Message(message)) => {
            let mut status = error_status(&ApiError::Internal(message)).status;
            status.remove("kind");
            status.remove("apiVersion");
            (500, status)
        }
    }
}

/// Asks a kubelet for SPDY (upstream: `spdy.NegotiateStreaming`).
async fn connect(client: &Client, location: &Location) -> Result<UpgradedStream, Failure> {
    let mut outgoing = Request::new(Empty::new());
    *outgoing.method_mut() = Method::POST;
    *outgoing.uri_mut() = uri_of(location).map_err(|error| error.to_string())?;
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    for protocol in SPDY_PROTOCOLS {
        headers.append(STREAM_PROTOCOL, HeaderValue::from_static(protocol));
    }
    *outgoing.headers_mut() = headers;
    let options = StreamOptions { dial_address: location.dial_address.as_ref(), ..StreamOptions::default() };
    let answer = client.upgrade(outgoing, options).await;
    match answer.map_err(|error| format!("error sending request: {error}"))? {
        UpgradeResponse::Upgraded(response) => {
            let value = |name: http::HeaderName| crate::http::joined_headers(response.headers(), &name).to_lowercase();
            if !value(CONNECTION).contains("upgrade") || !value(UPGRADE).contains("spdy/3.1") {
                return Err("unable to upgrade connection: missing upgrade headers in response".to_owned().into());
            }
            Ok(response.into_body())
        }
        UpgradeResponse::NotUpgraded(response) if response.status().is_redirection() => {
            let uri = uri_of(location).map(|uri| uri.to_string()).unwrap_or_default();
            let url = pintle_value::print::quote(&uri);
            Err(format!("error sending request: Post {url}: redirect not allowed").into())
        }
        UpgradeResponse::NotUpgraded(response) => Err(refusal(response.into_body()).await),
    }
}

/// The failure in a kubelet's answer: a `Status`, or text.
async fn refusal(mut body: ResponseBody) -> Failure {
    let mut bytes = BytesMut::new();
    while bytes.len() < MAX_RESULT_BYTES
        && let Some(Ok(frame)) = body.frame().await
    {
        bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
    }
    let decoded = pintle_codec::json::decode(&bytes, pintle_codec::json::DecodeOptions::default());
    match decoded {
        Ok(decoded) if decoded.value.kind() == "Status" && decoded.value.api_version() == "v1" => {
            let mut status = decoded.value;
            status.remove("kind");
            status.remove("apiVersion");
            Failure::Status(status)
        }
        _ => {
            let text = String::from_utf8_lossy(&bytes);
            format!("unable to upgrade connection: {}", text.trim()).into()
        }
    }
}

/// The sending side of the connection with a kubelet.
struct ToBackend {
    stream: WriteHalf<UpgradedStream>,
    encoder: Encoder,
}

impl ToBackend {
    async fn send(&mut self, frame: &Frame) -> Result<(), Failure> {
        let mut bytes = BytesMut::new();
        self.encoder.encode(frame, &mut bytes).map_err(|error| error.to_string())?;
        let written = async {
            self.stream.write_all(&bytes).await?;
            self.stream.flush().await
        };
        written.await.map_err(|error| Failure::Message(error.to_string()))
    }
}

/// The time of the last activity on the connection with a client. Frames with which a kubelet keeps its own connection
/// open do not count.
struct LastActivity {
    started: Instant,
    /// The time in milliseconds after the start.
    last: AtomicU64,
}

impl LastActivity {
    fn new() -> Self {
        Self { started: Instant::now(), last: AtomicU64::new(0) }
    }

    fn record(&self) {
        self.last.store(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Completes when the connection has been idle for too long.
    async fn idle(&self) {
        loop {
            let due = self.started + Duration::from_millis(self.last.load(Ordering::Relaxed)) + IDLE_TIME;
            if due <= Instant::now() {
                return;
            }
            sleep_until(due).await;
        }
    }
}

type ToClient = Mutex<SplitSink<Socket, Message>>;
type FromClient = Peekable<SplitStream<Socket>>;

/// Completes when a client has disconnected. The client's first input stays in the stream for the command, and nothing
/// after it is read. Upstream does not read before the kubelet accepts the input, either.
async fn departure(from_client: &mut FromClient) {
    let mut from_client = Pin::new(from_client);
    loop {
        match from_client.as_mut().peek().await {
            None | Some(Err(_) | Ok(Message::Close(_))) => return,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {
                let _ = from_client.next().await;
            }
            Some(Ok(_)) => std::future::pending().await,
        }
    }
}

/// Runs a command. `None` if the client has disconnected.
async fn run(
    backend: UpgradedStream,
    to_client: &ToClient,
    from_client: &mut FromClient,
    wanted: WantedStreams,
) -> Option<Outcome> {
    let (from_backend, to_backend) = tokio::io::split(backend);
    let channels = wanted.channels();
    let streams = Streams(channels.iter().zip((1..).step_by(2)).map(|((channel, _), id)| (*channel, id)).collect());
    let mut to_backend = ToBackend { stream: to_backend, encoder: Encoder::default() };
    for ((_, kind), (_, stream)) in channels.iter().zip(&streams.0) {
        let headers = vec![("streamtype".to_owned(), (*kind).to_owned())];
        let frame = Frame::SynStream { stream: *stream, is_last: false, headers };
        if let Err(failure) = to_backend.send(&frame).await {
            return Some(Outcome::Failed(failure));
        }
    }
    let to_backend = Mutex::new(to_backend);
    // The task that reads from the kubelet never waits for a write to the kubelet. Otherwise both sides could wait for
    // each other.
    let (answers, answered) = mpsc::channel(MAX_ANSWERS);
    let activity = LastActivity::new();
    let mut upwards = pin!(send_input(from_client, &to_backend, &streams, &activity));
    let mut downwards = pin!(receive_output(from_backend, &answers, to_client, &streams, &activity));
    let mut pings = pin!(ping(&to_backend, answered));
    let mut idle = pin!(activity.idle());
    tokio::select! {
        outcome = &mut downwards => outcome,
        () = &mut upwards => None,
        () = &mut pings => None,
        () = &mut idle => None,
    }
}

/// The streams of SPDY, by their channels.
struct Streams(Vec<(u8, u32)>);

impl Streams {
    fn of_channel(&self, channel: u8) -> Option<u32> {
        self.0.iter().find(|(found, _)| *found == channel).map(|(_, stream)| *stream)
    }

    fn channel_of(&self, stream: u32) -> Option<u8> {
        self.0.iter().find(|(_, found)| *found == stream).map(|(channel, _)| *channel)
    }
}

/// Forwards the client's input to the kubelet. Completes when the client has disconnected.
async fn send_input(
    from_client: &mut FromClient,
    to_backend: &Mutex<ToBackend>,
    streams: &Streams,
    activity: &LastActivity,
) {
    // A channel that has ended accepts no more input.
    let mut ended = [false; CHANNELS as usize];
    while let Some(Ok(message)) = from_client.next().await {
        activity.record();
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => Bytes::from(text),
            Message::Close(_) => return,
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
        };
        let (channel, data, is_last) = match (bytes.first(), bytes.get(1)) {
            (None, _) => continue,
            (Some(&CLOSE_SIGNAL), Some(channel)) if bytes.len() == 2 && *channel < CHANNELS => {
                (*channel, Bytes::new(), true)
            }
            // Upstream ends the connection, too.
            (Some(&CLOSE_SIGNAL), _) => return,
            (Some(channel), _) => (*channel, bytes.slice(1..), false),
        };
        let is_input = matches!(channel, channel::STDIN | channel::RESIZE);
        let (Some(stream), Some(has_ended)) = (streams.of_channel(channel), ended.get_mut(usize::from(channel))) else {
            continue;
        };
        if !is_input || *has_ended {
            continue;
        }
        *has_ended = is_last;
        // If sending fails, reading fails as well, and reading determines the outcome.
        let _ = to_backend.lock().await.send(&Frame::Data { stream, is_last, bytes: data }).await;
    }
}

/// Keeps the connection with a kubelet open, and sends answers to its own frames.
async fn ping(to_backend: &Mutex<ToBackend>, mut answers: mpsc::Receiver<Frame>) {
    let mut period = interval(PING_PERIOD);
    // After a delay, a slow kubelet gets one ping, not all the pings that it missed.
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    period.tick().await;
    let mut id = 1;
    loop {
        let frame = tokio::select! {
            _ = period.tick() => Frame::Ping(id),
            Some(answer) = answers.recv() => answer,
        };
        if frame == Frame::Ping(id) {
            id = id.wrapping_add(2);
        }
        let _ = to_backend.lock().await.send(&frame).await;
    }
}

/// Forwards the kubelet's output to the client, until the kubelet has sent all output and the result. `None` if the
/// client has disconnected.
async fn receive_output(
    mut from_backend: ReadHalf<UpgradedStream>,
    answers: &mpsc::Sender<Frame>,
    to_client: &ToClient,
    streams: &Streams,
    activity: &LastActivity,
) -> Option<Outcome> {
    let mut decoder = Decoder::default();
    let mut buffer = BytesMut::with_capacity(READ_BYTES);
    let is_output = |channel: u8| matches!(channel, channel::STDOUT | channel::STDERR | channel::ERROR);
    let mut open: Vec<u8> = streams.0.iter().map(|(channel, _)| *channel).filter(|it| is_output(*it)).collect();
    let mut result = BytesMut::new();
    let failed = |message: String| Some(Outcome::Failed(Failure::Message(message)));
    while !open.is_empty() {
        let frame = match decoder.decode(&mut buffer) {
            Ok(Some(frame)) => frame,
            Ok(None) => {
                buffer.reserve(READ_BYTES);
                match from_backend.read_buf(&mut buffer).await {
                    // As in upstream, all streams end with the connection.
                    Ok(0) | Err(_) => break,
                    Ok(_) => {}
                }
                continue;
            }
            Err(error) => return failed(error.to_string()),
        };
        match frame {
            Frame::Data { stream, is_last, bytes } => {
                let channel = streams.channel_of(stream);
                match channel {
                    Some(channel::ERROR) if result.len() + bytes.len() > MAX_RESULT_BYTES => {
                        return failed("error reading from error stream: too large".to_owned());
                    }
                    Some(channel::ERROR) => result.extend_from_slice(&bytes),
                    Some(channel) if open.contains(&channel) && !bytes.is_empty() => {
                        let mut message = BytesMut::with_capacity(bytes.len() + 1);
                        message.extend_from_slice(&[channel]);
                        message.extend_from_slice(&bytes);
                        to_client.lock().await.send(Message::Binary(message.freeze())).await.ok()?;
                        activity.record();
                    }
                    _ => {}
                }
                open.retain(|it| !is_last || Some(*it) != channel);
            }
            Frame::SynReply { stream, is_last, .. } | Frame::Headers { stream, is_last, .. } => {
                let channel = streams.channel_of(stream);
                open.retain(|it| !is_last || Some(*it) != channel);
            }
            // Kubelets end their streams in this way. As in Go, earlier data of the stream counts.
            Frame::RstStream { stream, .. } => {
                let channel = streams.channel_of(stream);
                open.retain(|it| Some(*it) != channel);
            }
            // The kubelet's own pings have even numbers.
            Frame::Ping(id) if id % 2 == 0 => {
                let _ = answers.try_send(Frame::Ping(id));
            }
            Frame::GoAway { .. } => break,
            Frame::SynStream { stream, .. } => {
                // Streams of the kubelet are refused, because kubelets open no streams.
                let _ = answers.try_send(Frame::RstStream { stream, status: 3 });
            }
            Frame::Ping(_) | Frame::Settings | Frame::WindowUpdate { .. } => {}
        }
    }
    Some(outcome(&result))
}

/// The outcome in a kubelet's result (upstream: `errorDecoderV4`). An empty result means success.
fn outcome(result: &[u8]) -> Outcome {
    if result.is_empty() {
        return Outcome::Success;
    }
    let failed = |message: String| Outcome::Failed(Failure::Message(message));
    let status = match pintle_codec::json::decode(result, pintle_codec::json::DecodeOptions::default()) {
        Ok(decoded) => decoded.value,
        Err(error) => {
            let text = pintle_value::print::quote(&String::from_utf8_lossy(result));
            return failed(format!("error stream protocol error: {error} in {text}"));
        }
    };
    match (status.str_at(&["status"]), status.str_at(&["reason"])) {
        ("Success", _) => Outcome::Success,
        ("Failure", "NonZeroExitCode") => {
            let Some(details) = status.get("details").filter(|details| !details.is_null()) else {
                return failed("error stream protocol error: details must be set".to_owned());
            };
            let causes = details.items_at(&["causes"]);
            let Some(cause) = causes.iter().find(|cause| cause.str_at(&["reason"]) == "ExitCode") else {
                return failed("error stream protocol error: no ExitCode cause given".to_owned());
            };
            let text = cause.str_at(&["message"]);
            match text.parse() {
                Ok(code) => Outcome::Exited(code),
                Err(_) => failed(format!(
                    "error stream protocol error: invalid exit code value {}",
                    pintle_value::print::quote(text)
                )),
            }
        }
        ("Failure", _) => failed(status.str_at(&["message"]).to_owned()),
        _ => failed("error stream protocol error: unknown error".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_kubelets_are_read_as_by_client_go() {
        let check = |result: &str, expect: (u16, &str)| {
            let (code, status) = status_of(outcome(result.as_bytes()));
            assert_eq!((code, status.str_at(&["message"])), expect, "{result}");
        };
        check("", (200, ""));
        check(r#"{"status":"Success"}"#, (200, ""));
        let exit = r#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}"#;
        check(exit, (200, "command terminated with non-zero exit code: command terminated with exit code 7"));
        for (result, message) in [
            (exit.replace("\"7\"", "\"256\"").as_str(), "invalid exit code value \"256\""),
            (r#"{"status":"Failure","reason":"NonZeroExitCode"}"#, "details must be set"),
            (r#"{"status":"Failure","reason":"NonZeroExitCode","details":{}}"#, "no ExitCode cause given"),
            (r#"{"status":"x"}"#, "unknown error"),
        ] {
            check(result, (500, &format!("Internal error occurred: error stream protocol error: {message}")));
        }
        check(r#"{"status":"Failure","message":"gone"}"#, (500, "Internal error occurred: gone"));
    }

    #[test]
    fn streams_are_opened_in_upstreams_order() {
        let check = |options: Value, expect: &[&str], first: u8| {
            let wanted = WantedStreams::of(&options);
            let kinds: Vec<&str> = wanted.channels().into_iter().map(|(_, kind)| kind).collect();
            assert_eq!(kinds, expect);
            assert_eq!(wanted.first_channel(), first);
        };
        check(object! {}, &["error"], channel::ERROR);
        check(object! { "stdin": true, "stdout": true, "stderr": true }, &["error", "stdin", "stdout", "stderr"], 1);
        check(object! { "stderr": true, "tty": true }, &["error", "resize"], channel::STDERR);
        check(object! { "stdout": true, "stderr": true, "tty": true }, &["error", "stdout", "resize"], 1);
    }
}
