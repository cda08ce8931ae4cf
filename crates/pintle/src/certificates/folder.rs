//! Reads and writes the files of the folder `pki`. [`KeyPlan`](super::KeyPlan) decides from their contents.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pintle_auth::jwt::SigningKey;

use super::details::CertificateDetails;
use super::keys::read_key;
use super::{CertificateAndKey, CertificateError, Certificates};

/// The name of the folder in a data directory.
const FOLDER: &str = "pki";
/// The files of the private key and of the public key of service accounts.
pub(super) const SERVICE_ACCOUNT_KEY: &str = "sa.key";
pub(super) const SERVICE_ACCOUNT_PUBLIC_KEY: &str = "sa.pub";

/// The number of [`Part`]s.
pub(super) const PARTS: usize = 5;

/// The owner of a certificate and a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The authority.
    Authority,
    /// The server.
    Serving,
    /// The administrator.
    Admin,
    /// The authority of the front proxy.
    FrontProxyAuthority,
    /// The server as the front proxy of aggregated servers.
    FrontProxy,
}

impl Part {
    pub(crate) const ALL: [Self; PARTS] =
        [Self::Authority, Self::Serving, Self::Admin, Self::FrontProxyAuthority, Self::FrontProxy];

    /// The authority that signs the certificate of this part.
    pub(super) fn authority(self) -> Self {
        match self {
            Self::Authority | Self::Serving | Self::Admin => Self::Authority,
            Self::FrontProxyAuthority | Self::FrontProxy => Self::FrontProxyAuthority,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Authority => "ca",
            Self::Serving => "apiserver",
            Self::Admin => "admin",
            Self::FrontProxyAuthority => "front-proxy-ca",
            Self::FrontProxy => "front-proxy-client",
        }
    }

    pub(super) fn certificate_file(self) -> String {
        format!("{}.crt", self.name())
    }

    pub(super) fn key_file(self) -> String {
        format!("{}.key", self.name())
    }
}

/// The files of a part that exist.
#[derive(Clone, Debug, Default)]
pub(super) struct PartFiles {
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
    /// Certificates that were replaced.
    pub(super) predecessors: Vec<String>,
}

/// The existing files of the folder `pki`, or the keys of a server without such a folder.
#[derive(Clone, Default)]
pub(crate) struct KeyFolder {
    /// The path of the folder; `None` if nothing is stored.
    path: Option<PathBuf>,
    parts: [PartFiles; PARTS],
    pub(super) service_account_key: Option<String>,
    pub(super) service_account_public_key: Option<String>,
}

impl KeyFolder {
    /// Reads the folder of a data directory. Neither the folder nor a file needs to exist.
    ///
    /// # Errors
    /// A file cannot be read, or its content is not of the type that its name says.
    pub(crate) fn read(data_dir: &Path) -> Result<Self, CertificateError> {
        let path = data_dir.join(FOLDER);
        let mut folder = Self { path: Some(path.clone()), ..Self::default() };
        for part in Part::ALL {
            let is_certificate = |pem: &str| CertificateDetails::of(pem).is_some();
            let files = PartFiles {
                certificate: read(&path.join(part.certificate_file()), "not a certificate in PEM", is_certificate)?,
                key: read(&path.join(part.key_file()), "not a private key that can be used", |pem| {
                    read_key(pem).is_ok()
                })?,
                predecessors: predecessors(&path, part)?,
            };
            folder.parts[part as usize] = files;
        }
        let is_signing_key = |pem: &str| SigningKey::from_pem(pem.as_bytes()).is_ok();
        folder.service_account_key =
            read(&path.join(SERVICE_ACCOUNT_KEY), "not a private key of RSA or EC in PEM", is_signing_key)?;
        folder.service_account_public_key = read(&path.join(SERVICE_ACCOUNT_PUBLIC_KEY), "", |_| true)?;
        Ok(folder)
    }

