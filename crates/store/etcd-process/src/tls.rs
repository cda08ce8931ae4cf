//! Certificates for an etcd that serves TLS and requires client certificates.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// The files of an authority, and of a certificate that the authority has issued for both members and clients. The
/// files are removed with the last clone.
#[derive(Clone, Debug)]
pub struct EtcdTls {
    folder: Arc<TempDir>,
}

impl EtcdTls {
    /// Generates a new authority and its certificate.
    ///
    /// # Panics
    /// Panics if the files cannot be written.
    #[must_use]
    pub fn generate() -> Self {
        let mut authority = CertificateParams::new(Vec::new()).expect("no names");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().expect("a key");
        let authority_certificate = authority.self_signed(&authority_key).expect("a certificate");
        let issuer = Issuer::new(authority, authority_key);
        let mut parameters = CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address");
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.signed_by(&key, &issuer).expect("a certificate");
        let tls = Self { folder: Arc::new(tempfile::tempdir().expect("a folder")) };
        fs::write(tls.certificate_authority(), authority_certificate.pem()).expect("a file");
        fs::write(tls.certificate(), certificate.pem()).expect("a file");
        fs::write(tls.key(), key.serialize_pem()).expect("a file");
        tls
    }

    fn file(&self, name: &str) -> PathBuf {
        Path::new(self.folder.path()).join(name)
    }

    /// The PEM file of the authority.
    #[must_use]
    pub fn certificate_authority(&self) -> PathBuf {
        self.file("ca.crt")
    }

    /// The PEM file of the certificate.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.file("tls.crt")
    }

    /// The PEM file of the key of the certificate.
    #[must_use]
    pub fn key(&self) -> PathBuf {
        self.file("tls.key")
    }

    /// The command-line arguments of a member.
    pub(crate) fn arguments(&self) -> [String; 4] {
        [
            format!("--trusted-ca-file={}", self.certificate_authority().display()),
            format!("--cert-file={}", self.certificate().display()),
            format!("--key-file={}", self.key().display()),
            "--client-cert-auth".to_owned(),
        ]
    }
}
