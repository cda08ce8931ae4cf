//! The client certificate with which the server calls the API servers of APIServices. It is the server's own one, or comes
//! from files that are read again when they change (upstream: `dynamiccertificates.DynamicCertKeyPairContent`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pintle_outbound::{ClientCertificate, ServerTrust, tls_client_config};
use pintle_server::{AggregationOptions, FrontProxyCertificate};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;
use tokio::sync::watch;

use crate::certificates::Certificates;
use crate::config_file::{self, RELOAD_INTERVAL};
use crate::serving::{CertificateFiles, ServingTls};

/// How the API servers of APIServices are called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AggregatorOptions {
    /// The files with the client certificate (`--proxy-client-cert-file`, `--proxy-client-key-file`). `None` selects
    /// the server's own one.
    pub client_certificate: Option<CertificateFiles>,
    /// Whether the server connects to an endpoint of a service instead of its cluster IP
    /// (`--enable-aggregator-routing`).
    pub routes_to_endpoints: bool,
    /// Whether redirects are passed on to clients (`--aggregator-reject-forwarding-redirect`).
    pub forwards_redirects: bool,
}

/// The client certificate in use.
pub(crate) struct FrontProxyIdentity {
    options: AggregatorOptions,
    certificate: watch::Sender<Option<Arc<FrontProxyCertificate>>>,
}

impl fmt::Debug for FrontProxyIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontProxyIdentity").field("options", &self.options).finish_non_exhaustive()
    }
}

impl FrontProxyIdentity {
    /// Reads the files, or uses the server's own certificate without files.
    ///
    /// # Errors
    /// A file cannot be read or used.
    pub(crate) fn load(options: AggregatorOptions, built_in: &Certificates) -> Result<Arc<Self>, String> {
        let certificate = match &options.client_certificate {
            Some(files) => {
                let certificate = read(files)?;
                check(files, &certificate)?;
                certificate
            }
            None => own(built_in),
        };
        Ok(Arc::new(Self { options, certificate: watch::Sender::new(Some(Arc::new(certificate))) }))
    }

    /// How the API servers of APIServices are reached, for the parts of the server that call them.
    pub(crate) fn aggregation(&self) -> AggregationOptions {
        AggregationOptions {
            client_certificate: self.certificate.subscribe(),
            routes_to_endpoints: self.options.routes_to_endpoints,
            forwards_redirects: self.options.forwards_redirects,
        }
    }

    /// True if the server's own certificate is used.
    pub(crate) fn is_built_in(&self) -> bool {
        self.options.client_certificate.is_none()
    }

    /// Uses other built-in certificates, unless there are files.
    pub(crate) fn set_built_in(&self, built_in: &Certificates) {
        if self.is_built_in() {
            self.replace(own(built_in));
        }
    }

    /// Logs a warning if aggregated servers, which trust the configured authorities of front proxies, refuse the
    /// server's own certificate.
    pub(crate) fn warn_if_refused(&self, tls: &ServingTls, now: OffsetDateTime) {
        if self.is_refused(tls, now) {
            tracing::warn!(
                target: "pintle::start",
                "Aggregated servers will not accept this server: --requestheader-client-ca-file is set without \
                 --proxy-client-cert-file and --proxy-client-key-file"
            );
        }
    }

    fn is_refused(&self, tls: &ServingTls, now: OffsetDateTime) -> bool {
        if !self.is_built_in() || !tls.has_front_proxies() {
            return false;
        }
        let certificate = self.certificate.borrow().clone();
        let leaf = certificate.and_then(|certificate| CertificateDer::from_pem_slice(&certificate.chain).ok());
        leaf.is_none_or(|leaf| tls.verify_front_proxy(&leaf, &[], since_1970(now)).is_err())
    }

    /// Reloads the files whenever one has changed. Errors are logged, and the certificate in use stays.
    pub(crate) async fn reload_when_changed(self: Arc<Self>) {
        let Some(files) = &self.options.client_certificate else { return std::future::pending().await };
        let mut last = None;
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            self.reload(files, &mut last);
        }
    }

    /// Reads the files once. `last` is the result of the previous call.
    fn reload(&self, files: &CertificateFiles, last: &mut Option<Result<FrontProxyCertificate, String>>) {
        let read = read(files);
        if last.as_ref() == Some(&read) {
            return;
        }
        *last = Some(read.clone());
        // A certificate and its key are two files. After a change of one, the pair may be unusable for a while.
        match read.and_then(|certificate| check(files, &certificate).map(|()| certificate)) {
            Ok(certificate) => self.replace(certificate),
            Err(error) => tracing::error!(error, "Failed to reload the client certificate for aggregated servers"),
        }
    }

    fn replace(&self, certificate: FrontProxyCertificate) {
        let is_replaced = self.certificate.send_if_modified(|current| {
            let is_new = current.as_deref() != Some(&certificate);
            if is_new {
                *current = Some(Arc::new(certificate));
            }
            is_new
        });
        if is_replaced {
            tracing::info!("Replaced the client certificate for aggregated servers");
        }
    }
}

