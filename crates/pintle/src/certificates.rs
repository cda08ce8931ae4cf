//! The certificates of a server that makes its own: an authority, a serving certificate and an administrator's client
//! certificate, made at the first start and kept in the data folder. Keys are ECDSA P-256 and readable by the owner only.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use time::{Duration, OffsetDateTime};

/// How long the authority's certificate is valid, in days.
const AUTHORITY_DAYS: i64 = 3650;
/// How long the certificates that it signs are valid, in days.
const LEAF_DAYS: i64 = 3650;

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl std::fmt::Debug for Pair {
    /// Shows that there is one, not the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pair")
    }
}

/// All that a server needs to speak TLS and to know its administrator.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The authority.
    pub authority: Pair,
    /// The server.
    pub serving: Pair,
    /// The administrator, a member of `system:masters`.
    pub admin: Pair,
}

impl Certificates {
    /// Makes new ones. `names` are the host names and addresses of the server beside the usual ones.
    ///
    /// # Errors
    /// The random source or the signature fails.
    pub fn generate(names: &[String]) -> Result<Self, CertificateError> {
        let authority_key = new_key()?;
        let mut params = base("pintle-ca", &[], AUTHORITY_DAYS);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&authority_key)?.pem();
        let authority_pem = authority_key.serialize_pem();
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
            let mut params = base("kube-apiserver", &[], LEAF_DAYS);
            params.subject_alt_names = CertificateParams::new(hosts)?.subject_alt_names;
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            Pair { certificate: params.signed_by(&key, &issuer)?.pem(), key: key.serialize_pem() }
        };
        let admin = {
            let key = new_key()?;
            let mut params = base("kubernetes-admin", &["system:masters"], LEAF_DAYS);
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            Pair { certificate: params.signed_by(&key, &issuer)?.pem(), key: key.serialize_pem() }
        };
        Ok(Self { authority: Pair { certificate, key: authority_pem }, serving, admin })
    }

    /// Reads the certificates of a folder, or makes them where there are none.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn load_or_generate(folder: &Path, names: &[String]) -> Result<Self, CertificateError> {
        let certificates = folder.join("pki");
        let parts = ["ca", "apiserver", "admin"];
        let file = |part: &str, kind: &str| certificates.join(format!("{part}.{kind}"));
        // The certificate of the last pair is written last: where it is, all are.
        if file("admin", "crt").exists() {
            let read = |part: &str| -> Result<Pair, CertificateError> {
                Ok(Pair { certificate: read_file(&file(part, "crt"))?, key: read_file(&file(part, "key"))? })
            };
            return Ok(Self { authority: read(parts[0])?, serving: read(parts[1])?, admin: read(parts[2])? });
        }
        let made = Self::generate(names)?;
        fs::create_dir_all(&certificates).map_err(|error| at(&certificates, error))?;
        for (part, pair) in parts.iter().zip([&made.authority, &made.serving, &made.admin]) {
            write_private(&file(part, "key"), &pair.key)?;
            write_private(&file(part, "crt"), &pair.certificate)?;
        }
        Ok(made)
    }
}

fn new_key() -> Result<KeyPair, rcgen::Error> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
}

fn base(name: &str, groups: &[&str], days: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    for group in groups {
        subject.push(DnType::OrganizationName, *group);
    }
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    // Clocks of clients may be a little behind.
    let now = OffsetDateTime::now_utc();
    params.not_before = now - Duration::hours(1);
    params.not_after = now + Duration::days(days);
    params
}

fn at(path: &Path, error: io::Error) -> CertificateError {
    CertificateError::File { path: path.to_owned(), error }
}

fn read_file(path: &Path) -> Result<String, CertificateError> {
    fs::read_to_string(path).map_err(|error| at(path, error))
}

/// Writes a file that only its owner may read, whole or not at all.
///
/// # Errors
/// It cannot be written.
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
    write().map_err(|error| at(path, error))
}
