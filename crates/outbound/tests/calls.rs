//! Calls to servers that answer well, badly, slowly or not at all.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use pintle_outbound::{Client, Limits, Route, Trust};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const PATIENT: Limits = Limits { time: Duration::from_secs(20), body: 10 };

/// What a server does with a connection.
#[derive(Clone)]
enum Manner {
    /// Answers the request with this.
    Says(&'static str),
    /// Says this before it is asked.
    Blurts(&'static str),
    /// Reads and never answers.
    Waits,
    /// The first, inside TLS.
    Securely(TlsAcceptor, &'static str),
}

/// A server of one connection, and its address.
async fn server(manner: Manner) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        let Ok((stream, _)) = listener.accept().await else { return };
        match manner {
            Manner::Says(text) => answer(stream, text).await,
            Manner::Blurts(text) => {
                let mut stream = stream;
                let _ = stream.write_all(text.as_bytes()).await;
                while stream.read(&mut [0; 64]).await.is_ok_and(|n| n > 0) {}
            }
            Manner::Waits => {
                let mut stream = stream;
                while stream.read(&mut [0; 64]).await.is_ok_and(|n| n > 0) {}
            }
            Manner::Securely(acceptor, text) => {
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer(stream, text).await;
                }
            }
        }
    });
    address
}

/// Reads the head of a request, and answers.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, text: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// A server's certificate in PEM, and how it takes TLS connections.
fn secure() -> (String, TlsAcceptor) {
    secured(CertificateParams::new(["127.0.0.1".to_owned()]).expect("names"))
}

/// The same for a certificate that says more.
fn secured(params: CertificateParams) -> (String, TlsAcceptor) {
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    let (der, pem) = (certificate.der().clone(), certificate.pem());
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_no_client_auth()
        .with_single_cert(vec![der], key)
        .expect("a certificate that fits its key");
    (pem, TlsAcceptor::from(Arc::new(config)))
}

/// Asks a server, and compares the answer's status and body, or the error with `URL` for its address.
async fn check(trust: Trust<'_>, limits: Limits, scheme: &str, address: &str, expect: Result<&str, &str>) {
    let client = Client::new(trust).expect("a client");
    let url = format!("{scheme}://{address}");
    let request = Request::get(format!("{url}/healthz")).body(Bytes::new()).expect("a request");
    let found = match client.send(request, limits).await {
        Ok(answer) => {
            let (status, body) = (answer.status().as_u16(), answer.body());
            let more = if body.truncated { " and more" } else { "" };
            Ok(format!("{status} {}{more}", String::from_utf8_lossy(&body.bytes)))
        }
        Err(error) => Err(error.to_string().replace(&url, "URL").replace(address, "ADDRESS")),
    };
    assert_eq!(found.as_deref().map_err(String::as_str), expect);
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
}

#[test]
fn answers_are_read_up_to_a_limit() {
    run(async {
        for (text, expect) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", Ok("200 ok")),
            ("HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbad\r\n0\r\n\r\n", Ok("500 bad")),
            ("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", Ok("302 ")),
            ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789", Ok("200 0123456789")),
            ("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n01234567890", Ok("200 0123456789 and more")),
            ("", Err("Get \"URL/healthz\": EOF")),
            (
                "nonsense\r\n\r\n",
                Err("Get \"URL/healthz\": net/http: HTTP/1.x transport connection broken: invalid HTTP version parsed"),
            ),
        ] {
            let address = server(Manner::Says(text)).await;
            check(Trust::Anyone, PATIENT, "http", &address, expect).await;
        }
    });
}

#[test]
fn who_cannot_be_reached_is_told_as_go_does() {
    run(async {
        let nobody = {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            listener.local_addr().expect("an address").to_string()
        };
        let refused = "Get \"URL/healthz\": dial tcp ADDRESS: connect: connection refused";
        check(Trust::Anyone, PATIENT, "https", &nobody, Err(refused)).await;
        let slow = "Get \"URL/healthz\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
        let hasty = Limits { time: Duration::from_millis(20), body: 10 };
        check(Trust::Anyone, hasty, "http", &server(Manner::Waits).await, Err(slow)).await;
        let scheme = "Get \"URL/healthz\": unsupported protocol scheme \"ftp\"";
        check(Trust::Anyone, PATIENT, "ftp", &nobody, Err(scheme)).await;
    });
}

