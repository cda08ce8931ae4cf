//! TLS: the server's configuration and the verification of client certificates.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};

/// The error for certificates or keys that cannot be used.
#[derive(Debug)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

/// The maximum fragment size: 5 bytes of record header and the content. rustls allocates one buffer per record until it
/// is sent; with 22 bytes of overhead it is 8 KiB here, which the allocator takes from a 64 KiB run that stays in the
/// CPU's cache. Buffers for 16 KiB records are scattered over 512 KiB, and filling them takes five times as long.
const MAX_FRAGMENT_BYTES: usize = 8 * 1024 - 22 + 5;

fn error(what: &str, why: impl fmt::Display) -> TlsError {
    TlsError(format!("{what}: {why}"))
}

/// Creates a verifier of client certificates from a PEM bundle of certificate authorities.
///
/// # Errors
/// Returns an error if the bundle cannot be used.
pub fn verifier(ca_pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem) {
        let certificate = certificate.map_err(|e| error("client CA", e))?;
        roots.add(certificate).map_err(|e| error("client CA", e))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().map_err(|e| error("client CA", e))
}

/// Creates the configuration of a listener from a certificate and key in PEM, with HTTP/2 and HTTP/1.1 by ALPN. Client
/// certificates are requested but verified later by the authenticator: an invalid one results in a 401, not in a failed
/// handshake.
///
/// # Errors
/// Returns an error if the certificate or key cannot be used.
pub fn server_config(
    certificate_pem: &[u8],
    key_pem: &[u8],
    client_ca: Arc<dyn ClientCertVerifier>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate_pem)
        .collect::<Result<_, _>>()
        .map_err(|e| error("serving certificate", e))?;
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|e| error("serving key", e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| error("TLS", e))?
        .with_client_cert_verifier(Arc::new(DeferredClientAuth(client_ca)))
        .with_single_cert(chain, key)
        .map_err(|e| error("serving certificate", e))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.max_fragment_size = Some(MAX_FRAGMENT_BYTES);
    Ok(Arc::new(config))
}

/// Accepts any client certificate in the handshake, provided that the client proves possession of its key.
#[derive(Debug)]
struct DeferredClientAuth(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for DeferredClientAuth {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
