//! The server's own certificates: an authority, a serving certificate and the administrator's client certificate. They
//! are created at the first start and stored in the data directory. Keys are ECDSA P-256, and only the owner can read
//! them. As those that client-go makes, they are stored in the format of SEC 1 (RFC 5915); some clients read no EC keys
//! in PKCS #8.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use time::{Duration, OffsetDateTime};

/// The lifetime of the authority's certificate, in days.
const AUTHORITY_DAYS: i64 = 3650;
/// The lifetime of the certificates that the authority signs, in days.
const LEAF_DAYS: i64 = 3650;

/// Why the certificates cannot be loaded or created.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// A certificate cannot be created.
    #[error("failed to create a certificate: {0}")]
    Create(#[from] rcgen::Error),
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct CertificateAndKey {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl std::fmt::Debug for CertificateAndKey {
    /// Does not print the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertificateAndKey").finish_non_exhaustive()
    }
}

/// The certificates for TLS and for the authentication of the administrator.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The authority.
    pub authority: CertificateAndKey,
    /// The server.
    pub serving: CertificateAndKey,
    /// The administrator, a member of `system:masters`.
    pub admin: CertificateAndKey,
}

impl Certificates {
    /// Creates new certificates. `names` are host names and addresses that the serving certificate is valid for, in
    /// addition to those of the loopback interface and of the service `kubernetes`.
    ///
    /// # Errors
    /// The random source or the signature fails.
    pub fn generate(names: &[String]) -> Result<Self, CertificateError> {
        let authority_key = new_key()?;
        let mut params = certificate_params("pintle-ca", &[], AUTHORITY_DAYS);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&authority_key)?.pem();
        let authority_pem = sec1_pem(&authority_key)?;
        let issuer = Issuer::new(params, authority_key);

        let serving = {
            let key = new_key()?;
            let mut hosts: Vec<String> = [
                "localhost",
                "127.0.0.1",
                "::1",
                "kubernetes",
                "kubernetes.default",
                "kubernetes.default.svc",
                "kubernetes.default.svc.cluster.local",
            ]
            .map(str::to_owned)
            .to_vec();
            hosts.extend(names.iter().filter(|n| !n.is_empty()).cloned());
            hosts.dedup();
            let mut params = certificate_params("kube-apiserver", &[], LEAF_DAYS);
            params.subject_alt_names = CertificateParams::new(hosts)?.subject_alt_names;
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            CertificateAndKey { certificate: params.signed_by(&key, &issuer)?.pem(), key: sec1_pem(&key)? }
        };
        let admin = {
            let key = new_key()?;
            let mut params = certificate_params("kubernetes-admin", &["system:masters"], LEAF_DAYS);
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            CertificateAndKey { certificate: params.signed_by(&key, &issuer)?.pem(), key: sec1_pem(&key)? }
        };
        Ok(Self { authority: CertificateAndKey { certificate, key: authority_pem }, serving, admin })
    }

    /// Reads the certificates from a data directory, or creates them there.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn load_or_generate(data_dir: &Path, names: &[String]) -> Result<Self, CertificateError> {
        let directory = data_dir.join("pki");
        let parts = ["ca", "apiserver", "admin"];
        let file = |part: &str, kind: &str| directory.join(format!("{part}.{kind}"));
        // This file is written last, so all others exist if it does.
        if file("admin", "crt").exists() {
            let read = |part: &str| -> Result<CertificateAndKey, CertificateError> {
                Ok(CertificateAndKey {
                    certificate: read_file(&file(part, "crt"))?,
                    key: read_file(&file(part, "key"))?,
                })
            };
            return Ok(Self { authority: read(parts[0])?, serving: read(parts[1])?, admin: read(parts[2])? });
        }
        let generated = Self::generate(names)?;
        fs::create_dir_all(&directory).map_err(|error| file_error(&directory, error))?;
        for (part, pair) in parts.iter().zip([&generated.authority, &generated.serving, &generated.admin]) {
            write_private(&file(part, "key"), &pair.key)?;
            write_private(&file(part, "crt"), &pair.certificate)?;
        }
        Ok(generated)
    }
}

fn new_key() -> Result<KeyPair, rcgen::Error> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
}

/// A P-256 key as `EC PRIVATE KEY` in PEM: the version, the private key, the curve and the public key.
fn sec1_pem(key: &KeyPair) -> Result<String, rcgen::Error> {
    /// What precedes the private key in PKCS #8: both versions and the curve.
    const PKCS8: &[u8] = b"\x30\x81\x87\x02\x01\x00\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\
        \x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x04\x6d\x30\x6b\x02\x01\x01\x04\x20";
    const VERSION: &[u8] = b"\x30\x77\x02\x01\x01\x04\x20";
    const CURVE: &[u8] = b"\xa0\x0a\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
    const PUBLIC: &[u8] = b"\xa1\x44\x03\x42\x00";
    let private = key.serialized_der().strip_prefix(PKCS8).and_then(|rest| rest.first_chunk::<32>());
    let private = private.ok_or(rcgen::Error::CouldNotParseKeyPair)?;
    let base64 = STANDARD.encode([VERSION, private, CURVE, PUBLIC, key.public_key_raw()].concat());
    let mut pem = "-----BEGIN EC PRIVATE KEY-----\n".to_owned();
    let mut rest = base64.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END EC PRIVATE KEY-----\n");
    Ok(pem)
}

fn certificate_params(name: &str, groups: &[&str], days: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    for group in groups {
        subject.push(DnType::OrganizationName, *group);
    }
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    // The clock of a client may be behind.
    let now = OffsetDateTime::now_utc();
    params.not_before = now - Duration::hours(1);
    params.not_after = now + Duration::days(days);
    params
}

fn file_error(path: &Path, error: io::Error) -> CertificateError {
    CertificateError::File { path: path.to_owned(), error }
}

fn read_file(path: &Path) -> Result<String, CertificateError> {
    fs::read_to_string(path).map_err(|error| file_error(path, error))
}

/// Writes a file atomically. Only its owner can read it.
///
/// # Errors
/// The file cannot be written.
pub fn write_private(path: &Path, text: &str) -> Result<(), CertificateError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    let write = || -> io::Result<()> {
        let _ = fs::remove_file(&temporary);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|error| file_error(path, error))
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring::sign::any_ecdsa_type;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    /// The public key of a private key in PEM, as `SubjectPublicKeyInfo`.
    fn public_key(pem: &str) -> Vec<u8> {
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).expect("a key in PEM");
        any_ecdsa_type(&key).expect("an EC key").public_key().expect("a public key").to_vec()
    }

    #[test]
    fn keys_are_written_in_sec1_and_stay_the_same() {
        let key = new_key().expect("a key");
        let pem = sec1_pem(&key).expect("a P-256 key");
        assert!(pem.starts_with("-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEI"), "{pem}");
        assert!(pem.ends_with("\n-----END EC PRIVATE KEY-----\n"), "{pem}");
        assert_eq!(public_key(&pem), public_key(&key.serialize_pem()));
    }

    #[test]
    fn stored_keys_in_pkcs8_are_read_as_they_are() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let before = Certificates::load_or_generate(folder.path(), &[]).expect("new certificates");
        assert!(before.admin.key.contains("EC PRIVATE KEY"));
        let pkcs8 = new_key().expect("a key").serialize_pem();
        write_private(&folder.path().join("pki/admin.key"), &pkcs8).expect("the file is written");
        let after = Certificates::load_or_generate(folder.path(), &[]).expect("stored certificates");
        assert_eq!((after.admin.key, after.serving.key), (pkcs8, before.serving.key));
    }
}
