//! The server's own certificates: an authority, a serving certificate and the administrator's client certificate. They
//! are created at the first start and stored in the data directory. Keys are ECDSA P-256, and only the owner can read
//! them. As those that client-go makes, they are stored in the format of SEC 1 (RFC 5915); some clients read no EC keys
//! in PKCS #8.

use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pintle_auth::pem;
use pintle_auth::user::SYSTEM_PRIVILEGED_GROUP;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use time::{Duration, OffsetDateTime};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::client_certificate::{CertificateUser, sign_client_certificate};
use crate::serving::LOOPBACK_NAME;

/// How much the clock of a client may be behind.
pub const CLOCK_SKEW: Duration = Duration::hours(1);
/// The lifetime of the authority's certificate, in days.
const AUTHORITY_DAYS: i64 = 3650;
/// The lifetime of the certificates that the authority signs, in days.
const LEAF_DAYS: i64 = 3650;
/// How long before its expiry the certificate of the authority is renewed, in days. Clients need the new one.
const AUTHORITY_RENEWAL_DAYS: i64 = 365;
/// How long before their expiry the certificates that it signs are renewed, in days.
const LEAF_RENEWAL_DAYS: i64 = 90;

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

impl CertificateAndKey {
    /// False if the key is known to be of another certificate: a renewal writes two files, and may have been cut off.
    fn matches(&self) -> bool {
        let Ok(key) = read_key(&self.key) else { return true };
        let Ok(der) = CertificateDer::from_pem_slice(self.certificate.as_bytes()) else { return true };
        X509Certificate::from_der(&der)
            .is_ok_and(|(_, certificate)| certificate.public_key().subject_public_key.data == key.public_key_raw())
    }
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

/// The names of the files, in the order in which they are written.
const PARTS: [&str; 3] = ["ca", "apiserver", "admin"];

impl Certificates {
    /// Creates new certificates. `names` are host names and addresses that the serving certificate is valid for, in
    /// addition to those of the loopback interface and of the service `kubernetes`. They are valid from `now` on.
    ///
    /// # Errors
    /// The random source or the signature fails.
    pub fn generate(names: &[String], now: OffsetDateTime) -> Result<Self, CertificateError> {
        let key = new_key()?;
        let (certificate, params) = authority(&key, now)?;
        let authority = CertificateAndKey { certificate, key: sec1_pem(&key)? };
        let issuer = Issuer::new(params, key);
        let admin = admin(&authority, now)?;
        Ok(Self { authority, serving: serving(&issuer, names, now)?, admin })
    }

    /// Reads the certificates from a data directory, or creates them there. Those that expire soon are renewed, and the
    /// serving certificate also if it is not valid for all names. The authority keeps its key, so that what it has signed
    /// stays valid.
    ///
    /// # Errors
    /// A file cannot be read or written, or the authority's key cannot be used although a certificate has to be renewed.
    pub fn load_or_generate(data_dir: &Path, names: &[String], now: OffsetDateTime) -> Result<Self, CertificateError> {
        if !Self::exist_in(data_dir) {
            let generated = Self::generate(names, now)?;
            generated.write_all(data_dir)?;
            return Ok(generated);
        }
        let mut stored = Self::load(data_dir)?;
        let renewed = stored.renew(names, now)?;
        stored.write(data_dir, &renewed)?;
        Ok(stored)
    }

    /// True if a data directory has certificates.
    pub(crate) fn exist_in(data_dir: &Path) -> bool {
        // This file is written last, so all others exist if it does.
        data_dir.join("pki/admin.crt").exists()
    }

    /// Reads the certificates from a data directory as they are.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn load(data_dir: &Path) -> Result<Self, CertificateError> {
        let directory = data_dir.join("pki");
        let read = |part: &str| -> Result<CertificateAndKey, CertificateError> {
            Ok(CertificateAndKey {
                certificate: read_file(&directory.join(format!("{part}.crt")))?,
                key: read_file(&directory.join(format!("{part}.key")))?,
            })
        };
        Ok(Self { authority: read(PARTS[0])?, serving: read(PARTS[1])?, admin: read(PARTS[2])? })
    }

