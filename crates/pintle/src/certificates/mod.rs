//! The server's own certificates and private keys: an authority, a serving certificate, the administrator's client
//! certificate and the key that signs tokens of service accounts. The client certificate for aggregated servers has an
//! authority of its own, because its clients can name any user. All are created at the first start and stored in the
//! folder `pki` of the data directory (`KeyFolder`). A private key is never overwritten. It is never replaced with a
//! new key if another file shows that it existed (`KeyPlan`).

mod clock_check;
mod details;
mod folder;
mod issue;
mod keys;
mod plan;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use pintle_value::time::Time;
use time::OffsetDateTime;

pub(crate) use self::clock_check::{ClockBounds, newest_commit};
pub(crate) use self::details::CertificateDetails;
pub(crate) use self::folder::KeyFolder;
pub use self::folder::write_private;
use self::folder::{PARTS, Part};
pub use self::issue::CLOCK_SKEW;
pub(crate) use self::issue::{FRONT_PROXY_NAME, serial_number};
pub(crate) use self::keys::{new_key, read_key, sec1_pem};
pub(crate) use self::plan::KeyPlan;

/// Why the certificates cannot be loaded or created.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The content of a file cannot be used.
    #[error("{}: {why}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A private key is missing although another file shows that it existed.
    #[error(
        "{} is missing, but {} shows that there was one. A new key would invalidate all that the old one has signed: \
         restore it from a backup, or move {} away to have new ones made",
        path.display(), sibling.display(), sibling.display()
    )]
    KeyGone {
        /// The file of the key.
        path: PathBuf,
        /// A file that belongs to the key.
        sibling: PathBuf,
    },
    /// A certificate has to be issued, but the clock is doubtful.
    #[error(
        "{} {why}, and no other is issued because the clock is doubtful: it says {now}, {doubt}. Set the clock, or pass \
         --accept-clock if it is right", path.display()
    )]
    DoubtfulClock {
        /// The file of the certificate.
        path: PathBuf,
        /// Why the certificate has to be issued.
        why: String,
        /// The time of the clock.
        now: String,
        /// Why the clock is doubtful.
        doubt: String,
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
    /// Reads the authority from a data directory.
    ///
    /// # Errors
    /// A file cannot be read, or its content is not of the type that its name says.
    pub fn load_authority(data_dir: &Path) -> Result<Self, CertificateError> {
        KeyFolder::read(data_dir)?.pair(Part::Authority)
    }

    /// Reads the administrator's certificate from a data directory.
    ///
    /// # Errors
    /// A file cannot be read, or its content is not of the type that its name says.
    pub fn load_admin(data_dir: &Path) -> Result<Self, CertificateError> {
        KeyFolder::read(data_dir)?.pair(Part::Admin)
    }
}

impl fmt::Debug for CertificateAndKey {
    /// Does not print the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateAndKey").finish_non_exhaustive()
    }
}

/// The certificates for TLS, for the authentication of the administrator, and for calls of aggregated servers.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The authority.
    pub authority: CertificateAndKey,
    /// The server.
    pub serving: CertificateAndKey,
    /// The administrator, a member of `system:masters`.
    pub admin: CertificateAndKey,
    /// The authority of the front proxy. Aggregated servers accept any user name from its clients.
    pub front_proxy_authority: CertificateAndKey,
    /// The server as the front proxy of aggregated servers.
    pub front_proxy: CertificateAndKey,
}

impl Certificates {
    /// Creates new certificates, which are valid from `now` on. `names` are host names and addresses for which the
    /// serving certificate is valid. It is also valid for the loopback interface and the service `kubernetes`.
    ///
    /// # Errors
    /// The random source or the signature fails.
    pub fn generate(names: &[String], now: OffsetDateTime) -> Result<Self, CertificateError> {
        Ok(KeyPlan::new(&KeyFolder::default(), None, names, now)?.certificates)
    }

    /// Reads the certificates from a data directory as they are.
    ///
    /// # Errors
    /// A file cannot be read, or its content is not of the type that its name says.
    pub fn load(data_dir: &Path) -> Result<Self, CertificateError> {
        KeyFolder::read(data_dir)?.certificates()
    }

    /// The certificates and keys in the order of [`Part::ALL`].
    fn pairs(&self) -> [(Part, &CertificateAndKey); PARTS] {
        [
            (Part::Authority, &self.authority),
            (Part::Serving, &self.serving),
            (Part::Admin, &self.admin),
            (Part::FrontProxyAuthority, &self.front_proxy_authority),
            (Part::FrontProxy, &self.front_proxy),
        ]
    }
}

/// A time in the form of RFC 3339.
fn rfc3339(time: OffsetDateTime) -> String {
    Time::from_seconds(time.unix_timestamp()).rfc3339()
}
