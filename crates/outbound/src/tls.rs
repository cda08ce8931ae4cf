//! TLS configuration: the trusted servers, and the client certificate.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};

use crate::config::{ClientCertificate, ClientConfigError};

/// The TLS servers that a client trusts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerTrust<'a> {
    /// Servers whose certificate is signed by one of these authorities, in PEM.
    Authorities(&'a [u8]),
    /// Servers whose certificate is signed by an authority of the system.
    #[default]
    System,
    /// Any server (Go: `InsecureSkipVerify`). This is only for requests whose responses decide nothing, and for
    /// kubeconfigs that ask for it.
    InsecureSkipVerify,
}

/// The names of the protocols in the TLS handshake (ALPN).
pub(crate) const HTTP2_PROTOCOL: &[u8] = b"h2";
pub(crate) const HTTP1_PROTOCOL: &[u8] = b"http/1.1";

/// A configuration that offers other protocols, the preferred one first.
pub(crate) fn with_protocols(config: &rustls::ClientConfig, protocols: &[&[u8]]) -> Arc<rustls::ClientConfig> {
    let mut config = config.clone();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

/// The TLS configuration of a client, without protocols.
///
/// # Errors
/// The authorities or the client certificate cannot be used.
pub fn tls_client_config(
    trust: ServerTrust<'_>,
    client_certificate: Option<ClientCertificate<'_>>,
) -> Result<rustls::ClientConfig, ClientConfigError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(ClientConfigError::Authorities)?;
    let builder = match trust {
        ServerTrust::Authorities(pem) => {
            let verifier = AuthoritiesVerifier::new(pem, provider)?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
        ServerTrust::System => builder.with_root_certificates(system_roots()),
        ServerTrust::InsecureSkipVerify => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(InsecureVerifier(provider)))
        }
    };
    let Some(ClientCertificate { chain, key }) = client_certificate else {
        return Ok(builder.with_no_client_auth());
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.map_err(ClientConfigError::ClientCertificatePem)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(ClientConfigError::ClientCertificatePem)?;
    builder.with_client_auth_cert(chain, key).map_err(ClientConfigError::ClientCertificate)
}

/// Accepts certificates that the authorities have signed. Like Go, it also accepts the certificates of the authorities
/// themselves: a self-signed certificate is often configured as its own authority.
#[derive(Debug)]
struct AuthoritiesVerifier {
    authorities: Vec<CertificateDer<'static>>,
    verifier: Arc<WebPkiServerVerifier>,
}

impl AuthoritiesVerifier {
    fn new(pem: &[u8], provider: Arc<CryptoProvider>) -> Result<Self, ClientConfigError> {
        let mut roots = RootCertStore::empty();
        let mut authorities = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(ClientConfigError::AuthoritiesPem)?;
            roots.add(certificate.clone()).map_err(ClientConfigError::Authorities)?;
            authorities.push(certificate);
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let verifier =
            verifier.map_err(|error| ClientConfigError::Authorities(rustls::Error::General(error.to_string())))?;
        Ok(Self { authorities, verifier })
    }
}

impl ServerCertVerifier for AuthoritiesVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = match self.authorities.contains(certificate) {
            false => self.verifier.verify_server_cert(certificate, intermediates, name, ocsp, now),
            true => check_time(certificate, now)
                .and_then(|()| verify_server_name(&ParsedCertificate::try_from(certificate)?, name))
                .map(|()| ServerCertVerified::assertion()),
        };
        verified.map_err(|error| match error {
            rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. })
                if relies_on_common_name(certificate, name) =>
            {
                CertificateError::Other(OtherError(Arc::new(LegacyCommonName))).into()
            }
            error => error,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// The certificate of a server has its name only as common name, which clients no longer consult (Go:
/// `x509.HostnameError`).
#[derive(Debug, thiserror::Error)]
#[error("certificate relies on legacy Common Name field, use SANs instead")]
pub(crate) struct LegacyCommonName;

/// True if a certificate has no subject alternative names, and a name as common name.
fn relies_on_common_name(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    let (ServerName::DnsName(name), Ok((_, parsed))) = (name, x509_parser::parse_x509_certificate(certificate)) else {
        return false;
    };
    let has_names = !matches!(parsed.subject_alternative_name(), Ok(None));
    let common_name = parsed.subject().iter_common_name().last().and_then(|name| name.as_str().ok());
    !has_names && common_name.is_some_and(|common_name| common_name.eq_ignore_ascii_case(name.as_ref()))
}

/// Checks the validity period of a certificate.
fn check_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), rustls::Error> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < parsed.validity().not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > parsed.validity().not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

/// The files with the system's authorities, in Go's order (upstream: `crypto/x509/root_linux.go`).
const CERTIFICATE_FILES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The system's authorities, or the authorities in the file that `SSL_CERT_FILE` names. Without a file there are no
/// authorities.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let configured = std::env::var("SSL_CERT_FILE").ok();
    let files =
        configured.iter().map(String::as_str).chain(CERTIFICATE_FILES.into_iter().filter(|_| configured.is_none()));
    if let Some(text) = files.map(std::fs::read).find_map(Result::ok) {
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&text).filter_map(Result::ok));
    }
    roots
}

/// Accepts any certificate. The server still has to prove that it has the certificate's key.
#[derive(Debug)]
struct InsecureVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for InsecureVerifier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