    /// Writes all parts to a data directory.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn write_all(&self, data_dir: &Path) -> Result<(), CertificateError> {
        let directory = data_dir.join("pki");
        fs::create_dir_all(&directory).map_err(|error| file_error(&directory, error))?;
        self.write(data_dir, &PARTS)
    }

    /// Writes some parts to a data directory, each key before its certificate.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn write(&self, data_dir: &Path, parts: &[&str]) -> Result<(), CertificateError> {
        let directory = data_dir.join("pki");
        for (part, pair) in PARTS.iter().zip([&self.authority, &self.serving, &self.admin]) {
            if parts.contains(part) {
                write_private(&directory.join(format!("{part}.key")), &pair.key)?;
                write_private(&directory.join(format!("{part}.crt")), &pair.certificate)?;
            }
        }
        Ok(())
    }

    /// Renews what expires soon or is not valid for all names. Returns the parts that are new.
    ///
    /// # Errors
    /// The authority's key cannot be used, or the random source or the signature fails.
    pub(crate) fn renew(
        &mut self,
        names: &[String],
        now: OffsetDateTime,
    ) -> Result<Vec<&'static str>, CertificateError> {
        let expires_within = |pair: &CertificateAndKey, days: i64| {
            details(&pair.certificate).is_some_and(|(expiry, _)| expiry < now + Duration::days(days))
        };
        let is_valid_for_names = || {
            details(&self.serving.certificate)
                .is_none_or(|(_, valid_for)| hosts(names).iter().all(|host| valid_for.contains(host)))
        };
        let is_due = [
            expires_within(&self.authority, AUTHORITY_RENEWAL_DAYS),
            expires_within(&self.serving, LEAF_RENEWAL_DAYS) || !self.serving.matches() || !is_valid_for_names(),
            expires_within(&self.admin, LEAF_RENEWAL_DAYS) || !self.admin.matches(),
        ];
        if is_due == [false; 3] {
            return Ok(Vec::new());
        }
        let key = read_key(&self.authority.key)?;
        if is_due[0] {
            self.authority.certificate = authority(&key, now)?.0;
        }
        let issuer = Issuer::from_ca_cert_pem(&self.authority.certificate, key)?;
        if is_due[1] {
            self.serving = serving(&issuer, names, now)?;
        }
        if is_due[2] {
            self.admin = admin(&self.authority, now)?;
        }
        let renewed: Vec<_> =
            PARTS.into_iter().zip(is_due).filter_map(|(part, is_due)| is_due.then_some(part)).collect();
        tracing::info!(certificates = renewed.join(","), "Renewed certificates");
        Ok(renewed)
    }
}

/// The private key that signs tokens of service accounts, in PEM. It is read from a data directory, or created there with
/// its public key. Without a directory it is created only.
///
/// # Errors
/// A file cannot be read or written, or the random source fails.
pub fn service_account_key(data_dir: Option<&Path>) -> Result<String, CertificateError> {
    if let Some(data_dir) = data_dir.filter(|data_dir| service_account_key_path(data_dir).exists()) {
        return read_service_account_key(data_dir);
    }
    let pem = sec1_pem(&new_key()?)?;
    if let Some(data_dir) = data_dir {
        write_service_account_key(data_dir, &pem)?;
    }
    Ok(pem)
}

/// Reads the private key that signs tokens of service accounts, in PEM.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn read_service_account_key(data_dir: &Path) -> Result<String, CertificateError> {
    read_file(&service_account_key_path(data_dir))
}

fn service_account_key_path(data_dir: &Path) -> PathBuf {
    data_dir.join("pki/sa.key")
}

/// Writes the private key of service accounts and its public key to a data directory.
///
/// # Errors
/// A file cannot be written, or the text is not a key.
pub(crate) fn write_service_account_key(data_dir: &Path, pem: &str) -> Result<(), CertificateError> {
    let directory = data_dir.join("pki");
    fs::create_dir_all(&directory).map_err(|error| file_error(&directory, error))?;
    write_private(&directory.join("sa.pub"), &read_key(pem)?.public_key_pem())?;
    write_private(&service_account_key_path(data_dir), pem)
}

/// The certificate of an authority with this key.
fn authority(key: &KeyPair, now: OffsetDateTime) -> Result<(String, CertificateParams), CertificateError> {
    let mut params = certificate_params("pintle-ca", now, AUTHORITY_DAYS);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok((params.self_signed(key)?.pem(), params))
}

/// What the serving certificate is valid for.
fn hosts(names: &[String]) -> Vec<String> {
    let mut hosts: Vec<String> = [
        "localhost",
        LOOPBACK_NAME,
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
    hosts
}

/// A new serving certificate.
fn serving(
    issuer: &Issuer<'_, KeyPair>,
    names: &[String],
    now: OffsetDateTime,
) -> Result<CertificateAndKey, CertificateError> {
    let key = new_key()?;
    let mut params = certificate_params("kube-apiserver", now, LEAF_DAYS);
    params.subject_alt_names = CertificateParams::new(hosts(names))?.subject_alt_names;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(CertificateAndKey { certificate: params.signed_by(&key, issuer)?.pem(), key: sec1_pem(&key)? })
}

/// The administrator's client certificate.
fn admin(authority: &CertificateAndKey, now: OffsetDateTime) -> Result<CertificateAndKey, CertificateError> {
    let user = CertificateUser { name: "kubernetes-admin", groups: &[SYSTEM_PRIVILEGED_GROUP] };
    sign_client_certificate(authority, user, now - CLOCK_SKEW, now + Duration::days(LEAF_DAYS))
}

/// The expiry of a certificate in PEM, and the names and addresses that it is valid for. `None` if it cannot be read;
/// its use will tell why.
fn details(pem: &str) -> Option<(OffsetDateTime, Vec<String>)> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.iter().flat_map(|extension| &extension.value.general_names).filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).ok().map(|bytes| IpAddr::from(bytes).to_string());
            v4.or_else(|| <[u8; 16]>::try_from(*bytes).ok().map(|bytes| IpAddr::from(bytes).to_string()))
        }
        _ => None,
    });
    Some((certificate.validity().not_after.to_datetime(), names.collect()))
}

