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
/// The file names of the client certificate, which another server may have.
pub(crate) const CLIENT_CERTIFICATE: &str = "baseline-client.crt";
pub(crate) const CLIENT_KEY: &str = "baseline-client.key";

/// Generates a CA, a server certificate and a client certificate, and writes them to `folder`. Returns
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
    for (name, text) in [(CLIENT_CERTIFICATE, &certificate), (CLIENT_KEY, &key)] {
        std::fs::write(folder.join(name), text)?;
    }
    client(folder)
}

/// The configuration of a client whose certificate is in `folder`. The caller sets the URL.
pub(crate) fn client(folder: &Path) -> Result<ConnectionConfig> {
    let read = |name: &str| std::fs::read(folder.join(name)).map_err(|error| format!("{name}: {error}"));
    Ok(ConnectionConfig {
        url: String::new(),
        server_name: None,
        authorities: read(AUTHORITY)?,
        credentials: Credentials { certificate: Some((read(CLIENT_CERTIFICATE)?, read(CLIENT_KEY)?)), token: None },
    })
}