#[test]
fn servers_are_trusted_as_the_client_says() {
    run(async {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let ((pem, acceptor), (other, _)) = (secure(), secure());
        let unknown =
            "Get \"URL/healthz\": tls: failed to verify certificate: x509: certificate signed by unknown authority";
        for (trust, expect) in [
            (Trust::Anyone, Ok("200 ok")),
            (Trust::Authorities(pem.as_bytes()), Ok("200 ok")),
            (Trust::Authorities(other.as_bytes()), Err(unknown)),
        ] {
            let address = server(Manner::Securely(acceptor.clone(), text)).await;
            check(trust, PATIENT, "https", &address, expect).await;
        }
        let plain = "Get \"URL/healthz\": tls: first record does not look like a TLS handshake";
        let address = server(Manner::Blurts("HTTP/1.1 400 Bad Request\r\n\r\n")).await;
        check(Trust::Anyone, PATIENT, "https", &address, Err(plain)).await;
        assert!(
            Client::new(Trust::Authorities(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")).is_err()
        );
    });
}

/// A server that answers every request on every connection with the number of the connection, and closes a connection
/// after so many answers.
async fn counting(answers: usize, acceptor: TlsAcceptor) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        for connection in 1.. {
            let Ok((stream, _)) = listener.accept().await else { return };
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            'answers: for _ in 0..answers {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    match stream.read_u8().await {
                        Ok(byte) => head.push(byte),
                        Err(_) => break 'answers,
                    }
                }
                let _ = stream
                    .write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{connection}").as_bytes())
                    .await;
            }
        }
    });
    address
}

#[tokio::test]
async fn connections_are_used_again_by_whatever_route() {
    let (certificate, acceptor) = secure();
    let address = counting(3, acceptor).await;
    let client = Client::new(Trust::Authorities(certificate.as_bytes())).expect("a client");
    let (host, port) = address.split_once(':').expect("a port");
    let route = Route { host: host.to_owned(), port: port.parse().expect("a number") };
    let mut connections = Vec::new();
    for _ in 0..7 {
        // The certificate is that of the address, which is asked for at another port.
        let request = Request::get("https://127.0.0.1:1/").body(Bytes::new()).expect("a request");
        let answer = client.send_by(request, Some(&route), PATIENT).await.expect("an answer");
        connections.push(String::from_utf8_lossy(&answer.body().bytes).into_owned());
    }
    assert_eq!(connections.concat(), "1112223");
    // Another name is another server, which that one cannot prove to be. It takes one connection at a time.
    drop(client);
    let client = Client::new(Trust::Authorities(certificate.as_bytes())).expect("a client");
    let request = Request::get("https://hooks.default.svc/").body(Bytes::new()).expect("a request");
    let refused = client.send_by(request, Some(&route), PATIENT).await.expect_err("no proof").to_string();
    let why = "certificate is not valid for any names, but wanted to match hooks.default.svc";
    assert_eq!(refused, format!("Get \"https://hooks.default.svc/\": tls: failed to verify certificate: x509: {why}"));
}

#[test]
fn authorities_may_be_servers_themselves() {
    run(async {
        let own = |name: &str| {
            let mut params = CertificateParams::new([name.to_owned()]).expect("names");
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params
        };
        let says = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let refused = |why: &str| format!("Get \"URL/healthz\": tls: failed to verify certificate: x509: {why}");
        let (certificate, acceptor) = secured(own("127.0.0.1"));
        let trust = Trust::Authorities(certificate.as_bytes());
        check(trust, PATIENT, "https", &server(Manner::Securely(acceptor.clone(), says)).await, Ok("200 ok")).await;
        let (other, _) = secured(own("127.0.0.1"));
        let trust = Trust::Authorities(other.as_bytes());
        let unknown = refused("certificate signed by unknown authority");
        check(trust, PATIENT, "https", &server(Manner::Securely(acceptor, says)).await, Err(&unknown)).await;
        let (certificate, acceptor) = secured(own("10.0.0.1"));
        let trust = Trust::Authorities(certificate.as_bytes());
        let elsewhere = refused("certificate is valid for 10.0.0.1, not 127.0.0.1");
        check(trust, PATIENT, "https", &server(Manner::Securely(acceptor, says)).await, Err(&elsewhere)).await;
        let mut past = own("127.0.0.1");
        past.not_after = rcgen::date_time_ymd(2001, 1, 1);
        let (certificate, acceptor) = secured(past);
        let trust = Trust::Authorities(certificate.as_bytes());
        let expired = refused("certificate has expired or is not yet valid");
        check(trust, PATIENT, "https", &server(Manner::Securely(acceptor, says)).await, Err(&expired)).await;
    });
}