pub(crate) fn new_key() -> Result<KeyPair, rcgen::Error> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
}

/// What precedes the private key of a P-256 key in PKCS #8: both versions and the curve.
const PKCS8: &[u8] = b"\x30\x81\x87\x02\x01\x00\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\
    \x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x04\x6d\x30\x6b\x02\x01\x01\x04\x20";
/// What precedes it in SEC 1.
const VERSION: &[u8] = b"\x30\x77\x02\x01\x01\x04\x20";
/// The curve in SEC 1.
const CURVE: &[u8] = b"\xa0\x0a\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
/// What precedes the public key in both.
const PUBLIC: &[u8] = b"\xa1\x44\x03\x42\x00";

/// Reads a P-256 key in PEM, in SEC 1 or PKCS #8.
pub(crate) fn read_key(pem: &str) -> Result<KeyPair, rcgen::Error> {
    let Ok(PrivateKeyDer::Sec1(der)) = PrivateKeyDer::from_pem_slice(pem.as_bytes()) else {
        return KeyPair::from_pem(pem);
    };
    let unsupported = || rcgen::Error::CouldNotParseKeyPair;
    let rest = der.secret_sec1_der().strip_prefix(VERSION).ok_or_else(unsupported)?;
    let (private, rest) = rest.split_first_chunk::<32>().ok_or_else(unsupported)?;
    let public = rest.strip_prefix(CURVE).and_then(|rest| rest.strip_prefix(PUBLIC)).ok_or_else(unsupported)?;
    let pkcs8 = [PKCS8, private, PUBLIC, public].concat();
    KeyPair::try_from(&PrivatePkcs8KeyDer::from(pkcs8))
}

/// A P-256 key as `EC PRIVATE KEY` in PEM: the version, the private key, the curve and the public key.
pub(crate) fn sec1_pem(key: &KeyPair) -> Result<String, rcgen::Error> {
    let private = key.serialized_der().strip_prefix(PKCS8).and_then(|rest| rest.first_chunk::<32>());
    let private = private.ok_or(rcgen::Error::CouldNotParseKeyPair)?;
    Ok(pem::encode("EC PRIVATE KEY", &[VERSION, private, CURVE, PUBLIC, key.public_key_raw()].concat()))
}

fn certificate_params(name: &str, now: OffsetDateTime, days: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = now - CLOCK_SKEW;
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
        let before =
            Certificates::load_or_generate(folder.path(), &[], OffsetDateTime::now_utc()).expect("new certificates");
        assert!(before.admin.key.contains("EC PRIVATE KEY"));
        let pkcs8 = read_key(&before.admin.key).expect("a key").serialize_pem();
        write_private(&folder.path().join("pki/admin.key"), &pkcs8).expect("the file is written");
        let after =
            Certificates::load_or_generate(folder.path(), &[], OffsetDateTime::now_utc()).expect("stored certificates");
        assert_eq!((after.admin.key, after.serving.key), (pkcs8, before.serving.key));
    }

    #[test]
    fn certificates_are_renewed_before_they_expire_or_if_they_lack_a_name() {
        let names = ["host.example.com".to_owned(), "192.0.2.7".to_owned()];
        let now = OffsetDateTime::now_utc();
        let mut certificates = Certificates::generate(&names, now).expect("certificates");
        let old = certificates.clone();
        // A renewal that was cut off has written one of two files.
        certificates.admin.key = certificates.serving.key.clone();
        let mut renew = |names: &[String], days: i64| certificates.renew(names, now + Duration::days(days));
        assert_eq!(renew(&names, 0).expect("a certificate"), ["admin"]);
        assert!(renew(&names, 0).expect("no error").is_empty());
        assert!(renew(&[], AUTHORITY_DAYS - AUTHORITY_RENEWAL_DAYS - 1).expect("no error").is_empty());
        assert_eq!(renew(&["other.example.com".to_owned()], 0).expect("a certificate"), ["apiserver"]);
        assert_eq!(renew(&[], AUTHORITY_DAYS - AUTHORITY_RENEWAL_DAYS + 1).expect("a certificate"), ["ca"]);
        assert_eq!(renew(&[], AUTHORITY_DAYS - LEAF_RENEWAL_DAYS + 1).expect("certificates"), ["apiserver", "admin"]);
        assert_eq!(certificates.authority.key, old.authority.key);
        // What the old authority has signed is valid for the new one, and the other way round, while both are valid.
        let then = now + Duration::days(AUTHORITY_DAYS - LEAF_RENEWAL_DAYS + 2);
        let then = std::time::Duration::from_secs(u64::try_from(then.unix_timestamp()).expect("a time"));
        for (authority, leaf) in [(&certificates.authority, &old.admin), (&old.authority, &certificates.admin)] {
            let verifier = pintle_server::http::verifier(authority.certificate.as_bytes()).expect("a verifier");
            let leaf = CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).expect("a certificate");
            assert!(
                verifier.verify_client_cert(&leaf, &[], rustls::pki_types::UnixTime::since_unix_epoch(then)).is_ok()
            );
        }
    }
}
