//! The certificate files for etcd. They are read again when they change. Open connections stay open, as with upstream's
//! client.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use pintle_outbound::{ClientCertificate, Dialer, ServerTrust, tls_client_config};

use super::client::{EtcdClient, text_of};
use super::connection::MemberConnection;
use crate::Error;

/// How often the files are compared with the contents in use.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// The files, in PEM. They verify the members and identify this client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdCertificateFiles {
    /// The authority that signs the members' certificates (`--etcd-cafile`).
    pub certificate_authority: Option<PathBuf>,
    /// The client's certificate and its key (`--etcd-certfile`, `--etcd-keyfile`).
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// The contents of the files.
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

/// A connection with the member at a URL. The dialer opens it when it is first needed.
pub(super) fn connect(
    server: &str,
    certificates: &CertificateTexts,
    dialer: &Dialer,
) -> Result<MemberConnection, Error> {
    let CertificateTexts { certificate_authority, identity } = certificates;
    // As in upstream's client, the certificates decide if the URL has no scheme.
    let scheme = if *certificates == CertificateTexts::default() { "http" } else { "https" };
    let url = if server.contains("://") { server.to_owned() } else { format!("{scheme}://{server}") };
    let url: Uri = url.parse().map_err(|error| unavailable(format!("{server}: {error}")))?;
    let tls = || {
        let trust = certificate_authority.as_deref().map_or(ServerTrust::System, ServerTrust::Authorities);
        let identity = identity.as_ref().map(|(chain, key)| ClientCertificate { chain, key });
        tls_client_config(trust, identity).map_err(|error| text_of(&error))
    };
    MemberConnection::new(&url, dialer.clone(), tls).map_err(|error| unavailable(format!("{server}: {error}")))
}

/// Lets new connections use the changed files, until the task is aborted. If files cannot be used, for example while
/// they are being written, they are read again. The log says so once.
pub(super) async fn follow_certificates(
    client: EtcdClient,
    files: EtcdCertificateFiles,
    mut current: CertificateTexts,
    dialer: Dialer,
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
        let used = read.and_then(|read| client.reconnect(|server| connect(server, &read, &dialer)).map(|()| read));
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
