//! Client certificates: the common name is the user, the organizations are the groups (upstream: `x509.CommonNameUserConversion`).
//! A verification costs more than all the rest of a small request, so that its good outcome is kept for some seconds.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use pintle_value::Str;
use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{AuthenticationError, Authenticator, Credentials, UserInfo};

/// Where it is said by which credential someone is known.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// How long a certificate that was found good is not looked at again: so much later than it expires it may be accepted.
const KEPT: Duration = Duration::from_secs(10);
/// How many certificates are remembered.
const REMEMBERED: usize = 4096;

/// Checks a certificate chain (leaf first) against the authorities that are trusted, now. Says why it is not good.
pub type Verify = Box<dyn Fn(&CertificateDer<'_>, &[CertificateDer<'_>]) -> Result<(), String> + Send + Sync>;

/// Knows senders by their client certificate.
pub struct ClientCertificateAuthenticator {
    verify: Verify,
    /// By the leaf's bytes.
    known: RwLock<HashMap<Box<[u8]>, Known>>,
}

/// A chain that was found good.
struct Known {
    rest: Vec<CertificateDer<'static>>,
    user: UserInfo,
    until: Instant,
}

impl ClientCertificateAuthenticator {
    /// An authenticator that trusts the certificates that `verify` accepts.
    #[must_use]
    pub fn new(verify: Verify) -> Self {
        Self { verify, known: RwLock::default() }
    }

    /// Who was found to hold this chain a moment ago.
    fn recall(&self, leaf: &CertificateDer<'_>, rest: &[CertificateDer<'_>], now: Instant) -> Option<UserInfo> {
        let known = self.known.read();
        let found = known.get(leaf.as_ref())?;
        (now < found.until && found.rest == rest).then(|| found.user.clone())
    }

    fn remember(&self, leaf: &CertificateDer<'_>, rest: &[CertificateDer<'_>], user: &UserInfo, now: Instant) {
        let mut known = self.known.write();
        if known.len() >= REMEMBERED {
            known.retain(|_, known| now < known.until);
        }
        if known.len() < REMEMBERED {
            let rest = rest.iter().map(|c| c.clone().into_owned()).collect();
            let found = Known { rest, user: user.clone(), until: now + KEPT };
            known.insert(leaf.as_ref().into(), found);
        }
    }
}

impl Authenticator for ClientCertificateAuthenticator {
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<UserInfo>, AuthenticationError> {
        let Some((leaf, rest)) = credentials.certificates.split_first() else { return Ok(None) };
        let now = Instant::now();
        if let Some(user) = self.recall(leaf, rest, now) {
            return Ok(Some(user));
        }
        (self.verify)(leaf, rest).map_err(AuthenticationError)?;
        let (_, certificate) = X509Certificate::from_der(leaf).map_err(|e| AuthenticationError(e.to_string()))?;
        let subject = certificate.subject();
        let name = subject.iter_common_name().next().and_then(|a| a.as_str().ok()).unwrap_or_default();
        if name.is_empty() {
            return Ok(None);
        }
        let groups = subject.iter_organization().filter_map(|a| a.as_str().ok()).map(Str::from).collect();
        let fingerprint: String = Sha256::digest(leaf).iter().map(|byte| format!("{byte:02x}")).collect();
        let extra = vec![(CREDENTIAL_ID.into(), vec![Str::from(format!("X509SHA256={fingerprint}"))])];
        let user = UserInfo { name: name.into(), uid: Str::default(), groups, extra };
        self.remember(leaf, rest, &user, now);
        Ok(Some(user))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(name: &str) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, "group");
        params.distinguished_name.push(DnType::CommonName, name);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().into()
    }

    /// Shows each chain in turn to one authenticator, which trusts what `good` says: who it is, and how many were
    /// verified so far.
    fn check(good: fn(usize) -> bool, chains: &[(&[CertificateDer<'static>], Option<&str>, usize)]) {
        let verified = Arc::new(AtomicUsize::new(0));
        let counter = verified.clone();
        let authenticator = ClientCertificateAuthenticator::new(Box::new(move |_, _| {
            if good(counter.fetch_add(1, Ordering::Relaxed)) { Ok(()) } else { Err("not good".to_owned()) }
        }));
        for (certificates, name, count) in chains {
            let credentials = Credentials { certificates, authorization: None };
            let who = authenticator.authenticate(&credentials).ok().flatten();
            assert_eq!(who.as_ref().map(|who| who.name.as_str()), *name);
            assert!(who.is_none_or(|who| who.groups == ["group"]));
            assert_eq!(verified.load(Ordering::Relaxed), *count);
        }
    }

    #[test]
    fn verified_once() {
        let (a, b) = (certificate("a"), certificate("b"));
        let (alone, other, with_b) = ([a.clone()], [b.clone()], [a, b]);
        check(
            |_| true,
            &[
                (&[], None, 0),
                (&alone, Some("a"), 1),
                (&alone, Some("a"), 1),
                (&other, Some("b"), 2),
                (&with_b, Some("a"), 3),
                (&with_b, Some("a"), 3),
            ],
        );
    }

    #[test]
    fn what_is_not_good_is_not_remembered() {
        let alone = [certificate("a")];
        check(|n| n == 1, &[(&alone, None, 1), (&alone, Some("a"), 2), (&alone, Some("a"), 2)]);
    }

    #[test]
    fn remembers_a_bounded_number() {
        let authenticator = ClientCertificateAuthenticator::new(Box::new(|_, _| Ok(())));
        let now = Instant::now();
        for number in 0..REMEMBERED + 10 {
            let leaf = CertificateDer::from(number.to_be_bytes().to_vec());
            authenticator.remember(&leaf, &[], &UserInfo::default(), now);
        }
        assert_eq!(authenticator.known.read().len(), REMEMBERED);
        let leaf = CertificateDer::from(vec![1]);
        authenticator.remember(&leaf, &[], &UserInfo::default(), now + KEPT);
        assert_eq!(authenticator.known.read().len(), 1);
        assert!(authenticator.recall(&leaf, &[], now + KEPT).is_some());
        assert!(authenticator.recall(&leaf, &[], now + KEPT * 2).is_none());
    }
}
