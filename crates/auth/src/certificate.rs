//! Client certificates: the common name is the user, the organizations are the groups (upstream:
//! `authentication/request/x509`, `CommonNameUserConversion`). Verification costs more than the rest of a small
//! request, so a success is cached for some seconds.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use pintle_locks::RwLock;
use pintle_value::Str;
use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Certificate, X509Name};

use crate::authenticate::AuthenticationResult;
use crate::user::CREDENTIAL_ID;
use crate::{AuthFuture, AuthenticationError, AuthenticationRequest, Authenticator, UserInfo};

/// The attribute of a subject that is the uid of the user.
const UID_OID: &str = "1.3.6.1.4.1.57683.2";
/// How long a verified chain is accepted without another verification. A chain may be accepted that long after its
/// expiry.
const CACHE_TTL: Duration = Duration::from_secs(10);
/// Maximum number of cached chains.
const CACHE_SIZE: usize = 4096;

/// Verifies a certificate chain (leaf first) against the trusted authorities, at the current time. The error is the
/// reason.
pub type VerifyCertificate =
    Box<dyn Fn(&CertificateDer<'_>, &[CertificateDer<'_>]) -> Result<(), String> + Send + Sync>;

/// Authenticates users by their client certificate.
pub struct ClientCertificateAuthenticator {
    verify: VerifyCertificate,
    /// Whether certificates have the uids of their users.
    reads_uid: bool,
    /// Verified chains by the bytes of the leaf.
    cache: RwLock<HashMap<Box<[u8]>, CachedChain>>,
}

/// A verified chain.
struct CachedChain {
    intermediates: Vec<CertificateDer<'static>>,
    user: UserInfo,
    expires: Instant,
}

impl ClientCertificateAuthenticator {
    /// An authenticator that trusts the certificates that `verify` accepts. `reads_uid` is the gate
    /// `AllowParsingUserUIDFromCertAuth`.
    #[must_use]
    pub fn new(verify: VerifyCertificate, reads_uid: bool) -> Self {
        Self { verify, reads_uid, cache: RwLock::default() }
    }

    fn cached(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: Instant,
    ) -> Option<UserInfo> {
        let cache = self.cache.read();
        let chain = cache.get(leaf.as_ref())?;
        (now < chain.expires && chain.intermediates == intermediates).then(|| chain.user.clone())
    }

    fn store(&self, leaf: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>], user: &UserInfo, now: Instant) {
        let mut cache = self.cache.write();
        if cache.len() >= CACHE_SIZE {
            cache.retain(|_, chain| now < chain.expires);
        }
        if cache.len() < CACHE_SIZE {
            let intermediates = intermediates.iter().map(|c| c.clone().into_owned()).collect();
            let chain = CachedChain { intermediates, user: user.clone(), expires: now + CACHE_TTL };
            cache.insert(leaf.as_ref().into(), chain);
        }
    }

    fn verify(&self, request: &AuthenticationRequest<'_>) -> AuthenticationResult {
        let Some((leaf, intermediates)) = request.certificates.split_first() else { return Ok(None) };
        let now = Instant::now();
        if let Some(user) = self.cached(leaf, intermediates, now) {
            return Ok(Some(user.into()));
        }
        (self.verify)(leaf, intermediates).map_err(AuthenticationError)?;
        let Some(user) = user(leaf, self.reads_uid)? else { return Ok(None) };
        self.store(leaf, intermediates, &user, now);
        Ok(Some(user.into()))
    }
}

/// The user of a verified certificate; `None` if it has no common name (upstream: `CommonNameUserConversion`).
fn user(leaf: &CertificateDer<'_>, reads_uid: bool) -> Result<Option<UserInfo>, AuthenticationError> {
    let name = common_name(leaf)?;
    if name.is_empty() {
        return Ok(None);
    }
    let (_, certificate) = parse(leaf)?;
    let subject = certificate.subject();
    let uid = if reads_uid { uid(subject)? } else { Str::default() };
    let groups = subject.iter_organization().map(|group| text(group, "organization"));
    let groups = groups.collect::<Result<Vec<_>, _>>()?;
    let fingerprint: String = Sha256::digest(leaf).iter().map(|byte| format!("{byte:02x}")).collect();
    let extra = vec![(CREDENTIAL_ID.into(), vec![Str::from(format!("X509SHA256={fingerprint}"))])];
    Ok(Some(UserInfo { name, uid, groups, extra }))
}

fn parse<'c>(leaf: &'c CertificateDer<'_>) -> Result<(&'c [u8], X509Certificate<'c>), AuthenticationError> {
    X509Certificate::from_der(leaf).map_err(|error| AuthenticationError(error.to_string()))
}

/// The common name of a certificate, or an empty text. If there are several, the last counts, as in Go.
pub(crate) fn common_name(leaf: &CertificateDer<'_>) -> Result<Str, AuthenticationError> {
    let (_, certificate) = parse(leaf)?;
    let name = certificate.subject().iter_common_name().last();
    name.map_or(Ok(Str::default()), |name| text(name, "common name"))
}

