//! The request for a tunnel, and the proxy's answer (upstream: `tunnelHTTPConnect`; Go: `http.ReadResponse`, whose
//! errors are matched).

use std::io::{self, Cursor};

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, join, split};

use crate::client::DialAddress;
use crate::dialer::Transport;
use crate::error::{ErrorCause, go_tls_error};

/// Maximum size of the head of an answer (Go: `http.DefaultMaxHeaderBytes`).
const MAX_HEAD_BYTES: u64 = 1 << 20;
/// How many bytes of an answer are read at once (Go: the buffer of `bufio.Reader`).
const READ_BUFFER_BYTES: usize = 4096;
const UNEXPECTED_EOF: &str = "unexpected EOF";

/// Asks the proxy at the other end of a stream for a tunnel. The host may speak first, so bytes after the answer are the
/// first bytes of the tunnel. Upstream refuses them.
///
/// # Errors
/// The proxy refuses, or its answer is not HTTP or too long.
pub(crate) async fn request_tunnel(
    mut stream: Transport,
    target: &DialAddress,
    proxy: &str,
) -> Result<Transport, ErrorCause> {
    // The host may come from an object. It must not become another part of the request.
    if target.host.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(ErrorCause::MissingHost);
    }
    let target = target.to_string();
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let answered = async {
        stream.write_all(request.as_bytes()).await.map_err(|error| go_tls_error(&error))?;
        stream.flush().await.map_err(|error| go_tls_error(&error))?;
        let mut reader = BufReader::with_capacity(READ_BUFFER_BYTES, (&mut stream).take(MAX_HEAD_BYTES));
        let answer = read_answer(&mut reader).await?;
        Ok((answer, reader.buffer().to_vec()))
    };
    let answered: Result<(Answer, Vec<u8>), String> = answered.await;
    match answered {
        Ok((Answer { code: 200, .. }, first)) if first.is_empty() => Ok(stream),
        Ok((Answer { code: 200, .. }, first)) => {
            let (reader, writer) = split(stream);
            Ok(Box::new(join(Cursor::new(first).chain(reader), writer)))
        }
        Ok((Answer { code, status }, _)) => {
            Err(ErrorCause::ProxyRefusal { target, proxy: proxy.to_owned(), code, status })
        }
        Err(error) => Err(ErrorCause::ProxyAnswer { target, proxy: proxy.to_owned(), error }),
    }
}

/// The answer of a proxy.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    code: u16,
    /// The status line without the version.
    status: String,
}

/// Reads the head of an answer. The error has Go's text.
async fn read_answer(reader: &mut (impl AsyncBufRead + Unpin)) -> Result<Answer, String> {
    let line = read_line(reader).await?;
    let Some((version, status)) = line.split_once(' ') else {
        return Err(format!("malformed HTTP response {line:?}"));
    };
    let status = status.trim_start_matches(' ').to_owned();
    let code = status.split(' ').next().unwrap_or_default();
    let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
    let Some(code) = code.parse().ok().filter(|_| is_code) else {
        return Err(format!("malformed HTTP status code {code:?}"));
    };
    if !is_version(version) {
        return Err(format!("malformed HTTP version {version:?}"));
    }
    loop {
        let line = read_line(reader).await?;
        if line.is_empty() {
            return Ok(Answer { code, status });
        }
        if !line.contains(':') && !line.starts_with([' ', '\t']) {
            return Err(format!("malformed MIME header: missing colon: {line:?}"));
        }
    }
}

/// Reads a line, without its end.
async fn read_line(reader: &mut (impl AsyncBufRead + Unpin)) -> Result<String, String> {
    let mut line = Vec::new();
    let read = reader.read_until(b'\n', &mut line).await;
    let _ = read.map_err(|error: io::Error| go_tls_error(&error))?;
    let line = line.strip_suffix(b"\n").ok_or(UNEXPECTED_EOF)?;
    Ok(String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned())
}

/// True for a version such as `HTTP/1.1` (Go: `http.ParseHTTPVersion`).
fn is_version(text: &str) -> bool {
    let digits = text.strip_prefix("HTTP/").map(str::as_bytes);
    matches!(digits, Some([major, b'.', minor]) if major.is_ascii_digit() && minor.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    async fn check(text: &str, expect: Result<(u16, &str), &str>) {
        let found = read_answer(&mut text.as_bytes()).await;
        let expect = expect.map(|(code, status)| Answer { code, status: status.to_owned() });
        assert_eq!(found, expect.map_err(str::to_owned), "{text:?}");
    }

    #[tokio::test]
    async fn answers_are_read_as_go_reads_them() {
        for (text, expect) in [
            ("HTTP/1.1 200 OK\r\n\r\n", Ok((200, "200 OK"))),
            ("HTTP/1.0  200\n\n", Ok((200, "200"))),
            ("HTTP/1.1 403 Not here\r\nA: b\r\n c\r\nD:\r\n\r\nbody", Ok((403, "403 Not here"))),
            ("", Err("unexpected EOF")),
            ("HTTP/1.1 200 OK", Err("unexpected EOF")),
            ("HTTP/1.1 200 OK\r\nA: b\r\n", Err("unexpected EOF")),
            ("garbage\r\n", Err("malformed HTTP response \"garbage\"")),
            ("SSH-2.0 x\r\n", Err("malformed HTTP status code \"x\"")),
            ("HTTP/1.1 +20 x\r\n", Err("malformed HTTP status code \"+20\"")),
            ("HTTP/11 200 OK\r\n", Err("malformed HTTP version \"HTTP/11\"")),
            ("HTTP/1.1 200 OK\r\nab\r\n\r\n", Err("malformed MIME header: missing colon: \"ab\"")),
        ] {
            check(text, expect).await;
        }
    }

    #[tokio::test]
    async fn bytes_after_the_answer_are_the_first_of_the_tunnel() {
        let (client, mut proxy) = duplex(1024);
        proxy.write_all(b"HTTP/1.1 200 OK\r\n\r\nfirst").await.expect("a client");
        let target = DialAddress { host: "a".to_owned(), port: 1 };
        let mut tunnel = request_tunnel(Box::new(client), &target, "proxy").await.expect("a tunnel");
        tunnel.write_all(b"question").await.expect("a proxy");
        proxy.write_all(b", second").await.expect("a client");
        let mut found = [0; 13];
        let _ = tunnel.read_exact(&mut found).await.expect("an answer");
        assert_eq!(&found, b"first, second");
        drop(tunnel);
        let mut sent = String::new();
        let _ = proxy.read_to_string(&mut sent).await.expect("an end");
        assert_eq!(sent, "CONNECT a:1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nquestion");
    }
}
