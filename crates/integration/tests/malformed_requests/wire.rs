//! Malformed HTTP: wrong content lengths, invalid chunks, oversized headers. Each case sends bytes on its own
//! connection, and expects a status or a closed connection. The server must keep serving other connections.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use pintle_integration::Cluster;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

/// The expected outcome of a connection.
#[derive(Clone, Copy, Debug)]
enum ConnectionOutcome {
    /// A response with this status.
    Status(u16),
    /// The server closes the connection. It may send a 4xx response first.
    Closed,
}

use ConnectionOutcome::{Closed, Status};

const POST: &str =
    "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
const GET: &str = "GET /api/v1/namespaces/default/configmaps/nobody HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";

fn requests() -> Vec<(&'static str, Vec<u8>, ConnectionOutcome)> {
    let post = |rest: &str| format!("{POST}{rest}").into_bytes();
    let get = |rest: &str| format!("{GET}{rest}").into_bytes();
    let huge = "x".repeat(3_200_000);
    vec![
        ("no request", b"\x00\x01\x02\x03\r\n\r\n".to_vec(), Status(400)),
        ("no version", b"GET /api\r\n\r\n".to_vec(), Status(400)),
        ("an unknown HTTP version", b"GET /api HTTP/9.9\r\nHost: x\r\n\r\n".to_vec(), Status(400)),
        ("a space in the path", b"GET /api v1 HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), Status(400)),
        ("a header without a colon", get("nonsense\r\n\r\n"), Status(400)),
        ("a header with a space in its name", get("a b: c\r\n\r\n"), Status(400)),
        ("a header with a zero byte", get("a: b\0c\r\n\r\n"), Status(400)),
        ("a length that is not a number", post("Content-Length: ten\r\n\r\n{}"), Status(400)),
        ("a negative length", post("Content-Length: -1\r\n\r\n{}"), Status(400)),
        ("a length above 64 bits", post("Content-Length: 99999999999999999999999\r\n\r\n{}"), Status(400)),
        ("two lengths", post("Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} "), Status(400)),
        ("a length that is too large", post("Content-Length: 1099511627776\r\n\r\n{}"), Status(413)),
        ("a body shorter than its length", post("Content-Length: 100\r\nConnection: close\r\n\r\n{}"), Closed),
        ("invalid chunks", post("Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"), Status(400)),
        ("an unterminated chunk", post("Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}"), Closed),
        (
            "chunks above the limit",
            post(&format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{huge}\r\n0\r\n\r\n", huge.len())),
            Status(413),
        ),
        ("a header of 2 MiB", get(&format!("a: {}\r\n\r\n", "x".repeat(2 << 20))), Status(431)),
        ("a million headers", get(&format!("{}\r\n", "a: b\r\n".repeat(1_000_000))), Closed),
        ("another protocol", b"SSH-2.0-OpenSSH_9.9\r\n\r\n".to_vec(), Status(400)),
        (
            "HTTP/2 with invalid frames",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
            Closed,
        ),
    ]
}

/// Returns a base64-decoded value of a kubeconfig.
fn kubeconfig_value(kubeconfig: &str, key: &str) -> Vec<u8> {
    let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(key)).expect("the key");
    let mut bits = 0u32;
    let mut bit_count = 0;
    let mut out = Vec::new();
    for byte in line.trim_start_matches(':').bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(digit);
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            out.push((bits >> bit_count) as u8);
        }
    }
    out
}

fn config(kubeconfig: &str) -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(&kubeconfig_value(kubeconfig, "certificate-authority-data"));
    roots.add(authority.expect("a certificate")).expect("an authority");
    let leaf = CertificateDer::from_pem_slice(&kubeconfig_value(kubeconfig, "client-certificate-data"))
        .expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(&kubeconfig_value(kubeconfig, "client-key-data")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![leaf], key)
        .expect("a certificate that matches its key");
    Arc::new(config)
}

/// Sends bytes, closes the sending side if `close_after_send`, and reads the response.
fn exchange(address: &str, config: &Arc<rustls::ClientConfig>, request: &[u8], close_after_send: bool) -> Vec<u8> {
    let name = ServerName::try_from("localhost").expect("a name");
    let mut tls = rustls::ClientConnection::new(config.clone(), name).expect("a connection");
    let mut socket = TcpStream::connect(address).expect("the server listens");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    let mut response = Vec::new();
    let mut stream = rustls::Stream::new(&mut tls, &mut socket);
    // The server may close the connection before it has read everything.
    let written = stream.write_all(request).and_then(|()| stream.flush());
    if written.is_ok() && close_after_send {
        stream.conn.send_close_notify();
        let _ = stream.flush();
    }
    // The test reads without sending the rest of the request, because sending fails if the server has closed the
    // connection.
    let mut piece = [0; 4096];
    loop {
        match tls.reader().read(&mut piece) {
            Ok(0) => break,
            Ok(n) => response.extend_from_slice(&piece[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let more = tls.read_tls(&mut socket).is_ok_and(|n| n > 0);
                if !more || tls.process_new_packets().is_err() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    let _ = socket.shutdown(Shutdown::Both);
    response
}

#[test]
fn malformed_http_is_rejected() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let address = cluster.url().trim_start_matches("https://").to_owned();
        let config = config(cluster.kubeconfig());
        let failures = tokio::task::spawn_blocking(move || {
            let mut failures = Vec::new();
            for (what, request, expect) in requests() {
                let response =
                    String::from_utf8_lossy(&exchange(&address, &config, &request, matches!(expect, Closed)))
                        .into_owned();
                let status: Option<u16> = response.strip_prefix("HTTP/1.1 ").and_then(|a| a.get(..3)?.parse().ok());
                let matches = match expect {
                    Status(code) => status == Some(code),
                    Closed => status.is_none_or(|code| (400..500).contains(&code)),
                };
                if !matches {
                    let start: String = response.chars().take(300).collect();
                    failures.push(format!("{what}: expected {expect:?}, found {start:?}"));
                }
            }
            failures
        })
        .await
        .expect("the exchanges end");
        let _ = cluster.get("/api/v1/namespaces/default/configmaps").await.expect(200);
        cluster.stop().await;
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    });
}

/// A client without TLS gets an explanation. Other bytes that are not TLS get an alert, whose record begins with 21.
#[test]
fn plain_http_is_answered_with_a_sentence() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let address = cluster.url().trim_start_matches("https://").to_owned();
        let answers = tokio::task::spawn_blocking(move || {
            [
                "GET /version HTTP/1.1\r\nHost: x\r\n\r\n",
                "POST /api HTTP/1.1\r\nHost: x\r\n\r\n",
                "SSH-2.0-OpenSSH_9.9\r\n",
            ]
            .map(|request| {
                let mut socket = TcpStream::connect(&address).expect("the server listens");
                socket.write_all(request.as_bytes()).expect("the server reads");
                let mut answer = Vec::new();
                let _ = socket.read_to_end(&mut answer).expect("the server closes the connection");
                answer
            })
        });
        let [get, post, other] = answers.await.expect("no panic");
        let expect = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
        assert_eq!(String::from_utf8_lossy(&get), expect);
        assert_eq!(String::from_utf8_lossy(&post), expect);
        assert_eq!(other.first(), Some(&21), "{other:?}");
        cluster.stop().await;
    });
}
