//! Which servers are believed to be who they say.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Which servers are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust<'a> {
    /// Those whose certificates these authorities, in PEM, have signed.
    Authorities(&'a [u8]),
    /// Those that the system trusts.
    System,
    /// Any: for questions whose answers mean little.
    Anyone,
}

/// The authorities cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// They are no PEM.
    #[error("the certificate authorities cannot be read: {0}")]
    Pem(#[from] pem::Error),
    /// They are no certificates.
    #[error("the certificate authorities cannot be used: {0}")]
    Certificate(#[from] rustls::Error),
}

impl Trust<'_> {
    pub(crate) fn config(self) -> Result<Arc<ClientConfig>, TrustError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let builder = match self {
            Trust::Authorities(text) => {
                let mut roots = RootCertStore::empty();
                let mut known = Vec::new();
                for certificate in CertificateDer::pem_slice_iter(text) {
                    let certificate = certificate?;
                    roots.add(certificate.clone())?;
                    known.push(certificate);
                }
                let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.build().map_err(|error| rustls::Error::General(error.to_string()))?;
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Known { known, verifier }))
            }
            Trust::System => builder.with_root_certificates(system_roots()),
            Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(BelieveAll(provider))),
        };
        Ok(Arc::new(builder.with_no_client_auth()))
    }
}

/// Takes servers whose certificates the authorities have signed and, as Go does, those that are authorities themselves: a
/// certificate that signs itself is often given for both.
#[derive(Debug)]
struct Known {
    known: Vec<CertificateDer<'static>>,
    verifier: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if !self.known.contains(certificate) {
            return self.verifier.verify_server_cert(certificate, intermediates, name, ocsp, now);
        }
        check_time(certificate, now)?;
        verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        Ok(ServerCertVerified::assertion())
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

/// Checks that a certificate is neither too old nor too new.
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

/// Where systems keep the authorities that they trust, in the order in which Go looks.
const BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The authorities that the system trusts; none where it names none.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let named = std::env::var("SSL_CERT_FILE").ok();
    let files = named.iter().map(String::as_str).chain(BUNDLES.into_iter().filter(|_| named.is_none()));
    if let Some(text) = files.map(std::fs::read).find_map(Result::ok) {
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&text).filter_map(Result::ok));
    }
    roots
}

/// Takes any certificate, of whose key the server has to have proof nevertheless.
#[derive(Debug)]
struct BelieveAll(Arc<CryptoProvider>);

impl ServerCertVerifier for BelieveAll {
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