/// The text of an attribute. One that cannot be read must not leave the name to another.
fn text(attribute: &AttributeTypeAndValue<'_>, what: &str) -> Result<Str, AuthenticationError> {
    let text = attribute.as_str().map_err(|_| AuthenticationError(format!("unable to parse the {what} into a string")));
    text.map(Str::from)
}

/// The uid of the user of a certificate (upstream: `parseUIDFromCert`).
fn uid(subject: &X509Name<'_>) -> Result<Str, AuthenticationError> {
    let error = |why: &str| Err(AuthenticationError(why.to_owned()));
    let mut uids = Vec::new();
    for attribute in subject.iter_attributes().filter(|attribute| attribute.attr_type().to_id_string() == UID_OID) {
        let Ok(uid) = attribute.as_str() else { return error("unable to parse UID into a string") };
        uids.push(uid);
    }
    match &*uids {
        [] => Ok(Str::default()),
        [""] => error("UID cannot be an empty string"),
        [uid] => Ok((*uid).into()),
        uids => error(&format!("expected 1 UID, but found multiple: [{}]", uids.join(" "))),
    }
}

impl Authenticator for ClientCertificateAuthenticator {
    fn authenticate<'a>(&'a self, request: &'a AuthenticationRequest<'a>) -> AuthFuture<'a, AuthenticationResult> {
        AuthFuture::ready(self.verify(request))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::HeaderMap;
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(name: &str) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, "group");
        params.distinguished_name.push(DnType::CommonName, name);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().into()
    }

    /// Presents each chain in turn to one authenticator, for which the `n`th verification succeeds if `succeeds(n)`.
    /// Each row is a chain, the user, and the number of verifications so far.
    fn check(succeeds: fn(usize) -> bool, chains: &[(&[CertificateDer<'static>], Option<&str>, usize)]) {
        let verified = Arc::new(AtomicUsize::new(0));
        let counter = verified.clone();
        let authenticator = ClientCertificateAuthenticator::new(
            Box::new(move |_, _| {
                if succeeds(counter.fetch_add(1, Ordering::Relaxed)) { Ok(()) } else { Err("not good".to_owned()) }
            }),
            true,
        );
        for (certificates, name, count) in chains {
            let headers = HeaderMap::new();
            let request = AuthenticationRequest { certificates, headers: &headers, path: "", audiences: &[] };
            let user = authenticator.verify(&request).ok().flatten().map(|authentication| authentication.user);
            assert_eq!(user.as_ref().map(|user| user.name.as_str()), *name);
            assert!(user.is_none_or(|user| user.groups == ["group"]));
            assert_eq!(verified.load(Ordering::Relaxed), *count);
        }
    }

    #[test]
    fn a_chain_is_verified_once_while_it_is_cached() {
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
    fn the_subject_names_the_user_its_groups_and_its_uid() {
        let uid = || DnType::CustomDnType(UID_OID.split('.').map(|part| part.parse().unwrap()).collect());
        let (name, group) = (|| DnType::CommonName, || DnType::OrganizationName);
        for (attributes, expect) in [
            (vec![(name(), "alice")], Ok(Some("alice  []"))),
            (vec![(group(), "g")], Ok(None)),
            (vec![(uid(), "7"), (group(), "g"), (name(), "alice")], Ok(Some("alice 7 [\"g\"]"))),
            (vec![(uid(), ""), (name(), "alice")], Err("UID cannot be an empty string")),
        ] {
            let mut params = CertificateParams::default();
            params.distinguished_name = rcgen::DistinguishedName::new();
            attributes.into_iter().for_each(|(key, value)| params.distinguished_name.push(key, value));
            let leaf = params.self_signed(&KeyPair::generate().unwrap()).unwrap().into();
            let found = user(&leaf, true)
                .map(|user| user.map(|UserInfo { name, uid, groups, .. }| format!("{name} {uid} {groups:?}")));
            assert_eq!(found.as_ref().map(Option::as_deref).map_err(|error| &*error.0), expect);
            // Without the gate, the attribute is not even looked at.
            assert!(user(&leaf, false).is_ok_and(|user| user.is_none_or(|user| user.uid.is_empty())));
        }
    }

    #[test]
    fn a_failed_verification_is_not_cached() {
        let alone = [certificate("a")];
        check(|n| n == 1, &[(&alone, None, 1), (&alone, Some("a"), 2), (&alone, Some("a"), 2)]);
    }

    #[test]
    fn the_cache_is_bounded_and_entries_expire() {
        let authenticator = ClientCertificateAuthenticator::new(Box::new(|_, _| Ok(())), true);
        let now = Instant::now();
        for number in 0..CACHE_SIZE + 10 {
            let leaf = CertificateDer::from(number.to_be_bytes().to_vec());
            authenticator.store(&leaf, &[], &UserInfo::default(), now);
        }
        assert_eq!(authenticator.cache.read().len(), CACHE_SIZE);
        let leaf = CertificateDer::from(vec![1]);
        authenticator.store(&leaf, &[], &UserInfo::default(), now + CACHE_TTL);
        assert_eq!(authenticator.cache.read().len(), 1);
        assert!(authenticator.cached(&leaf, &[], now + CACHE_TTL).is_some());
        assert!(authenticator.cached(&leaf, &[], now + CACHE_TTL * 2).is_none());
    }
}
