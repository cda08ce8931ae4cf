//! The connections with the members of etcd, and the files of their certificates. The files are read again when they change;
//! connections that are open stay open, as those of upstream's client.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use super::client::{EtcdClient, text_of};
use crate::Error;

/// How long connecting to a member may take, and the handshake of TLS. Calls that have not been sent by then are sent to
/// another one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How many bytes of an answer may be on their way. Pages and histories are large.
const STREAM_WINDOW: u32 = 2 << 20;
/// How often the files are compared with what is in use.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// The files, in PEM, with which members are verified and with which this client identifies itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdCertificateFiles {
    /// The authority that signs the members' certificates (`--etcd-cafile`).
    pub certificate_authority: Option<PathBuf>,
    /// The client's certificate and its key (`--etcd-certfile`, `--etcd-keyfile`).
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// What the files contain.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct CertificateTexts {
    certificate_authority: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for CertificateTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateTexts").finish_non_exhaustive()
    }
}

impl EtcdCertificateFiles {
    /// True if there are no files.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads the files.
    pub(super) fn read(&self) -> Result<CertificateTexts, Error> {
        let read =
            |path: &Path| std::fs::read(path).map_err(|error| unavailable(format!("{}: {error}", path.display())));
        let identity = match &self.identity {
            Some((certificate, key)) => Some((read(certificate)?, read(key)?)),
            None => None,
        };
        let certificate_authority = self.certificate_authority.as_deref().map(read).transpose()?;
        Ok(CertificateTexts { certificate_authority, identity })
    }
}

fn unavailable(detail: String) -> Error {
    Error::Unavailable { detail }
}

/// A connection with a member, which is made when it is first needed, and again when it has ended.
pub(super) fn connect(server: &str, certificates: &CertificateTexts) -> Result<Channel, Error> {
    let invalid = |error: &dyn std::error::Error| unavailable(text_of(error));
    let endpoint = Endpoint::from_shared(server.to_owned()).map_err(|error| invalid(&error))?;
    // As upstream's client: a connection that does not answer pings is closed (`keepaliveTime`, `keepaliveTimeout`).
    let mut endpoint = endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(10))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(2 * STREAM_WINDOW)
        .tcp_nodelay(true);
    if server.starts_with("https://") {
        let mut tls = ClientTlsConfig::new().timeout(CONNECT_TIMEOUT);
        if let Some(authority) = &certificates.certificate_authority {
            tls = tls.ca_certificate(Certificate::from_pem(authority));
        }
        if let Some((certificate, key)) = &certificates.identity {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        endpoint = endpoint.tls_config(tls).map_err(|error| invalid(&error))?;
    }
    Ok(endpoint.connect_lazy())
}

/// Lets new connections use what the files contain, until the task is aborted. Files that cannot be used, as those that are
/// being written, are read again; the log says so once.
pub(super) async fn follow_certificates(
    client: EtcdClient,
    files: EtcdCertificateFiles,
    mut current: CertificateTexts,
) {
    let mut logged = None;
    loop {
        tokio::time::sleep(RELOAD_INTERVAL).await;
        let read = match files.read() {
            Ok(read) if read == current => {
                logged = None;
                continue;
            }
            read => read,
        };
        let used = read.and_then(|read| client.reconnect(|server| connect(server, &read)).map(|()| read));
        match used {
            Ok(read) => {
                (current, logged) = (read, None);
                tracing::info!("Certificates for etcd have changed");
            }
            Err(error) => {
                let error = error.to_string();
                if logged.as_ref() != Some(&error) {
                    tracing::error!(error, "Failed to read the certificates for etcd, will retry");
                    logged = Some(error);
                }
            }
        }
    }
}
