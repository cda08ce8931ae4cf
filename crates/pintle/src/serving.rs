//! The certificates with which the server serves, and the certificate authorities of clients. The files are read again
//! when they change (upstream: `dynamiccertificates`).

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::net::IpAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pintle_locks::{Mutex, RwLock};
use pintle_server::http::{ServingCertificate, TlsConfig, TlsError, TlsProtocols, authorities, server_config};
use pintle_value::names::dns1123_subdomain;
use pintle_x509::Authorities;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::sync::watch;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::certificates::{CertificateError, Certificates};

/// How often the files are compared with the contents in use.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);
/// The name for which clients get the built-in certificate, whatever else is configured (upstream:
/// `server.LoopbackClientServerNameOverride`). The administrator's kubeconfig asks for it.
pub(crate) const LOOPBACK_NAME: &str = "apiserver-loopback-client";

/// The files of a certificate chain and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain, leaf first.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// A certificate for some names (`--tls-sni-cert-key`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCertificate {
    /// The files.
    pub files: CertificateFiles,
    /// Domain patterns, such as `*.example.com`, and IP addresses of this server for clients that ask for no name. If
    /// the list is empty, the certificate's own names count.
    pub names: Vec<String>,
}

impl NamedCertificate {
    /// Parses `CERT,KEY` or `CERT,KEY:NAME,NAME`.
    ///
    /// # Errors
    /// Returns an error if there are not two files, with upstream's text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (files, names) = text.split_once(':').unwrap_or((text, ""));
        let parts: Vec<&str> = files.split(',').map(str::trim).collect();
        let [certificate, key] = parts.as_slice() else {
            return Err("expected comma separated certificate and key file paths".to_owned());
        };
        if certificate.is_empty() || key.is_empty() {
            return Err("expected comma separated certificate and key file paths".to_owned());
        }
        let names = names.split(',').map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty());
        let files = CertificateFiles { certificate: certificate.into(), key: key.into() };
        Ok(Self { files, names: names.collect() })
    }
}

/// The TLS options of the server.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// The certificate for clients that ask for no other name (`--tls-cert-file`, `--tls-private-key-file`). `None`
    /// selects the built-in one.
    pub certificate: Option<CertificateFiles>,
    /// Further names and addresses for which the built-in certificate is valid (`--tls-san`).
    pub names: Vec<String>,
    /// Further certificates by name.
    pub named_certificates: Vec<NamedCertificate>,
    /// Certificate authorities whose client certificates are accepted in addition to the built-in authority's
    /// (`--client-ca-file`).
    pub client_ca: Option<PathBuf>,
    /// Certificate authorities of front proxies, which name users in headers (`--requestheader-client-ca-file`).
    pub request_header_ca: Option<PathBuf>,
    /// Versions and cipher suites.
    pub protocols: TlsProtocols,
}

impl TlsOptions {
    fn files(&self) -> impl Iterator<Item = &Path> {
        let certificates = self.certificate.iter().chain(self.named_certificates.iter().map(|named| &named.files));
        let certificates = certificates.flat_map(|files| [files.certificate.as_path(), files.key.as_path()]);
        certificates.chain(self.client_ca.as_deref()).chain(self.request_header_ca.as_deref())
    }

    /// Reads all files, in the order of [`TlsOptions::files`].
    fn read(&self) -> Result<Vec<Vec<u8>>, CertificateError> {
        let read =
            |path: &Path| fs::read(path).map_err(|error| CertificateError::File { path: path.to_owned(), error });
        self.files().map(read).collect()
    }
}

/// Why TLS cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] CertificateError),
    /// A certificate or key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The TLS configuration in use.
pub(crate) struct ServingTls {
    options: TlsOptions,
    built_in: Mutex<Certificates>,
    /// The contents of the files at the last read, usable or not.
    contents: Mutex<Vec<Vec<u8>>>,
    /// The last contents of the files that were usable.
    usable_contents: Mutex<Vec<Vec<u8>>>,
    config: watch::Sender<Arc<TlsConfig>>,
    clients: RwLock<ClientAuthorities>,
    /// The number of times that [`ServingTls::clients`] was replaced.
    clients_generation: AtomicU64,
}

