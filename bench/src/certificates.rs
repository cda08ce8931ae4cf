//! Certificates for the baseline server. They are like Pintle's own certificates (ECDSA P-256, clients authenticated by
//! certificate), so that handshakes and records cost both servers the same.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use crate::Result;
use crate::client::{ConnectionConfig, Credentials};

/// The file names that the baseline server reads.
pub(crate) const AUTHORITY: &str = "baseline-ca.crt";
pub(crate) const CERTIFICATE: &str = "baseline.crt";
pub(crate) const KEY: &str = "baseline.key";

/// Generates a CA, a server certificate and a client certificate, and writes the server's files to `folder`. Returns
/// the configuration of a client for `127.0.0.1`, in which the caller sets the URL.
pub(crate) fn generate(folder: &Path) -> Result<ConnectionConfig> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key)?.pem();
    let issuer = Issuer::new(params, key);
    let sign = |usage| -> Result<(String, String)> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
        params.extended_key_usages = vec![usage];
        Ok((params.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
    };
    let (certificate, key) = sign(ExtendedKeyUsagePurpose::ServerAuth)?;
    for (name, text) in [(AUTHORITY, &authority), (CERTIFICATE, &certificate), (KEY, &key)] {
        std::fs::write(folder.join(name), text)?;
    }
    let (certificate, key) = sign(ExtendedKeyUsagePurpose::ClientAuth)?;
    Ok(ConnectionConfig {
        url: String::new(),
        server_name: None,
        authorities: authority.into_bytes(),
        credentials: Credentials { certificate: Some((certificate.into_bytes(), key.into_bytes())), token: None },
    })
}
