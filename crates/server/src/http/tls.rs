//! TLS: the server's configuration and the verification of client certificates.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use pintle_x509::{Authorities, Certificate, Curve, Hash, PublicKey, SignatureAlgorithm};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, CipherSuite, DigitallySignedStruct, DistinguishedName, PeerMisbehaved, ProtocolVersion,
    ServerConfig, SignatureScheme, SupportedProtocolVersion,
};

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
/// is sent. With 22 bytes of overhead the buffer has 8 KiB here. The allocator takes it from a 64 KiB run that stays in
/// the CPU's cache. Buffers for 16 KiB records are scattered over 512 KiB, and filling them takes five times as long.
const MAX_FRAGMENT_BYTES: usize = 8 * 1024 - 22 + 5;

fn error(what: &str, why: impl fmt::Display) -> TlsError {
    TlsError(format!("{what}: {why}"))
}

/// Reads the certificate authorities for client certificates from PEM.
///
/// # Errors
/// A certificate is malformed, or there is none.
pub fn authorities(pem: &[u8]) -> Result<Arc<Authorities>, TlsError> {
    let mut certificates = Vec::new();
    for der in CertificateDer::pem_slice_iter(pem) {
        let der = der.map_err(|e| error("client CA", e))?;
        certificates.push(Certificate::parse(&der).ok_or_else(|| error("client CA", "malformed certificate"))?);
    }
    if certificates.is_empty() {
        return Err(error("client CA", "there is no certificate"));
    }
    Ok(Arc::new(Authorities::new(certificates)))
}

/// A certificate chain of the server and its key, in PEM. `names` determine which clients get it.
#[derive(Clone, Debug)]
pub struct ServingCertificate {
    /// The chain, leaf first.
    pub certificate: Vec<u8>,
    /// The key of the leaf.
    pub key: Vec<u8>,
    /// DNS names in lower case, whose first label may be `*`. IP addresses are for clients that ask for no name.
    pub names: Vec<String>,
}

impl ServingCertificate {
    fn certified_key(&self, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, TlsError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<_, _>>()
            .map_err(|e| error("serving certificate", e))?;
        if chain.is_empty() {
            return Err(error("serving certificate", "there is no certificate"));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|e| error("serving key", e))?;
        let certified = CertifiedKey::from_der(chain, key, provider).map_err(|e| error("serving certificate", e))?;
        Ok(Arc::new(certified))
    }
}

/// The TLS versions and cipher suites of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsProtocols {
    /// True if the lowest version is 1.3, false if it is 1.2.
    only_1_3: bool,
    /// The cipher suites of TLS 1.2; `None` means all supported suites. The suites of TLS 1.3 cannot be chosen, as in
    /// Go.
    cipher_suites: Option<Vec<CipherSuite>>,
}

/// Go's cipher suites for TLS 1.2 and older that this server does not support. All of them use CBC, RC4 or a key
/// exchange without forward secrecy.
const WEAK_CIPHER_SUITES: [&str; 14] = [
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
];

impl TlsProtocols {
    /// Parses the values of `--tls-min-version` and `--tls-cipher-suites`: Go's names. Both may be empty.
    ///
    /// # Errors
    /// Returns an error for names that Go does not have either, with upstream's texts. Also returns an error for
    /// unsupported versions and suites.
    pub fn parse(min_version: &str, cipher_suites: &[String]) -> Result<Self, TlsError> {
        let only_1_3 = match min_version {
            "" | "VersionTLS12" => false,
            "VersionTLS13" => true,
            "VersionTLS10" | "VersionTLS11" => {
                return Err(error(min_version, "not supported, the lowest version is VersionTLS12"));
            }
            unknown => return Err(TlsError(format!("unknown tls version {unknown:?}"))),
        };
        let cipher_suites = cipher_suites.iter().map(|name| cipher_suite(name)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { only_1_3, cipher_suites: (!cipher_suites.is_empty()).then_some(cipher_suites) })
    }

    fn provider(&self) -> CryptoProvider {
        let mut provider = rustls::crypto::ring::default_provider();
        if let Some(chosen) = &self.cipher_suites {
            provider.cipher_suites.retain(|suite| suite.tls13().is_some() || chosen.contains(&suite.suite()));
        }
        provider
    }

    fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        static ONLY_1_3: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];
        if self.only_1_3 { &ONLY_1_3 } else { rustls::DEFAULT_VERSIONS }
    }
}

impl Default for TlsProtocols {
    /// TLS 1.2 and 1.3 with all supported cipher suites.
    fn default() -> Self {
        Self { only_1_3: false, cipher_suites: None }
    }
}