/// The authorities of clients.
struct ClientAuthorities {
    users: Arc<Authorities>,
    /// `None` without [`TlsOptions::request_header_ca`].
    front_proxies: Option<Arc<Authorities>>,
}

impl fmt::Debug for ServingTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingTls").field("options", &self.options).finish_non_exhaustive()
    }
}

impl ServingTls {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read or used.
    pub(crate) fn load(options: TlsOptions, built_in: Certificates) -> Result<Arc<Self>, ServingError> {
        let contents = options.read()?;
        let (config, clients) = build(&options, &built_in, &contents)?;
        Ok(Arc::new(Self {
            options,
            built_in: Mutex::new(built_in),
            usable_contents: Mutex::new(contents.clone()),
            contents: Mutex::new(contents),
            config: watch::Sender::new(config),
            clients: RwLock::new(clients),
            clients_generation: AtomicU64::new(0),
        }))
    }

    /// True if clients that ask for no name do not get the built-in certificate.
    pub(crate) fn has_certificate(&self) -> bool {
        self.options.certificate.is_some()
    }

    /// The configuration of new connections.
    pub(crate) fn config(&self) -> watch::Receiver<Arc<TlsConfig>> {
        self.config.subscribe()
    }

    /// The number of times that the authorities of clients were replaced.
    pub(crate) fn clients_generation(&self) -> u64 {
        self.clients_generation.load(Ordering::Acquire)
    }

    /// Verifies the certificate of a user at a time since 1970. Returns the period in which the result stays the same.
    ///
    /// # Errors
    /// The certificate is not valid. The error is the reason.
    pub(crate) fn verify_user(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: Duration,
    ) -> Result<Range<Duration>, String> {
        let authorities = self.clients.read().users.clone();
        verify(&authorities, leaf, intermediates, now)
    }

    /// Verifies the certificate of a front proxy at a time since 1970. Returns the period in which the result stays the
    /// same.
    ///
    /// # Errors
    /// The certificate is not valid. The error is the reason.
    pub(crate) fn verify_front_proxy(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: Duration,
    ) -> Result<Range<Duration>, String> {
        let authorities = self.clients.read().front_proxies.clone();
        verify(&*authorities.ok_or("there is no authority of front proxies")?, leaf, intermediates, now)
    }

    /// The authorities of users and of front proxies, in PEM.
    pub(crate) fn client_authorities(&self) -> (String, String) {
        let contents = self.usable_contents.lock();
        let mut last = contents.iter().rev().map(|content| String::from_utf8_lossy(content).into_owned());
        let mut next = |file: &Option<PathBuf>| file.as_ref().and_then(|_| last.next()).unwrap_or_default();
        let front_proxies = next(&self.options.request_header_ca);
        let users = next(&self.options.client_ca);
        (format!("{}\n{users}", self.built_in.lock().authority.certificate), front_proxies)
    }

    /// True if there may be front proxies.
    pub(crate) fn has_front_proxies(&self) -> bool {
        self.options.request_header_ca.is_some()
    }

    /// The built-in certificates in use.
    pub(crate) fn built_in(&self) -> Certificates {
        self.built_in.lock().clone()
    }

    /// Uses other built-in certificates for new connections. `save` stores the certificates. It is called only if TLS
    /// can be configured with them.
    ///
    /// # Errors
    /// The certificates cannot be used or saved. The certificates in use stay.
    pub(crate) fn set_built_in(
        &self,
        built_in: Certificates,
        save: impl FnOnce(&Certificates) -> Result<(), CertificateError>,
    ) -> Result<(), ServingError> {
        let (config, clients) = build(&self.options, &built_in, &self.usable_contents.lock())?;
        save(&built_in)?;
        *self.built_in.lock() = built_in;
        self.replace(config, clients);
        Ok(())
    }

    /// Uses another configuration for new connections, and other authorities for the next request of each connection.
    fn replace(&self, config: Arc<TlsConfig>, clients: ClientAuthorities) {
        *self.clients.write() = clients;
        self.clients_generation.fetch_add(1, Ordering::Release);
        self.config.send_replace(config);
    }

