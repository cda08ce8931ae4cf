//! The limits of streamed requests.

use std::net::TcpListener;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use pintle_outbound::{Client, StreamOptions};
use rustix::net::{AddressFamily, SocketType};

use crate::support::{AfterFrames, FRAME, ServerBody, TestBody, get, insecure_client, serve, within};

const SHORT: Option<Duration> = Some(Duration::from_millis(50));
const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// Responds with two frames. `/silent` never responds, `/stall` stalls after the frames.
async fn handle(_: usize, request: Request<Incoming>) -> Response<ServerBody> {
    let after = match request.uri().path() {
        "/silent" => std::future::pending().await,
        "/stall" => AfterFrames::Stall,
        _ => AfterFrames::End,
    };
    Response::new(TestBody::new(2, after).0.boxed_unsync())
}

/// Checks the number of bytes in a streamed response before its end, or before an error with this text.
async fn check(path: &str, options: StreamOptions<'_>, bytes: usize, expect: Result<(), &str>) {
    let url = format!("http://{}{path}", serve(None, handle).await);
    let mut read = 0;
    let found = within(async {
        let mut response = insecure_client().stream(get(&url), options).await?;
        while let Some(frame) = response.body_mut().frame().await {
            read += frame?.data_ref().map_or(0, |data| data.len());
        }
        Ok(())
    });
    let found = found.await.map_err(|error: pintle_outbound::RequestError| error.to_string().replace(&url, "URL"));
    assert_eq!((read, found.as_ref().map(drop).map_err(String::as_str)), (bytes, expect), "{path} {options:?}");
}

#[tokio::test]
async fn the_head_timeout_ends_with_the_response_head() {
    let short = StreamOptions { head_timeout: SHORT, ..StreamOptions::default() };
    let long = StreamOptions { head_timeout: LONG, ..StreamOptions::default() };
    let error = "Get \"URL\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    check("/silent", short, 0, Err(error)).await;
    check("/", long, 2 * FRAME.len(), Ok(())).await;
}

#[tokio::test]
async fn the_idle_timeout_applies_to_the_head_and_the_body() {
    let short = StreamOptions { idle_timeout: SHORT, ..StreamOptions::default() };
    let long = StreamOptions { idle_timeout: LONG, ..StreamOptions::default() };
    check("/silent", short, 0, Err("Get \"URL\": idle timeout exceeded while awaiting headers")).await;
    let wait = Duration::from_secs(2);
    let moderate = StreamOptions { idle_timeout: Some(wait), ..StreamOptions::default() };
    check("/stall", moderate, 2 * FRAME.len(), Err("idle timeout exceeded while reading body")).await;
    check("/", long, 2 * FRAME.len(), Ok(())).await;
}

#[tokio::test]
async fn a_response_body_is_cut_at_the_size_limit() {
    let limit = |bytes: usize| StreamOptions { max_body_bytes: Some(bytes as u64), ..StreamOptions::default() };
    let whole = 2 * FRAME.len();
    check("/", limit(whole), whole, Ok(())).await;
    check("/", limit(whole + 1), whole, Ok(())).await;
    for bytes in [0, 1, FRAME.len(), whole - 1] {
        check("/", limit(bytes), bytes, Err("response body too large")).await;
    }
}

/// The error of a streamed request to a server that never answers, and how long it takes. Time is paused.
async fn error_after(client: &Client, url: &str, options: StreamOptions<'_>) -> (String, u64) {
    let started = tokio::time::Instant::now();
    let error = client.stream(get(url), options).await.expect_err("no answer");
    (error.cause.to_string(), started.elapsed().as_secs())
}

/// Checks that a step of the connection setup ends after its limit, or at an earlier deadline.
async fn check_limit(url: &str, limit: u64, expect: &str) {
    let deadline = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    for (head_timeout, expect) in [
        (None, (expect, limit)),
        (Some(60), (expect, limit)),
        (Some(limit), (deadline, limit)),
        (Some(5), (deadline, 5)),
    ] {
        let head_timeout = head_timeout.map(Duration::from_secs);
        let options = StreamOptions { head_timeout, ..StreamOptions::default() };
        let (error, seconds) = error_after(&insecure_client(), url, options).await;
        assert_eq!((error.as_str(), seconds), expect, "{head_timeout:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tls_handshake_takes_10_seconds_at_most() {
    // The system accepts connections to this listener, but no server responds.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let url = format!("https://{}/", listener.local_addr().expect("an address"));
    check_limit(&url, 10, "net/http: TLS handshake timeout").await;
}

#[tokio::test(start_paused = true)]
async fn connecting_takes_30_seconds_at_most() {
    // The system answers no further connections once one connection waits to be accepted.
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    rustix::net::bind(&socket, &std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0)).expect("bound");
    rustix::net::listen(&socket, 0).expect("a listener");
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().expect("an address");
    let _waiting = std::net::TcpStream::connect(address).expect("connected");
    check_limit(&format!("http://{address}/"), 30, &format!("dial tcp {address}: i/o timeout")).await;
}