/// The cipher suite with Go's name.
fn cipher_suite(name: &str) -> Result<CipherSuite, TlsError> {
    // Go has two names for these suites.
    let name = match name {
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305" => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305" => "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        name => name,
    };
    let supported = rustls::crypto::ring::ALL_CIPHER_SUITES.iter().map(|suite| suite.suite());
    let go_name = |suite: &CipherSuite| suite.as_str().unwrap_or_default().replacen("TLS13_", "TLS_", 1);
    if let Some(suite) = supported.into_iter().find(|suite| go_name(suite) == name) {
        return Ok(suite);
    }
    let cbc_sha256 = name.ends_with("_CBC_SHA256");
    Err(if cbc_sha256 || WEAK_CIPHER_SUITES.contains(&name) {
        error(name, "not supported, because it is weak")
    } else {
        TlsError(format!("Cipher suite {name} not supported or doesn't exist"))
    })
}

/// The TLS configuration of a listener.
#[derive(Debug)]
pub struct TlsConfig {
    default: Arc<ServerConfig>,
    /// The configurations of addresses that have a certificate of their own.
    by_address: HashMap<IpAddr, Arc<ServerConfig>>,
}

impl TlsConfig {
    /// The configuration of a connection to an address of this server. A client that asks for no name gets the
    /// certificate of the address (upstream: `DynamicServingCertificateController.GetConfigForClient`).
    pub(super) fn of_address(&self, address: IpAddr) -> Arc<ServerConfig> {
        self.by_address.get(&address.to_canonical()).unwrap_or(&self.default).clone()
    }
}

/// Chooses the certificate by the name that the client asks for.
#[derive(Clone, Debug)]
struct CertificatesByName {
    /// The certificate for clients that ask for no name.
    unnamed: Arc<CertifiedKey>,
    /// The certificate for clients that ask for a name that no certificate has.
    default: Arc<CertifiedKey>,
    by_name: HashMap<String, Arc<CertifiedKey>>,
}

impl CertificatesByName {
    fn find(&self, name: &str) -> &Arc<CertifiedKey> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let wildcard = || name.split_once('.').and_then(|(_, rest)| self.by_name.get(&format!("*.{rest}")));
        self.by_name.get(&name).or_else(wildcard).unwrap_or(&self.default)
    }
}

impl ResolvesServerCert for CertificatesByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(hello.server_name().map_or(&self.unnamed, |name| self.find(name)).clone())
    }
}

/// Creates the configuration of a listener with HTTP/2 and HTTP/1.1 by ALPN. Clients that ask for none of the names get
/// the first certificate. If several certificates have a name, the first of them counts. Client certificates are
/// requested in the handshake, but verified later by the authenticator. So an invalid certificate results in a 401, not
/// in a failed handshake. The handshake names the authorities whose certificates clients may present.
///
/// # Errors
/// Returns an error if there is no certificate, or a certificate or key cannot be used.
pub fn server_config(
    certificates: &[ServingCertificate],
    authorities: &[&Authorities],
    protocols: &TlsProtocols,
) -> Result<Arc<TlsConfig>, TlsError> {
    let provider = Arc::new(protocols.provider());
    let keys: Vec<_> =
        certificates.iter().map(|certificate| certificate.certified_key(&provider)).collect::<Result<_, _>>()?;
    let default = keys.first().ok_or_else(|| error("serving certificate", "there is none"))?.clone();
    let mut by_name = HashMap::new();
    for (certificate, key) in certificates.iter().zip(keys) {
        for name in &certificate.names {
            by_name.entry(name.clone()).or_insert_with(|| key.clone());
        }
    }
    let subjects = authorities.iter().flat_map(|authorities| authorities.subjects());
    let subjects = subjects.map(|subject| DistinguishedName::from(subject.to_vec())).collect();
    let certificates = CertificatesByName { unnamed: default.clone(), default, by_name };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(protocols.versions())
        .map_err(|e| error("TLS", e))?
        .with_client_cert_verifier(Arc::new(DeferredClientAuth { subjects }))
        .with_cert_resolver(Arc::new(certificates.clone()));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.max_fragment_size = Some(MAX_FRAGMENT_BYTES);
    let addresses = certificates.by_name.iter().filter_map(|(name, key)| Some((name.parse::<IpAddr>().ok()?, key)));
    let by_address = addresses.map(|(address, key)| {
        let mut config = config.clone();
        config.cert_resolver = Arc::new(CertificatesByName { unnamed: key.clone(), ..certificates.clone() });
        (address.to_canonical(), Arc::new(config))
    });
    Ok(Arc::new(TlsConfig { by_address: by_address.collect(), default: Arc::new(config) }))
}

