//! A port that stays the cluster's own while no server listens there, so that a server that comes back is found where
//! it was and nobody else has taken its place.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// A port of the loopback address. Its socket is bound but never listens: connections are refused until a server does,
/// and the system gives the port to no one who asks for any that is free.
pub(crate) struct Port {
    pub(crate) number: u16,
    _socket: TcpSocket,
}

impl Port {
    pub(crate) fn take() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        // Both sockets need this for the server's to be bound beside this one.
        socket.set_reuseaddr(true).expect("a socket that shares its address");
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let number = socket.local_addr().expect("an address").port();
        Self { number, _socket: socket }
    }
}
