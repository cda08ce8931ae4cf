//! The choice of the protocol, and how requests share HTTP/2 connections.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, UPGRADE};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use pintle_outbound::{
    BearerToken, CallLimits, Client, ClientConfig, Credentials, Protocols, ServerTrust, StreamOptions, UpgradeResponse,
};
use tokio::net::TcpListener;
use tokio::sync::{Barrier, Notify, oneshot};

use crate::http2_server::{CANCEL, DATA, Frame, FrameServer, NO_ERROR, RST_STREAM};
use crate::support::{
    AfterFrames, FRAME, GENEROUS, HTTP2, ServerBody, TestBody, acceptor, client_with, empty, serve,
    serving_certificate, text, within,
};

const LIMITS: CallLimits = CallLimits { max_body_bytes: 1 << 20, ..GENEROUS };

fn request(url: &str) -> Request<Bytes> {
    Request::post(url).body(Bytes::from_static(b"body")).expect("a request")
}

/// Sends a request. Returns the body of the response, or the error with `URL` for the URL.
async fn call(client: &Client, url: &str, limits: CallLimits) -> Result<String, String> {
    let response = client.send(request(url), limits).await;
    let response = response.map_err(|error| error.to_string().replace(url, "URL"))?;
    assert_eq!(response.status(), StatusCode::OK);
    Ok(String::from_utf8_lossy(&response.body().bytes).into_owned())
}

/// Responds with the version, the authority and the `Host` header of the request.
async fn describe(_: usize, request: Request<Incoming>) -> Response<ServerBody> {
    let host = request.headers().get(HOST).map(|host| host.to_str().expect("text").to_owned());
    let authority = request.uri().authority().map(ToString::to_string);
    let body = format!("{:?} {} {authority:?} {host:?}", request.version(), request.uri().path());
    Response::new(text(&body))
}

#[tokio::test]
async fn the_protocol_is_what_client_and_server_speak() {
    within(async {
        for (offered, spoken, expect) in [
            (HTTP2, Some(&["h2", "http/1.1"][..]), "HTTP/2.0"),
            (HTTP2, Some(&["h2"]), "HTTP/2.0"),
            (HTTP2, Some(&["http/1.1"]), "HTTP/1.1"),
            (HTTP2, Some(&[]), "HTTP/1.1"),
            (HTTP2, None, "HTTP/1.1"),
            (Protocols::Http1, Some(&["h2", "http/1.1"]), "HTTP/1.1"),
        ] {
            let scheme = if spoken.is_some() { "https" } else { "http" };
            let address = serve(spoken.map(acceptor), describe).await;
            let client = client_with(offered);
            let body = call(&client, &format!("{scheme}://{address}/path"), LIMITS).await.expect("a response");
            let expect = match expect {
                "HTTP/2.0" => format!("HTTP/2.0 /path Some({address:?}) None"),
                version => format!("{version} /path None Some({address:?})"),
            };
            assert_eq!(body, expect, "{offered:?} {spoken:?}");
            // A `Host` header of the request becomes the authority.
            let named = Request::post(format!("{scheme}://{address}/")).header(HOST, "other.example.com:1");
            let response = client.send(named.body(Bytes::new()).expect("a request"), LIMITS).await;
            let body = String::from_utf8_lossy(&response.expect("a response").body().bytes).into_owned();
            assert!(body.contains("Some(\"other.example.com:1\")") && !body.contains(&address), "{body}");
        }
        let address = serve(Some(acceptor(&["h2"])), describe).await;
        let error = call(&client_with(Protocols::Http1), &format!("https://{address}/"), LIMITS).await;
        let error = error.expect_err("no common protocol");
        assert!(error.starts_with("Post \"URL\": remote error: tls: "), "{error}");
    })
    .await;
}

#[tokio::test]
async fn upgrades_use_http1() {
    within(async {
        let handler = |_, mut request: Request<Incoming>| async move {
            assert_eq!(request.version(), http::Version::HTTP_11);
            tokio::spawn(hyper::upgrade::on(&mut request));
            let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
            response.header(CONNECTION, "upgrade").header(UPGRADE, "test").body(empty()).expect("a response")
        };
        let address = serve(Some(acceptor(&["h2", "http/1.1"])), handler).await;
        let request = Request::get(format!("https://{address}/")).header(CONNECTION, "upgrade").header(UPGRADE, "test");
        let request = request.body(Empty::new()).expect("a request");
        let response = client_with(HTTP2).upgrade(request, StreamOptions::default()).await.expect("a response");
        assert!(matches!(response, UpgradeResponse::Upgraded(_)), "{response:?}");
    })
    .await;
}

