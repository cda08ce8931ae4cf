//! Decides from the existing files which certificates and keys the server creates, and writes them.

use std::panic::resume_unwind;
use std::path::Path;

use rcgen::KeyPair;
use time::{Duration, OffsetDateTime};

use super::clock_check::ClockBounds;
use super::details::{CertificateDetails, is_signed_by};
use super::folder::{KeyFolder, Part, SERVICE_ACCOUNT_KEY, SERVICE_ACCOUNT_PUBLIC_KEY};
use super::issue::{self, hosts, is_own_authority};
use super::keys::{new_key, read_key, sec1_pem};
use super::{CertificateAndKey, CertificateError, Certificates, rfc3339};

/// How long before its expiry the certificate of the authority is renewed. Clients need the new certificate.
const AUTHORITY_RENEWAL: Duration = Duration::days(365);
/// How long before its expiry a certificate that the authority signs is renewed.
const LEAF_RENEWAL: Duration = Duration::days(90);

/// Why a certificate has to be replaced.
#[derive(Clone, Debug)]
struct Need {
    /// The reason, as the predicate of a sentence about the file.
    why: String,
    /// False if the server can go on with the certificate.
    is_urgent: bool,
}

impl Need {
    fn urgent(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_urgent: true }
    }

    /// Why the validity of a certificate requires a new certificate; `None` if it does not.
    fn of_validity(details: &CertificateDetails, now: OffsetDateTime, renewal: Duration) -> Option<Self> {
        let (not_before, not_after) = (rfc3339(details.not_before), rfc3339(details.not_after));
        if details.not_before > now {
            return Some(Self::urgent(format!("is not valid before {not_before}")));
        }
        let is_urgent = details.not_after < now;
        let why = if is_urgent { format!("has expired at {not_after}") } else { format!("expires at {not_after}") };
        (details.not_after < now + renewal).then_some(Self { why, is_urgent })
    }
}

/// A certificate that replaces another certificate, or that is the first.
#[derive(Clone, Debug)]
struct Change {
    part: Part,
    need: Need,
    /// False for a predecessor that is used again.
    is_issued: bool,
    /// The certificate that is replaced.
    previous: Option<String>,
}

/// The certificates and keys with which a server runs, and the changes of the files that they require.
#[derive(Clone)]
pub(crate) struct KeyPlan {
    pub(crate) certificates: Certificates,
    /// The private key of service accounts, in PEM.
    pub(crate) service_account_key: String,
    stored: KeyFolder,
    changes: Vec<Change>,
    now: OffsetDateTime,
}

/// The inputs of a plan.
struct Planner<'p> {
    files: &'p KeyFolder,
    names: &'p [String],
    now: OffsetDateTime,
    changes: Vec<Change>,
}

impl KeyPlan {
    /// Plans with the `stored` files, completed with the keys of `seed`. A missing certificate is issued for its key by
    /// the authority. A missing key is created only if no other file shows that it existed.
    ///
    /// # Errors
    /// A private key is missing, the files contradict each other, or the random source or the signature fails.
    pub(crate) fn new(
        stored: &KeyFolder,
        seed: Option<&KeyFolder>,
        names: &[String],
        now: OffsetDateTime,
    ) -> Result<Self, CertificateError> {
        let files = seed.unwrap_or(stored);
        let mut planner = Planner { files, names, now, changes: Vec::new() };
        let authority = planner.authority(Part::Authority)?;
        let serving = planner.leaf(Part::Serving, &authority)?;
        let admin = planner.leaf(Part::Admin, &authority)?;
        let front_proxy_authority = planner.authority(Part::FrontProxyAuthority)?;
        let front_proxy = planner.leaf(Part::FrontProxy, &front_proxy_authority)?;
        let service_account_key = match &files.service_account_key {
            Some(key) => key.clone(),
            None if files.service_account_public_key.is_some() => {
                return Err(CertificateError::KeyGone {
                    path: files.file(SERVICE_ACCOUNT_KEY),
                    sibling: files.file(SERVICE_ACCOUNT_PUBLIC_KEY),
                });
            }
            None => sec1_pem(&new_key()?)?,
        };
        let certificates = Certificates { authority, serving, admin, front_proxy_authority, front_proxy };
        Ok(Self { certificates, service_account_key, stored: stored.clone(), changes: planner.changes, now })
    }

