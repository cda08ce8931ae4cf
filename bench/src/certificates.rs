//! Certificates for the bare server, of the same kind as Pintle's own (ECDSA P-256, clients known by theirs), so that
//! handshakes and records cost both the same.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use crate::Result;
use crate::client::{Access, Identity};

/// Files of a folder that the bare server reads.
pub(crate) const AUTHORITY: &str = "bare-ca.crt";
pub(crate) const CERTIFICATE: &str = "bare.crt";
pub(crate) const KEY: &str = "bare.key";

/// Makes an authority, a server's and a client's certificate, writes what the server needs into a folder, and gives
/// what a client needs to reach it at `127.0.0.1`. The URL is for the caller to complete.
pub(crate) fn make(folder: &Path) -> Result<Access> {
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
    Ok(Access {
        url: String::new(),
        server_name: None,
        authorities: authority.into_bytes(),
        identity: Identity { certificate: Some((certificate.into_bytes(), key.into_bytes())), token: None },
    })
}
