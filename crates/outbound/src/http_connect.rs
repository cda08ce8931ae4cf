//! The request for a tunnel, and the proxy's answer (upstream: `tunnelHTTPConnect`; Go: `http.ReadResponse`, whose
//! errors are matched).

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use crate::client::DialAddress;
use crate::dialer::Transport;
use crate::error::{ErrorCause, go_tls_error};

/// Maximum size of the head of an answer (Go: `http.DefaultMaxHeaderBytes`).
const MAX_HEAD_BYTES: u64 = 1 << 20;
/// How many bytes of an answer are read at once (Go: the buffer of `bufio.Reader`).
const READ_BUFFER_BYTES: usize = 4096;
const UNEXPECTED_EOF: &str = "unexpected EOF";

/// Asks the proxy at the other end of a stream for a tunnel.
///
/// # Errors
/// The proxy refuses, its answer is not HTTP or too long, or it sends bytes that belong to no answer. As in upstream,
/// the latter are refused: the client speaks first in TLS.
pub(crate) async fn request_tunnel(
    stream: &mut Transport,
    target: &DialAddress,
    proxy: &str,
) -> Result<(), ErrorCause> {
    // The host may come from an object. It must not become another part of the request.
    if target.host.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(ErrorCause::MissingHost);
    }
    let target = target.to_string();
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let answered = async {
        stream.write_all(request.as_bytes()).await.map_err(|error| go_tls_error(&error))?;
        stream.flush().await.map_err(|error| go_tls_error(&error))?;
        read_answer(&mut BufReader::with_capacity(READ_BUFFER_BYTES, stream.take(MAX_HEAD_BYTES))).await
    };
    let answered: Result<Answer, String> = answered.await;
    let proxy = proxy.to_owned();
    match answered {
        Err(error) => Err(ErrorCause::ProxyAnswer { target, proxy, error }),
        Ok(Answer { code: 200, surplus: 0, .. }) => Ok(()),
        Ok(Answer { code: 200, surplus, .. }) => Err(ErrorCause::ProxyData { proxy, bytes: surplus }),
        Ok(Answer { code, status, .. }) => Err(ErrorCause::ProxyRefusal { target, proxy, code, status }),
    }
}

/// The answer of a proxy.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    code: u16,
    /// The status line without the version.
    status: String,
    /// The number of bytes that have arrived after the head.
    surplus: usize,
}

/// Reads the head of an answer. The error has Go's text.
async fn read_answer<R>(reader: &mut BufReader<R>) -> Result<Answer, String>
where
    BufReader<R>: AsyncBufRead + Unpin,
    R: tokio::io::AsyncRead,
{
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
            return Ok(Answer { code, status, surplus: reader.buffer().len() });
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
    use super::*;

    async fn check(text: &str, expect: Result<(u16, &str, usize), &str>) {
        let found = read_answer(&mut BufReader::new(text.as_bytes())).await;
        let expect = expect.map(|(code, status, surplus)| Answer { code, status: status.to_owned(), surplus });
        assert_eq!(found, expect.map_err(str::to_owned), "{text:?}");
    }

    #[tokio::test]
    async fn answers_are_read_as_go_reads_them() {
        for (text, expect) in [
            ("HTTP/1.1 200 OK\r\n\r\n", Ok((200, "200 OK", 0))),
            ("HTTP/1.0  200\n\n", Ok((200, "200", 0))),
            ("HTTP/1.1 403 Not here\r\nA: b\r\n c\r\nD:\r\n\r\nbody", Ok((403, "403 Not here", 4))),
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
}