    /// True if the plan changes no certificate.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.changes.is_empty()
    }

    /// True if the plan issues certificates.
    pub(crate) fn issues(&self) -> bool {
        self.changes.iter().any(|change| change.is_issued)
    }

    fn pair(&mut self, part: Part) -> &mut CertificateAndKey {
        match part {
            Part::Authority => &mut self.certificates.authority,
            Part::Serving => &mut self.certificates.serving,
            Part::Admin => &mut self.certificates.admin,
            Part::FrontProxyAuthority => &mut self.certificates.front_proxy_authority,
            Part::FrontProxy => &mut self.certificates.front_proxy,
        }
    }

    /// Decides whether certificates may be issued at the time of the clock. If the clock is doubtful, the server keeps
    /// its current certificates.
    ///
    /// # Errors
    /// The clock is doubtful, and the server cannot go on without a new certificate.
    pub(crate) fn check_clock(&mut self, now: OffsetDateTime, bounds: ClockBounds) -> Result<(), CertificateError> {
        let issued = |change: &&Change| change.is_issued;
        let future = self.changes.iter().filter(issued).find_map(|change| {
            let details = CertificateDetails::of(change.previous.as_deref()?)?;
            let file = change.part.certificate_file();
            (details.not_before > now).then(|| format!("but {file} was issued at {}", rfc3339(details.not_before)))
        });
        let Some(doubt) = bounds.doubt(now).or(future).filter(|_| self.issues()) else { return Ok(()) };
        let urgent = self.changes.iter().filter(issued).find(|change| change.need.is_urgent).cloned();
        for change in std::mem::take(&mut self.changes) {
            match change.previous {
                Some(previous) if change.is_issued => {
                    let file = self.stored.file(&change.part.certificate_file());
                    let reason = format!("the clock says {}, {doubt}", rfc3339(now));
                    log("Refused to issue a certificate", &file, &previous, &change.need.why, Some(&reason));
                    self.pair(change.part).certificate = previous;
                }
                _ => self.changes.push(change),
            }
        }
        match urgent {
            Some(Change { part, need, .. }) => Err(CertificateError::DoubtfulClock {
                path: self.stored.file(&part.certificate_file()),
                why: need.why,
                now: rfc3339(now),
                doubt,
            }),
            None => Ok(()),
        }
    }

    /// Writes the changed files. Private keys come first, so that no certificate is without its key.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn write(&self) -> Result<(), CertificateError> {
        let stored = &self.stored;
        let pairs = self.certificates.pairs();
        let mut keys: Vec<(String, &str)> = Vec::new();
        for (part, pair) in pairs.iter().filter(|(part, _)| stored.part(*part).key.is_none()) {
            keys.push((part.key_file(), &pair.key));
        }
        if stored.service_account_key.is_none() {
            keys.push((SERVICE_ACCOUNT_KEY.to_owned(), &self.service_account_key));
        }
        for (name, _) in &keys {
            tracing::warn!(file = %stored.file(name).display(), "Writing a new private key");
        }
        let changed =
            pairs.iter().filter(|(part, pair)| stored.part(*part).certificate.as_ref() != Some(&pair.certificate));
        let changed: Vec<_> = changed.collect();
        let is_written = !keys.is_empty() || !changed.is_empty();
        // Each file is synced. So files that do not depend on each other are written at the same time.
        write_all(keys.iter().map(|(name, pem)| || stored.write_key(name, pem)))?;
        if !keys.is_empty() {
            stored.sync()?;
        }
        if stored.service_account_public_key.is_none() {
            // The key may be from elsewhere, in a form that `read_key` does not accept.
            if let Ok(key) = read_key(&self.service_account_key) {
                stored.write_file(SERVICE_ACCOUNT_PUBLIC_KEY, &key.public_key_pem())?;
            }
        }
        write_all(changed.iter().map(|(part, pair)| {
            || stored.write_certificate(*part, &pair.certificate, stored.part(*part).certificate.as_deref())
        }))?;
        if is_written {
            stored.sync()?;
        }
        for change in &self.changes {
            let certificate = &pairs[change.part as usize].1.certificate;
            let message = match (change.is_issued, &change.previous) {
                (false, _) => "Went back to a certificate that was replaced",
                (true, Some(_)) => "Renewed a certificate",
                (true, None) => "Issued a certificate",
            };
            log(message, &stored.file(&change.part.certificate_file()), certificate, &change.need.why, None);
        }
        for (part, authority) in pairs.iter().filter(|(part, _)| part.authority() == *part) {
            let details = CertificateDetails::of(&authority.certificate);
            let details = details.filter(|details| !is_own_authority(*part, details));
            if let Some(need) = details.and_then(|details| Need::of_validity(&details, self.now, AUTHORITY_RENEWAL)) {
                let (file, reason) = (part.certificate_file(), "this server has not made it and does not renew it");
                log(
                    "The authority has to be renewed",
                    &stored.file(&file),
                    &authority.certificate,
                    &need.why,
                    Some(reason),
                );
            }
        }
        Ok(())
    }
}