fn since_1970(time: OffsetDateTime) -> Duration {
    Duration::from_secs(u64::try_from(time.unix_timestamp()).unwrap_or_default())
}

/// The server's own certificate.
fn own(built_in: &Certificates) -> FrontProxyCertificate {
    let pair = &built_in.front_proxy;
    FrontProxyCertificate { chain: pair.certificate.clone().into_bytes(), key: pair.key.clone().into_bytes() }
}

/// Reads the files. Errors have Go's message.
fn read(files: &CertificateFiles) -> Result<FrontProxyCertificate, String> {
    Ok(FrontProxyCertificate { chain: config_file::read(&files.certificate)?, key: config_file::read(&files.key)? })
}

/// Checks that a client can present the certificate.
fn check(files: &CertificateFiles, certificate: &FrontProxyCertificate) -> Result<(), String> {
    let client = ClientCertificate { chain: &certificate.chain, key: &certificate.key };
    // The trust has no effect, because the client connects to no server.
    let checked = tls_client_config(ServerTrust::InsecureSkipVerify, Some(client));
    checked.map(drop).map_err(|error| format!("{} and {}: {error}", files.certificate.display(), files.key.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use pintle_auth::{AuthenticationTrust, RequestHeaderNames};
    use pintle_gates::FeatureGatesFlag;

    use super::*;
    use crate::access::AccessOptions;
    use crate::certificates::CertificateAndKey;
    use crate::serving::TlsOptions;

    fn now() -> OffsetDateTime {
        OffsetDateTime::now_utc()
    }

    fn certificates() -> Certificates {
        Certificates::generate(&[], now()).expect("certificates")
    }

    /// Writes a certificate and its key.
    fn write(folder: &Path, pair: &CertificateAndKey) -> CertificateFiles {
        let files = CertificateFiles { certificate: folder.join("client.crt"), key: folder.join("client.key") };
        fs::write(&files.certificate, &pair.certificate).expect("a file");
        fs::write(&files.key, &pair.key).expect("a file");
        files
    }

    fn load(files: Option<CertificateFiles>, built_in: &Certificates) -> Result<Arc<FrontProxyIdentity>, String> {
        let options =
            AggregatorOptions { client_certificate: files, routes_to_endpoints: true, forwards_redirects: false };
        FrontProxyIdentity::load(options, built_in)
    }

    /// The chain of the certificate in use.
    fn chain(identity: &FrontProxyIdentity) -> String {
        let certificate = identity.aggregation().client_certificate.borrow().clone().expect("a certificate");
        String::from_utf8(certificate.chain.clone()).expect("PEM")
    }

    #[test]
    fn files_are_read_again_and_broken_ones_change_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let [built_in, first, second] = [(); 3].map(|()| certificates());
        let files = write(folder.path(), &first.admin);
        let identity = load(Some(files.clone()), &built_in).expect("an identity");
        assert!(identity.aggregation().routes_to_endpoints);
        let mut receiver = identity.aggregation().client_certificate;
        let mut last = None;
        identity.reload(&files, &mut last);
        identity.set_built_in(&certificates());
        assert!(!receiver.has_changed().expect("a sender"));
        assert_eq!(chain(&identity), first.admin.certificate);
        // The key does not belong to the certificate yet.
        fs::write(&files.certificate, &second.admin.certificate).expect("a file");
        identity.reload(&files, &mut last);
        fs::remove_file(&files.key).expect("a file");
        identity.reload(&files, &mut last);
        assert!(!receiver.has_changed().expect("a sender"));
        assert_eq!(chain(&identity), first.admin.certificate);
        fs::write(&files.key, &second.admin.key).expect("a file");
        identity.reload(&files, &mut last);
        assert!(receiver.has_changed().expect("a sender"));
        let found = receiver.borrow_and_update().clone().expect("a certificate");
        assert_eq!((&*found.chain, &*found.key), (second.admin.certificate.as_bytes(), second.admin.key.as_bytes()));
        assert!(!format!("{found:?}").contains("BEGIN"), "the key is not printed");
    }

    #[test]
    fn a_server_does_not_start_with_files_that_cannot_be_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let (built_in, other) = (certificates(), certificates());
        let files = write(folder.path(), &built_in.admin);
        let error = || load(Some(files.clone()), &built_in).expect_err("an error");
        let names = format!("{} and {}: ", files.certificate.display(), files.key.display());
        for (certificate, key) in [("", &*built_in.admin.key), (&built_in.admin.certificate, &other.admin.key)] {
            fs::write(&files.certificate, certificate).expect("a file");
            fs::write(&files.key, key).expect("a file");
            let error = error();
            assert!(error.starts_with(&format!("{names}the client certificate cannot be used: ")), "{error}");
        }
        fs::write(&files.key, "x").expect("a file");
        assert!(error().starts_with(&format!("{names}the client certificate cannot be read: ")), "{}", error());
        fs::remove_file(&files.key).expect("a file");
        assert_eq!(error(), format!("open {}: no such file or directory", files.key.display()));
    }

    /// The trust that a server publishes for aggregated servers. The arguments are the authority of front proxies, the
    /// files of a client certificate, and the feature gates.
    fn trust(
        request_header_ca: Option<&str>,
        has_files: bool,
        built_in: &Certificates,
        gates: &str,
    ) -> AuthenticationTrust {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("proxies.crt");
        let request_header_ca = request_header_ca.map(|pem| {
            fs::write(&path, pem).expect("a file");
            path
        });
        let tls = TlsOptions { request_header_ca, ..TlsOptions::default() };
        let tls = ServingTls::load(tls, built_in.clone()).expect("TLS");
        let files = has_files.then(|| write(folder.path(), &built_in.admin));
        let identity = load(files, built_in).expect("an identity");
        let request_headers = RequestHeaderNames { username: vec!["X-User".to_owned()], ..Default::default() };
        let access = AccessOptions { request_headers, ..AccessOptions::default() };
        let mut flag = FeatureGatesFlag::default();
        flag.add(gates);
        let (gates, _) = flag.gates(pintle_versions::EffectiveVersion::default()).expect("gates");
        access.authentication_trust(&tls, identity.is_built_in(), &gates)
    }

    #[test]
    fn aggregated_servers_trust_the_certificate_with_which_they_are_called() {
        let (built_in, other) = (certificates(), certificates());
        let other = &*other.authority.certificate;
        let texts = |text: &str| vec![text.to_owned()];
        for (gates, uid) in [("", "X-Remote-Uid"), ("RemoteRequestHeaderUID=false", "")] {
            let expect = AuthenticationTrust {
                client_ca: format!("{}\n", built_in.authority.certificate),
                request_header_ca: built_in.front_proxy_authority.certificate.clone(),
                username_headers: texts("X-Remote-User"),
                uid_headers: Some(uid).filter(|uid| !uid.is_empty()).map(texts).unwrap_or_default(),
                group_headers: texts("X-Remote-Group"),
                extra_header_prefixes: texts("X-Remote-Extra-"),
                allowed_names: texts("front-proxy-client"),
            };
            assert_eq!(trust(None, false, &built_in, gates), expect);
        }
        let configured = |request_header_ca: &str| AuthenticationTrust {
            client_ca: format!("{}\n", built_in.authority.certificate),
            request_header_ca: request_header_ca.to_owned(),
            username_headers: texts("X-User"),
            ..AuthenticationTrust::default()
        };
        assert_eq!(trust(None, true, &built_in, ""), configured(""));
        assert_eq!(trust(None, true, &built_in, "").data().len(), 1);
        assert_eq!(trust(Some(other), false, &built_in, ""), configured(other));
        assert_eq!(trust(Some(other), true, &built_in, ""), configured(other));
    }

    #[test]
    fn the_own_certificate_is_refused_unless_its_authority_is_configured() {
        let (built_in, other) = (certificates(), certificates());
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("proxies.crt");
        let identity = load(None, &built_in).expect("an identity");
        for (authority, expect) in [
            (None, false),
            (Some(&other.front_proxy_authority), true),
            (Some(&built_in.authority), true),
            (Some(&built_in.front_proxy_authority), false),
        ] {
            let request_header_ca = authority.map(|authority| {
                fs::write(&path, &authority.certificate).expect("a file");
                path.clone()
            });
            let tls = TlsOptions { request_header_ca, ..TlsOptions::default() };
            let tls = ServingTls::load(tls, built_in.clone()).expect("TLS");
            assert_eq!(identity.is_refused(&tls, now()), expect);
            // The server itself trusts only configured authorities.
            let leaf = CertificateDer::from_pem_slice(built_in.front_proxy.certificate.as_bytes()).expect("PEM");
            assert!(tls.verify_user(&leaf, &[], since_1970(now())).is_err());
            let is_configured = authority.is_some() && !expect;
            assert_eq!(tls.verify_front_proxy(&leaf, &[], since_1970(now())).is_ok(), is_configured);
        }
        let files = write(folder.path(), &other.front_proxy);
        let tls = TlsOptions { request_header_ca: Some(path), ..TlsOptions::default() };
        let tls = ServingTls::load(tls, built_in.clone()).expect("TLS");
        assert!(!load(Some(files), &built_in).expect("an identity").is_refused(&tls, now()));
    }
}
