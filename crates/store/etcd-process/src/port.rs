//! A port that stays reserved for a server while it is stopped, so that clients find a restarted server again.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// A port of the loopback address, reserved by a socket that is bound but never listens. Connections are refused until
/// the server listens on the port. The operating system does not assign the port to a bind to port 0.
#[derive(Debug)]
pub struct ReservedPort {
    /// The port.
    pub number: u16,
    _socket: TcpSocket,
}

impl ReservedPort {
    /// Reserves a free port.
    ///
    /// # Panics
    /// Panics if there is no free port.
    #[must_use]
    pub fn reserve() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        // Both sockets need SO_REUSEADDR: it lets the server bind to the port as well.
        socket.set_reuseaddr(true).expect("SO_REUSEADDR can be set");
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let number = socket.local_addr().expect("an address").port();
        Self { number, _socket: socket }
    }

    /// The address with the port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.number))
    }
}