/// Accepts any client certificate in the handshake, provided that the client proves possession of its key. It accepts
/// the same keys as Go; `ring` does not support all of them.
#[derive(Debug)]
struct DeferredClientAuth {
    /// The names of the authorities for client certificates.
    subjects: Vec<DistinguishedName>,
}

/// The signature schemes of handshakes, in Go's order of preference.
const SIGNATURE_SCHEMES: [SignatureScheme; 10] = [
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA512,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
];

/// The algorithm of a scheme, and the curve to which TLS 1.3 binds it. `None` if the version of TLS does not have the
/// scheme.
fn signature_algorithm(
    scheme: SignatureScheme,
    version: ProtocolVersion,
) -> Option<(SignatureAlgorithm, Option<Curve>)> {
    use SignatureAlgorithm::{Ecdsa, Ed25519, RsaPkcs1, RsaPss};
    let is_1_3 = version == ProtocolVersion::TLSv1_3;
    let (algorithm, curve) = match scheme {
        SignatureScheme::RSA_PSS_SHA256 => (RsaPss(Hash::Sha256), None),
        SignatureScheme::RSA_PSS_SHA384 => (RsaPss(Hash::Sha384), None),
        SignatureScheme::RSA_PSS_SHA512 => (RsaPss(Hash::Sha512), None),
        SignatureScheme::RSA_PKCS1_SHA256 => (RsaPkcs1(Hash::Sha256), None),
        SignatureScheme::RSA_PKCS1_SHA384 => (RsaPkcs1(Hash::Sha384), None),
        SignatureScheme::RSA_PKCS1_SHA512 => (RsaPkcs1(Hash::Sha512), None),
        SignatureScheme::ECDSA_NISTP256_SHA256 => (Ecdsa(Hash::Sha256), Some(Curve::P256)),
        SignatureScheme::ECDSA_NISTP384_SHA384 => (Ecdsa(Hash::Sha384), Some(Curve::P384)),
        SignatureScheme::ECDSA_NISTP521_SHA512 => (Ecdsa(Hash::Sha512), Some(Curve::P521)),
        SignatureScheme::ED25519 => (Ed25519, None),
        _ => return None,
    };
    match algorithm {
        RsaPkcs1(_) if is_1_3 => None,
        _ => Some((algorithm, curve.filter(|_| is_1_3))),
    }
}

fn verify_handshake(
    version: ProtocolVersion,
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    let certificate = Certificate::parse(certificate).ok_or(CertificateError::BadEncoding)?;
    let (algorithm, curve) = signature_algorithm(signature.scheme, version)
        .ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
    let key = certificate.public_key().filter(|key| match (key, curve) {
        (PublicKey::Ecdsa(key), Some(curve)) => key.curve() == curve,
        _ => true,
    });
    match key.is_some_and(|key| key.verify(algorithm, message, signature.signature())) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(CertificateError::BadSignature.into()),
    }
}

impl ClientCertVerifier for DeferredClientAuth {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
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
        verify_handshake(ProtocolVersion::TLSv1_2, message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_handshake(ProtocolVersion::TLSv1_3, message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SIGNATURE_SCHEMES.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::TlsProtocols;

    #[test]
    fn versions_and_cipher_suites_have_the_names_of_go() {
        let check = |version: &str, suites: &[&str], expect: Result<usize, &str>| {
            let suites: Vec<String> = suites.iter().map(|&name| name.to_owned()).collect();
            let parsed = TlsProtocols::parse(version, &suites);
            let found = parsed.map(|protocols| protocols.provider().cipher_suites.len()).map_err(|e| e.to_string());
            assert_eq!(found, expect.map_err(str::to_owned), "{version} {suites:?}");
        };
        check("", &[], Ok(9));
        check("VersionTLS13", &[], Ok(9));
        check("", &["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], Ok(4));
        check("", &["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_AES_128_GCM_SHA256"], Ok(4));
        check("VersionTLS11", &[], Err("VersionTLS11: not supported, the lowest version is VersionTLS12"));
        check("1.2", &[], Err("unknown tls version \"1.2\""));
        check("", &["TLS_X"], Err("Cipher suite TLS_X not supported or doesn't exist"));
        let weak = "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256";
        check("", &[weak], Err(&format!("{weak}: not supported, because it is weak")));
    }
}