    /// Reloads the files whenever one has changed. Errors are logged, and the certificates in use stay.
    pub(crate) async fn reload_when_changed(self: Arc<Self>) {
        if self.options.files().next().is_none() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            let contents = match self.options.read() {
                Ok(contents) => contents,
                Err(error) => {
                    tracing::warn!(%error, "Failed to read the certificates of the server, those in use stay");
                    continue;
                }
            };
            if contents == *self.contents.lock() {
                continue;
            }
            let built = build(&self.options, &self.built_in.lock(), &contents);
            match built {
                Ok((config, clients)) => {
                    self.replace(config, clients);
                    (*self.usable_contents.lock()).clone_from(&contents);
                    tracing::info!("Reloaded the certificates of the server");
                }
                // Another change may follow: a certificate and its key are two files.
                Err(error) => tracing::warn!(%error, "Failed to use the changed certificates, those in use stay"),
            }
            *self.contents.lock() = contents;
        }
    }
}

/// Configures TLS with the contents of the files.
fn build(
    options: &TlsOptions,
    built_in: &Certificates,
    contents: &[Vec<u8>],
) -> Result<(Arc<TlsConfig>, ClientAuthorities), TlsError> {
    let mut contents = contents.iter();
    let mut next = || contents.next().cloned().unwrap_or_default();
    let mut certificates = Vec::new();
    if options.certificate.is_some() {
        certificates.push(ServingCertificate { certificate: next(), key: next(), names: Vec::new() });
    }
    for named in &options.named_certificates {
        let (certificate, key) = (next(), next());
        let names = if named.names.is_empty() { dns_names(&certificate) } else { named.names.clone() };
        certificates.push(ServingCertificate { certificate, key, names });
    }
    // As in upstream, patterns that are given count before names of certificates.
    let given: HashSet<&String> = options.named_certificates.iter().flat_map(|named| &named.names).collect();
    let first_named = certificates.len() - options.named_certificates.len();
    for (named, certificate) in options.named_certificates.iter().zip(&mut certificates[first_named..]) {
        certificate.names.retain(|name| !named.names.is_empty() || !given.contains(name));
    }
    let own = ServingCertificate {
        certificate: built_in.serving.certificate.clone().into_bytes(),
        key: built_in.serving.key.clone().into_bytes(),
        names: vec![LOOPBACK_NAME.to_owned()],
    };
    // The first certificate is the default one.
    let position = if options.certificate.is_some() { certificates.len() } else { 0 };
    certificates.insert(position, own);
    let mut users = built_in.authority.certificate.clone().into_bytes();
    if options.client_ca.is_some() {
        let others = next();
        // The file is checked by itself, because it may have no authority while it is rewritten. The built-in authority
        // would hide that.
        authorities(&others)?;
        users.push(b'\n');
        users.extend(others);
    }
    let users = authorities(&users)?;
    let front_proxies = options.request_header_ca.as_ref().map(|_| authorities(&next())).transpose()?;
    let clients = ClientAuthorities { users, front_proxies };
    let all: Vec<&Authorities> = std::iter::once(&clients.users).chain(&clients.front_proxies).map(|a| &**a).collect();
    let config = server_config(&certificates, &all, &options.protocols)?;
    Ok((config, clients))
}

fn verify(
    authorities: &Authorities,
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    now: Duration,
) -> Result<Range<Duration>, String> {
    let intermediates: Vec<&[u8]> = intermediates.iter().map(AsRef::as_ref).collect();
    authorities
        .verify_client(leaf, &intermediates, now)
        .map_err(|error| format!("verifying certificate failed: {error}"))
}

/// The DNS names that a certificate is valid for, in lower case, and its common name if it is a DNS name. The
/// certificate's addresses do not count (upstream: `getCertificateNames`).
fn dns_names(pem: &[u8]) -> Vec<String> {
    let Some(Ok(leaf)) = CertificateDer::pem_slice_iter(pem).next() else { return Vec::new() };
    let Ok((_, certificate)) = X509Certificate::from_der(&leaf) else { return Vec::new() };
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let mut names: Vec<String> = alternative
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| if let GeneralName::DNSName(name) = name { Some(name.to_ascii_lowercase()) } else { None })
        .collect();
    let common = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    let is_name = |name: &&str| {
        name.parse::<IpAddr>().is_err()
            && (*name == "*" || dns1123_subdomain(name.strip_prefix("*.").unwrap_or(name)).is_empty())
    };
    names.extend(common.filter(is_name).map(str::to_owned));
    names
}