    /// The keys of a running server, and the predecessors of its certificates in its folder.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn of_running(
        data_dir: Option<&Path>,
        running: &Certificates,
        service_account_key: &str,
    ) -> Result<Self, CertificateError> {
        let mut folder = Self::of_keys(running, service_account_key);
        folder.path = data_dir.map(|data_dir| data_dir.join(FOLDER));
        if let Some(path) = &folder.path {
            for part in Part::ALL {
                folder.parts[part as usize].predecessors = predecessors(path, part)?;
            }
        }
        folder.service_account_public_key = Some(String::new());
        Ok(folder)
    }

    /// The keys of a server that are not stored.
    pub(crate) fn of_keys(certificates: &Certificates, service_account_key: &str) -> Self {
        let files = |(_, pair): (Part, &CertificateAndKey)| PartFiles {
            certificate: Some(pair.certificate.clone()),
            key: Some(pair.key.clone()),
            predecessors: Vec::new(),
        };
        Self {
            parts: certificates.pairs().map(files),
            service_account_key: Some(service_account_key.to_owned()),
            ..Self::default()
        }
    }

    /// Completes missing files with the files of another server. `None` if the existing key of the authority or of
    /// service accounts is another one.
    pub(crate) fn completed_by(&self, other: &Self) -> Option<Self> {
        let mut files = self.clone();
        for (existing, other) in files.parts.iter_mut().zip(&other.parts) {
            if existing.key.is_none() {
                existing.key.clone_from(&other.key);
            }
            // An existing certificate may belong to another key.
            if existing.key == other.key && existing.certificate.is_none() {
                existing.certificate.clone_from(&other.certificate);
            }
        }
        if files.service_account_key.is_none() {
            files.service_account_key.clone_from(&other.service_account_key);
        }
        let is_same = files.part(Part::Authority).key == other.part(Part::Authority).key
            && files.service_account_key == other.service_account_key;
        is_same.then_some(files)
    }

    pub(super) fn part(&self, part: Part) -> &PartFiles {
        &self.parts[part as usize]
    }

    /// The path of a file.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.as_deref().unwrap_or(Path::new(FOLDER)).join(name)
    }

    /// True if no file of a certificate or key exists.
    pub(crate) fn is_empty(&self) -> bool {
        let has_part = self.parts.iter().any(|files| files.certificate.is_some() || files.key.is_some());
        !has_part && self.service_account_key.is_none()
    }

    /// The key and the certificate of a part, which must exist.
    ///
    /// # Errors
    /// The key or the certificate is missing, or they do not belong together.
    pub(crate) fn pair(&self, part: Part) -> Result<CertificateAndKey, CertificateError> {
        let PartFiles { certificate, key, .. } = self.part(part);
        let pair = CertificateAndKey {
            certificate: self.existing(certificate, &part.certificate_file())?,
            key: self.existing(key, &part.key_file())?,
        };
        let details = CertificateDetails::of(&pair.certificate);
        if read_key(&pair.key).is_ok_and(|key| details.is_some_and(|details| !details.is_of(&key))) {
            let why = format!("it is not the certificate of {}", part.key_file());
            return Err(CertificateError::Unusable { path: self.file(&part.certificate_file()), why });
        }
        Ok(pair)
    }

    /// All certificates, which must exist.
    ///
    /// # Errors
    /// A file is missing, or a certificate does not belong to its key.
    pub(crate) fn certificates(&self) -> Result<Certificates, CertificateError> {
        let [authority, serving, admin, front_proxy_authority, front_proxy] = Part::ALL.map(|part| self.pair(part));
        Ok(Certificates {
            authority: authority?,
            serving: serving?,
            admin: admin?,
            front_proxy_authority: front_proxy_authority?,
            front_proxy: front_proxy?,
        })
    }

    /// Checks that the keys of a server are complete. A server of an earlier version has no front proxy.
    ///
    /// # Errors
    /// A file is missing, or a certificate does not belong to its key.
    pub(crate) fn check_complete(&self) -> Result<(), CertificateError> {
        for part in Part::ALL {
            let PartFiles { certificate, key, .. } = self.part(part);
            if part.authority() == Part::Authority || certificate.is_some() || key.is_some() {
                self.pair(part)?;
            }
        }
        self.existing(&self.service_account_key, SERVICE_ACCOUNT_KEY).map(drop)
    }

    fn existing(&self, text: &Option<String>, name: &str) -> Result<String, CertificateError> {
        let missing = || file_error(&self.file(name), io::ErrorKind::NotFound.into());
        text.clone().ok_or_else(missing)
    }

    /// Writes a new private key. If the file exists by now, it stays and the call fails.
    pub(super) fn write_key(&self, name: &str, pem: &str) -> Result<(), CertificateError> {
        let Some(folder) = &self.path else { return Ok(()) };
        fs::create_dir_all(folder).map_err(|error| file_error(folder, error))?;
        let path = folder.join(name);
        let temporary = write_temporary(&path, pem).map_err(|error| file_error(&path, error))?;
        // Creating a link fails if the file exists, but not every file system has links.
        let linked = match fs::hard_link(&temporary, &path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !path.exists() => {
                fs::rename(&temporary, &path)
            }
            linked => {
                let _ = fs::remove_file(&temporary);
                linked
            }
        };
        linked.map_err(|error| file_error(&path, error))
    }

    /// Writes a file that is not secret. It may replace an existing file.
    pub(super) fn write_file(&self, name: &str, text: &str) -> Result<(), CertificateError> {
        match &self.path {
            Some(folder) => write_private(&folder.join(name), text),
            None => Ok(()),
        }
    }

    /// Writes a certificate. The replaced certificate is kept in a file with its serial number.
    pub(super) fn write_certificate(
        &self,
        part: Part,
        pem: &str,
        replaced: Option<&str>,
    ) -> Result<(), CertificateError> {
        if let Some(replaced) = replaced {
            let serial = CertificateDetails::of(replaced).map(|details| details.serial).unwrap_or_default();
            self.write_file(&format!("{}.{serial}", part.certificate_file()), replaced)?;
        }
        self.write_file(&part.certificate_file(), pem)
    }

    /// Syncs the folder, so that the names of the written files are durable.
    pub(super) fn sync(&self) -> Result<(), CertificateError> {
        let Some(folder) = &self.path else { return Ok(()) };
        fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| file_error(folder, error))
    }
}

