//! A TCP proxy whose connections can be delayed, silenced and cut.

use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

/// How a proxy treats bytes and connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Passes everything on.
    Open,
    /// Passes everything on, this much later.
    Delayed(Duration),
    /// Passes nothing on until the link is open again, like a network that loses packets.
    Silent,
    /// Passes on the bytes of clients, and holds the answers back until the link is open again.
    HalfOpen,
    /// Closes all open connections, and each new connection at once.
    Closed,
}

/// A running proxy, which ends when this value is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    link: watch::Sender<Link>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Proxy {
    /// Starts a proxy on a free port.
    ///
    /// # Panics
    /// Panics if the operating system gives it no port or thread.
    #[must_use]
    pub fn start(target: SocketAddr) -> Self {
        let link = watch::Sender::new(Link::Open);
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let links = link.subscribe();
        // The proxy has its own runtime, so that it does not depend on the runtime of a test.
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).expect("a listener");
                tokio::select! {
                    () = accept(listener, links, target) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, link, stop: Some(stop), thread: Some(thread) }
    }

    /// The proxy's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The proxy's address as the URL of an etcd member.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes how the proxy treats all connections from now on.
    pub fn set(&self, link: Link) {
        self.link.send_replace(link);
    }
}

async fn accept(listener: TcpListener, links: watch::Receiver<Link>, target: SocketAddr) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let links = links.clone();
        tokio::spawn(async move {
            // A connection that fails is closed; neither side learns more.
            let _ = connect(client, target, links).await;
        });
    }
}

/// Serves a connection until either side or the link closes it.
async fn connect(client: TcpStream, target: SocketAddr, links: watch::Receiver<Link>) -> io::Result<()> {
    let mut closed = links.clone();
    if *closed.borrow_and_update() == Link::Closed {
        return Ok(());
    }
    let server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_reader, client_writer) = client.into_split();
    let (server_reader, server_writer) = server.into_split();
    tokio::select! {
        result = copy(client_reader, server_writer, links.clone(), &[Link::Silent]) => result,
        result = copy(server_reader, client_writer, links, &[Link::Silent, Link::HalfOpen]) => result,
        _ = closed.wait_for(|link| *link == Link::Closed) => Ok(()),
    }
}

/// Copies bytes in one direction. Waits while the link is one of `holding`.
async fn copy(
    mut reader: OwnedReadHalf,
    mut writer: OwnedWriteHalf,
    mut links: watch::Receiver<Link>,
    holding: &[Link],
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = reader.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        let link = *links.borrow_and_update();
        if let Link::Delayed(time) = link {
            tokio::time::sleep(time).await;
        }
        if links.wait_for(|link| !holding.contains(link)).await.is_err() {
            return Ok(());
        }
        writer.write_all(&buffer[..length]).await?;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream as StdStream;

    use super::*;

    /// A server that sends back each byte that it receives, and a proxy before it.
    fn echo() -> Proxy {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || {
                    let mut copy = stream.try_clone().expect("a handle");
                    let _ = io::copy(&mut stream, &mut copy);
                });
            }
        });
        Proxy::start(address)
    }

    fn read(stream: &mut StdStream) -> io::Result<[u8; 1]> {
        let mut byte = [0];
        stream.read_exact(&mut byte).map(|()| byte)
    }

    #[test]
    fn connections_are_held_and_cut() {
        let proxy = echo();
        let mut stream = StdStream::connect(proxy.address()).expect("a connection");
        stream.write_all(b"a").expect("open");
        assert_eq!(read(&mut stream).expect("open"), *b"a");
        for link in [Link::Silent, Link::HalfOpen] {
            proxy.set(link);
            stream.write_all(b"b").expect("it is held back");
            stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a limit");
            assert_eq!(read(&mut stream).expect_err("nothing").kind(), io::ErrorKind::WouldBlock, "{link:?}");
            stream.set_read_timeout(None).expect("no limit");
            proxy.set(Link::Delayed(Duration::from_millis(1)));
            assert_eq!(read(&mut stream).expect("late"), *b"b", "{link:?}");
        }
        proxy.set(Link::Closed);
        assert!(read(&mut stream).is_err(), "it is cut");
        let mut refused = StdStream::connect(proxy.address()).expect("it listens");
        assert!(read(&mut refused).is_err(), "it is closed at once");
        proxy.set(Link::Open);
        let mut stream = StdStream::connect(proxy.address()).expect("a connection");
        stream.write_all(b"c").expect("open");
        assert_eq!(read(&mut stream).expect("open"), *b"c");
    }
}