/// A server that responds with the number of the connection once `concurrent` requests have arrived. It allows
/// `max_streams` streams.
async fn numbering(concurrent: usize, max_streams: u32) -> String {
    use hyper::server::conn::http2;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (acceptor, barrier) = (acceptor(&["h2"]), Arc::new(Barrier::new(concurrent)));
    tokio::spawn(async move {
        for number in 1.. {
            let Ok((stream, _)) = listener.accept().await else { return };
            let (acceptor, barrier) = (acceptor.clone(), barrier.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = hyper::service::service_fn(move |_: Request<Incoming>| {
                    let barrier = barrier.clone();
                    async move {
                        barrier.wait().await;
                        Ok::<_, std::convert::Infallible>(Response::new(text(&number.to_string())))
                    }
                });
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder.max_concurrent_streams(max_streams);
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

/// Makes concurrent calls. Returns the numbers of the connections that have served them.
async fn call_concurrently(client: &Client, url: &str, calls: usize) -> BTreeSet<String> {
    let calls = (0..calls).map(|_| {
        let (client, url) = (client.clone(), url.to_owned());
        tokio::spawn(async move { call(&client, &url, LIMITS).await.expect("a response") })
    });
    let mut connections = BTreeSet::new();
    for call in calls.collect::<Vec<_>>() {
        connections.insert(call.await.expect("a finished call"));
    }
    connections
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_calls_share_a_connection() {
    within(async {
        let url = format!("https://{}/", numbering(64, 250).await);
        let client = client_with(HTTP2);
        for _ in 0..3 {
            assert_eq!(call_concurrently(&client, &url, 64).await, BTreeSet::from(["1".to_owned()]));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_allows_few_streams_gets_more_connections() {
    within(async {
        for (max_streams, at_least) in [(1, 8), (3, 3)] {
            let url = format!("https://{}/", numbering(8, max_streams).await);
            let client = client_with(HTTP2);
            for _ in 0..3 {
                let connections = call_concurrently(&client, &url, 8).await;
                assert!(connections.len() >= at_least, "{max_streams} streams: {connections:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn calls_that_follow_each_other_share_a_connection_with_one_stream() {
    within(async {
        let url = format!("https://{}/", numbering(1, 1).await);
        let client = client_with(HTTP2);
        for _ in 0..20 {
            assert_eq!(call(&client, &url, LIMITS).await.as_deref(), Ok("1"));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_wait_for_a_connection_do_not_queue_for_its_failure() {
    within(async {
        // The server accepts connections, and closes them when all callers have connected.
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}/", listener.local_addr().expect("an address"));
        let client = client_with(HTTP2);
        let calls = (0..8).map(|_| {
            let (client, url) = (client.clone(), url.clone());
            tokio::spawn(async move { call(&client, &url, LIMITS).await })
        });
        let calls: Vec<_> = calls.collect();
        // All calls wait for the first connection. When it fails, the others open their own connections, without
        // waiting for each other.
        drop(listener.accept().await.expect("a connection"));
        let mut open = Vec::new();
        for _ in 1..8 {
            open.push(listener.accept().await.expect("a connection"));
        }
        drop(open);
        for call in calls {
            let error = call.await.expect("a finished call").expect_err("no server");
            assert!(error.starts_with("Post \"URL\": "), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_refused_upgrade_leaves_no_connection_of_http1() {
    within(async {
        let url = format!("https://{}/", serve(Some(acceptor(&["h2", "http/1.1"])), describe).await);
        let client = client_with(HTTP2);
        let upgrade = Request::get(&url).header(CONNECTION, "Upgrade").header(UPGRADE, "echo");
        let upgrade = upgrade.body(Empty::<Bytes>::new()).expect("a request");
        let UpgradeResponse::NotUpgraded(response) =
            client.upgrade(upgrade, StreamOptions::default()).await.expect("a response")
        else {
            panic!("upgraded");
        };
        let refusal = response.into_body().collect().await.expect("a body").to_bytes();
        assert!(refusal.starts_with(b"HTTP/1.1 "), "{refusal:?}");
        let body = call(&client, &url, LIMITS).await.expect("a response");
        assert!(body.starts_with("HTTP/2.0 "), "{body}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_calls_to_a_server_without_http2_have_their_own_connections() {
    within(async {
        let barrier = Arc::new(Barrier::new(8));
        let handler = move |number: usize, _: Request<Incoming>| {
            let barrier = barrier.clone();
            async move {
                barrier.wait().await;
                Response::new(text(&number.to_string()))
            }
        };
        let url = format!("https://{}/", serve(Some(acceptor(&["http/1.1"])), handler).await);
        let client = client_with(HTTP2);
        for _ in 0..3 {
            assert_eq!(call_concurrently(&client, &url, 8).await.len(), 8);
        }
    })
    .await;
}

#[tokio::test]
async fn a_call_whose_time_is_over_resets_its_stream_only() {
    within(async {
        let server = FrameServer::start().await;
        let url = format!("https://{}/", server.address);
        let client = client_with(HTTP2);
        let short = CallLimits { timeout: Duration::from_secs(2), ..LIMITS };
        let reset_seen = Notify::new();
        let calling = async {
            // The next call does not spend its time on connecting.
            assert_eq!(call(&client, &url, LIMITS).await.as_deref(), Ok("first"));
            let error = call(&client, &url, short).await.expect_err("no response");
            let head = "Post \"URL\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
            assert_eq!(error, head);
            reset_seen.notified().await;
            let error = call(&client, &url, short).await.expect_err("half of a response");
            let body = "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
            assert_eq!(error, body);
            reset_seen.notified().await;
            assert_eq!(call(&client, &url, LIMITS).await.as_deref(), Ok("late"));
        };
        let serving = async {
            let mut connection = server.accept(100).await;
            let first = connection.request().await;
            connection.respond(first, "first").await;
            let silent = connection.request().await;
            assert_eq!(connection.next(RST_STREAM).await.expect("a reset"), reset(silent));
            reset_seen.notify_one();
            let half = connection.request().await;
            connection.send_head(half).await;
            connection.send(DATA, 0, half, b"half").await;
            assert_eq!(connection.next(RST_STREAM).await.expect("a reset"), reset(half));
            reset_seen.notify_one();
            let last = connection.request().await;
            connection.respond(last, "late").await;
            connection
        };
        let ((), connection) = tokio::join!(calling, serving);
        drop(connection);
    })
    .await;
}

/// The frame that cancels a stream.
fn reset(stream: u32) -> Frame {
    Frame { kind: RST_STREAM, flags: 0, stream, payload: CANCEL.to_be_bytes().to_vec() }
}

#[tokio::test]
async fn a_server_that_never_reads_a_cancelled_request_loses_its_connection() {
    within(async {
        let server = FrameServer::start().await;
        let url = format!("https://{}/", server.address);
        let client = client_with(HTTP2);
        let (first_begun, first_is_begun) = oneshot::channel();
        let (cancelled, is_cancelled) = oneshot::channel();
        let first = call(&client, &url, LIMITS);
        let second = async {
            first_is_begun.await.expect("a request");
            // The body fills the server's window of 64 KiB. hyper cannot reset such a stream once there is a response.
            let (body, dropped) = TestBody::new(1000, AfterFrames::End);
            let request = Request::post(&url).body(body).expect("a request");
            drop(client.stream(request, StreamOptions::default()).await.expect("a response"));
            cancelled.send(()).expect("a server");
            // Nothing of the request stays in memory.
            assert!(dropped.await.is_err());
        };
        let serving = async {
            let mut connection = server.accept(100).await;
            let stream = connection.request().await;
            first_begun.send(()).expect("a caller");
            let never_read = connection.request().await;
            connection.send_head(never_read).await;
            is_cancelled.await.expect("a caller");
            // The earlier request gets its response.
            connection.respond(stream, "first").await;
            assert_eq!(connection.next(RST_STREAM).await, None);
        };
        let (response, (), ()) = tokio::join!(first, second, serving);
        assert_eq!(response.as_deref(), Ok("first"));
    })
    .await;
}

#[tokio::test]
async fn a_server_that_responds_without_the_request_has_time_to_reset_it() {
    within(async {
        for resets in [true, false] {
            let server = FrameServer::start().await;
            let url = format!("https://{}/", server.address);
            let client = client_with(HTTP2);
            let calling = async {
                let (body, dropped) = TestBody::new(1000, AfterFrames::End);
                let request = Request::post(&url).body(body).expect("a request");
                let response = client.stream(request, StreamOptions::default()).await.expect("a response");
                let body = response.into_body().collect().await.expect("a body").to_bytes();
                assert_eq!(body, "early");
                assert!(dropped.await.is_err());
                assert_eq!(call(&client, &url, LIMITS).await.as_deref(), Ok("next"));
            };
            let serving = async {
                let mut connection = server.accept(100).await;
                let stream = connection.request().await;
                connection.respond(stream, "early").await;
                if resets {
                    connection.reset(stream, NO_ERROR).await;
                } else {
                    assert_eq!(connection.next(RST_STREAM).await, None);
                    connection = server.accept(100).await;
                }
                let stream = connection.request().await;
                connection.respond(stream, "next").await;
                connection
            };
            tokio::join!(calling, serving);
        }
    })
    .await;
}

#[tokio::test]
async fn a_body_that_is_too_short_is_an_error() {
    within(async {
        let server = FrameServer::start().await;
        let url = format!("https://{}/", server.address);
        let client = client_with(HTTP2);
        let calling = async {
            for _ in 0..2 {
                let request = Request::get(&url).body(Empty::<Bytes>::new()).expect("a request");
                let response = client.stream(request, StreamOptions::default()).await.expect("a response");
                let error = response.into_body().collect().await.expect_err("a part is missing");
                assert!(error.is_body_error());
                assert_eq!(error.cause.to_string(), "unexpected EOF");
            }
        };
        let serving = async {
            let mut connection = server.accept(100).await;
            for part in ["part", ""] {
                let stream = connection.request().await;
                connection.send_part(stream, part).await;
                connection.reset(stream, NO_ERROR).await;
            }
            connection
        };
        let ((), _connection) = tokio::join!(calling, serving);
    })
    .await;
}

#[tokio::test]
async fn bodies_are_streamed_in_both_directions() {
    within(async {
        let echo = |_, request: Request<Incoming>| async {
            Response::new(request.into_body().map_err(std::io::Error::other).boxed_unsync())
        };
        let url = format!("https://{}/", serve(Some(acceptor(&["h2"])), echo).await);
        let client = client_with(HTTP2);
        for after in [AfterFrames::End, AfterFrames::Fail] {
            let (body, _dropped) = TestBody::new(200, after);
            let request = Request::post(&url).body(body).expect("a request");
            let response = client.stream(request, StreamOptions::default()).await.expect("a response");
            let (mut body, mut read) = (response.into_body(), 0);
            let error = loop {
                match body.frame().await {
                    Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len),
                    Some(Err(error)) => break Some(error.to_string()),
                    None => break None,
                }
            };
            match after {
                AfterFrames::End => assert_eq!((read, error), (200 * FRAME.len(), None)),
                _ => assert!(error.is_some_and(|error| error.starts_with("stream error: stream ID ")), "{read}"),
            }
        }
        // If the body fails before the response, the request has the body's error.
        let silent = |_, request: Request<Incoming>| async {
            let _ = request.into_body().collect().await;
            std::future::pending().await
        };
        let url = format!("https://{}/", serve(Some(acceptor(&["h2"])), silent).await);
        let request = Request::post(&url).body(TestBody::new(1, AfterFrames::Fail).0).expect("a request");
        let error = client.stream(request, StreamOptions::default()).await.expect_err("no request");
        assert_eq!(error.to_string(), format!("Post \"{url}\": the body failed"));
    })
    .await;
}

#[tokio::test]
async fn large_responses_are_cut_at_the_limit_and_the_connection_goes_on() {
    within(async {
        let handler = |number: usize, _: Request<Incoming>| async move {
            match number {
                1 => Response::new(TestBody::new(1000, AfterFrames::Stall).0.boxed_unsync()),
                _ => Response::new(text("another connection")),
            }
        };
        let url = format!("https://{}/", serve(Some(acceptor(&["h2"])), handler).await);
        let client = client_with(HTTP2);
        for _ in 0..20 {
            let response = client.send(request(&url), LIMITS).await.expect("a response");
            assert_eq!((response.body().bytes.len(), response.body().truncated), (LIMITS.max_body_bytes, true));
        }
    })
    .await;
}

#[tokio::test]
async fn clients_with_other_credentials_have_other_connections() {
    within(async {
        let (pem, serving) = serving_certificate();
        let mut config = rustls::ServerConfig::clone(serving.config());
        config.alpn_protocols = vec![b"h2".to_vec()];
        let handler = |number: usize, request: Request<Incoming>| async move {
            let token = request.headers()["authorization"].to_str().expect("text").to_owned();
            Response::new(text(&format!("{number} {token}")))
        };
        let address = serve(Some(tokio_rustls::TlsAcceptor::from(Arc::new(config))), handler).await;
        let url = format!("https://{address}/");
        for (token, expect) in [("a", "1 Bearer a"), ("b", "2 Bearer b")] {
            let origin: Uri = url.parse().expect("a URI");
            let credentials = Credentials { origin, client_certificate: None, bearer_token: Some(BearerToken(token)) };
            let server_trust = ServerTrust::Authorities(pem.as_bytes());
            let config = ClientConfig {
                server_trust,
                credentials: Some(credentials),
                protocols: HTTP2,
                ..ClientConfig::default()
            };
            let client = Client::new(&config).expect("a client");
            for _ in 0..2 {
                assert_eq!(call(&client, &url, LIMITS).await.as_deref(), Ok(expect));
            }
        }
    })
    .await;
}