/// Writes files at the same time, and waits for all of them.
fn write_all<W>(writes: impl Iterator<Item = W>) -> Result<(), CertificateError>
where
    W: FnOnce() -> Result<(), CertificateError> + Send,
{
    std::thread::scope(|scope| {
        let threads: Vec<_> = writes.map(|write| scope.spawn(write)).collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        results.fold(Ok(()), Result::and)
    })
}

/// Logs an operation on a certificate, `why` it was done, and the `reason` if it was refused.
fn log(message: &'static str, file: &Path, certificate: &str, why: &str, reason: Option<&str>) {
    let Some(details) = CertificateDetails::of(certificate) else { return };
    tracing::warn!(
        file = %file.display(),
        serial = details.serial,
        not_before = rfc3339(details.not_before),
        not_after = rfc3339(details.not_after),
        why,
        reason,
        "{message}"
    );
}

impl Planner<'_> {
    /// An authority. All trust depends on its key, so a new key is created only if there is no certificate of the
    /// authority.
    fn authority(&mut self, part: Part) -> Result<CertificateAndKey, CertificateError> {
        let files = self.files.part(part);
        // A key without a certificate has signed nothing: a first start may have been interrupted.
        let signed = move || Part::ALL.into_iter().filter(move |other| other.authority() == part);
        let sibling = signed().find(|part| self.files.part(*part).certificate.is_some());
        let sibling = sibling.map(Part::certificate_file);
        let (pem, key) = self.key(part, sibling)?;
        let current = files.certificate.clone();
        let file = self.files.file(&part.certificate_file());
        let unusable = |why: String| CertificateError::Unusable { path: file.clone(), why };
        let details = current.as_deref().and_then(CertificateDetails::of);
        if details.as_ref().is_some_and(|details| !details.is_of(&key)) {
            return Err(unusable(format!("it is not the certificate of {}", part.key_file())));
        }
        let (now, is_own) = (self.now, details.as_ref().is_none_or(|details| is_own_authority(part, details)));
        let need = |pem: Option<&str>| match pem.and_then(CertificateDetails::of) {
            None => Some(Need::urgent("is missing")),
            // Only the operator can renew an authority that the operator has made.
            Some(details) => Need::of_validity(&details, now, AUTHORITY_RENEWAL).filter(|n| is_own || n.is_urgent),
        };
        let own_name = issue::authority_name(part);
        let stranger = signed().filter(|leaf| *leaf != part).find_map(|leaf| {
            let details = CertificateDetails::of(self.files.part(leaf).certificate.as_deref()?)?;
            (details.issuer != own_name).then(|| (leaf.certificate_file(), details.issuer))
        });
        if let (None, Some((leaf, issuer))) = (&current, stranger) {
            return Err(unusable(format!("it is missing, and {leaf} was issued by {issuer}: restore it")));
        }
        let certificate = self.certificate(part, current, &key, None, need, |need| match is_own {
            true => Ok(issue::authority(part, &key, now)?),
            false => Err(unusable(format!("it {}; this server has not made it and does not renew it", need.why))),
        })?;
        Ok(CertificateAndKey { certificate, key: pem })
    }

    /// A certificate that the authority signs.
    fn leaf(&mut self, part: Part, authority: &CertificateAndKey) -> Result<CertificateAndKey, CertificateError> {
        let files = self.files.part(part);
        let (pem, key) = self.key(part, files.certificate.as_ref().map(|_| part.certificate_file()))?;
        let (names, now) = (self.names, self.now);
        let need = |pem: Option<&str>| {
            let Some((pem, details)) = pem.and_then(|pem| Some((pem, CertificateDetails::of(pem)?))) else {
                return Some(Need::urgent("is missing"));
            };
            if !details.is_of(&key) {
                return Some(Need::urgent(format!("is not the certificate of {}", part.key_file())));
            }
            if !is_signed_by(pem, &authority.certificate) {
                return Some(Need::urgent("was not signed by the authority"));
            }
            let is_complete = part != Part::Serving || hosts(names).iter().all(|host| details.names.contains(host));
            let lacks_names = || Some(Need { why: "is not valid for all names".to_owned(), is_urgent: false });
            Need::of_validity(&details, now, LEAF_RENEWAL).or_else(|| if is_complete { None } else { lacks_names() })
        };
        let issue = |_: &Need| match part {
            Part::Serving => Ok(issue::serving(authority, &key, names, now)?),
            Part::FrontProxy => Ok(issue::front_proxy(authority, &key, now)?),
            _ => Ok(issue::admin(authority, &key, now)?),
        };
        let current = files.certificate.clone();
        let certificate = self.certificate(part, current, &key, Some(&authority.certificate), need, issue)?;
        Ok(CertificateAndKey { certificate, key: pem })
    }

    /// The key of a part. It is created if there is no `sibling`.
    fn key(&self, part: Part, sibling: Option<String>) -> Result<(String, KeyPair), CertificateError> {
        let path = self.files.file(&part.key_file());
        match (&self.files.part(part).key, sibling) {
            (Some(pem), _) => match read_key(pem) {
                Ok(key) => Ok((pem.clone(), key)),
                Err(error) => Err(CertificateError::Unusable { path, why: error.to_string() }),
            },
            (None, Some(sibling)) => Err(CertificateError::KeyGone { path, sibling: self.files.file(&sibling) }),
            (None, None) => {
                let key = new_key()?;
                Ok((sec1_pem(&key)?, key))
            }
        }
    }

    /// The certificate with which the server runs: the current certificate if it is good, or else a good predecessor,
    /// or else a new certificate.
    fn certificate(
        &mut self,
        part: Part,
        current: Option<String>,
        key: &KeyPair,
        authority: Option<&str>,
        need: impl Fn(Option<&str>) -> Option<Need>,
        issue: impl Fn(&Need) -> Result<String, CertificateError>,
    ) -> Result<String, CertificateError> {
        let Some(found) = need(current.as_deref()) else { return Ok(current.unwrap_or_default()) };
        let usable = self.files.part(part).predecessors.iter().filter_map(|pem| {
            let details = CertificateDetails::of(pem)?;
            let is_signed = authority.is_none_or(|authority| is_signed_by(pem, authority));
            (details.is_valid_at(self.now) && details.is_of(key) && is_signed).then_some((details.not_after, pem))
        });
        let predecessor = usable.max_by_key(|(not_after, _)| *not_after).filter(|_| found.is_urgent);
        if let Some((_, predecessor)) = predecessor {
            let predecessor = predecessor.clone();
            self.changes.push(Change { part, need: found, is_issued: false, previous: current });
            return Ok(predecessor);
        }
        let certificate = issue(&found)?;
        self.changes.push(Change { part, need: found, is_issued: true, previous: current });
        Ok(certificate)
    }
}
