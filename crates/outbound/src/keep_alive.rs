//! TCP keep-alive: the system detects peers that have vanished without closing their connections. Connections without
//! pings have no other detection.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;

/// The interval of probes (Go's default).
const INTERVAL: Duration = Duration::from_secs(15);
/// The number of consecutive probes without an answer after which the connection is closed (Go's default).
const PROBES: u32 = 9;

/// Enables TCP keep-alive for a connection. Probes begin when it was silent for the time `idle`.
///
/// # Errors
/// The socket is not a TCP socket.
pub fn enable_keep_alive(socket: impl AsFd, idle: Duration) -> io::Result<()> {
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, idle)?;
    sockopt::set_tcp_keepintvl(&socket, INTERVAL)?;
    Ok(sockopt::set_tcp_keepcnt(&socket, PROBES)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_has_the_options() -> io::Result<()> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let _client = std::net::TcpStream::connect(listener.local_addr()?)?;
        let (accepted, _) = listener.accept()?;
        assert!(!sockopt::socket_keepalive(&accepted)?);
        let idle = Duration::from_secs(180);
        enable_keep_alive(&accepted, idle)?;
        assert!(sockopt::socket_keepalive(&accepted)?);
        assert_eq!(sockopt::tcp_keepidle(&accepted)?, idle);
        assert_eq!((sockopt::tcp_keepintvl(&accepted)?, sockopt::tcp_keepcnt(&accepted)?), (INTERVAL, PROBES));
        Ok(())
    }
}