/// Reads a file, if it exists.
fn read(path: &Path, problem: &str, is_usable: impl Fn(&str) -> bool) -> Result<Option<String>, CertificateError> {
    match fs::read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) if is_usable(&text) => Ok(Some(text)),
            _ => Err(CertificateError::Unusable { path: path.to_owned(), why: problem.to_owned() }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error(path, error)),
    }
}

/// The certificates of a part that were replaced. Unreadable files are skipped.
fn predecessors(folder: &Path, part: Part) -> Result<Vec<String>, CertificateError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(file_error(folder, error)),
    };
    let prefix = part.certificate_file() + ".";
    let names = entries.filter_map(Result::ok).filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    Ok(names.filter_map(|entry| fs::read_to_string(entry.path()).ok()).collect())
}

pub(super) fn file_error(path: &Path, error: io::Error) -> CertificateError {
    CertificateError::File { path: path.to_owned(), error }
}

/// Writes a text to a new file in the folder of `path`. Only its owner can read it.
fn write_temporary(path: &Path, text: &str) -> io::Result<PathBuf> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    let _ = fs::remove_file(&temporary);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(temporary)
}

/// Writes a file atomically. Only its owner can read it.
///
/// # Errors
/// The file cannot be written.
pub fn write_private(path: &Path, text: &str) -> Result<(), CertificateError> {
    let write = || fs::rename(write_temporary(path, text)?, path);
    write().map_err(|error| file_error(path, error))
}
