//! Client certificates. The common name is the user, and the organizations are the groups (upstream:
//! `authentication/request/x509`, `CommonNameUserConversion`). Verification costs more than the rest of a small
//! request. So a success is cached as long as another verification would succeed, too.

use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
/// Maximum number of cached chains. Only chains of the trusted authorities are cached.
const CACHE_SIZE: usize = 4096;

/// Verifies a certificate with the intermediates that were sent with it against the trusted authorities, at a time
/// since 1970. Returns the period around this time in which the result stays the same, as long as the authorities do
/// not change. The error is the reason.
pub type VerifyCertificate =
    Box<dyn Fn(&CertificateDer<'_>, &[CertificateDer<'_>], Duration) -> Result<Range<Duration>, String> + Send + Sync>;

/// Returns a number that changes whenever the trusted authorities do.
pub type AuthoritiesGeneration = Box<dyn Fn() -> u64 + Send + Sync>;

/// The current time since 1970.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Authenticates users by their client certificate.
pub struct ClientCertificateAuthenticator {
    verify: VerifyCertificate,
    generation: AuthoritiesGeneration,
    /// Whether certificates have the uids of their users.
    reads_uid: bool,
    /// Verified chains by the bytes of the leaf.
    cache: RwLock<HashMap<Box<[u8]>, CachedChain>>,
}

/// A verified chain.
struct CachedChain {
    intermediates: Vec<CertificateDer<'static>>,
    user: UserInfo,
    /// The authorities that verified it.
    generation: u64,
    /// The period in which it is valid.
    period: Range<Duration>,
}

impl ClientCertificateAuthenticator {
    /// An authenticator that trusts the certificates that `verify` accepts. `reads_uid` is the gate
    /// `AllowParsingUserUIDFromCertAuth`.
    #[must_use]
    pub fn new(verify: VerifyCertificate, generation: AuthoritiesGeneration, reads_uid: bool) -> Self {
        Self { verify, generation, reads_uid, cache: RwLock::default() }
    }

    fn cached(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        generation: u64,
        now: Duration,
    ) -> Option<UserInfo> {
        let cache = self.cache.read();
        let chain = cache.get(leaf.as_ref())?;
        let is_valid = chain.period.contains(&now) && chain.generation == generation;
        (is_valid && chain.intermediates == intermediates).then(|| chain.user.clone())
    }

    fn store(&self, leaf: &CertificateDer<'_>, chain: CachedChain, now: Duration) {
        let mut cache = self.cache.write();
        if cache.len() >= CACHE_SIZE {
            let generation = chain.generation;
            cache.retain(|_, chain| chain.generation == generation && chain.period.contains(&now));
        }
        if cache.len() >= CACHE_SIZE {
            cache.clear();
        }
        cache.insert(leaf.as_ref().into(), chain);
    }

    fn verify(&self, request: &AuthenticationRequest<'_>, now: Duration) -> AuthenticationResult {
        let Some((leaf, intermediates)) = request.certificates.split_first() else { return Ok(None) };
        // The generation is read before the verification. If the authorities change meanwhile, the next request
        // verifies again.
        let generation = (self.generation)();
        if let Some(user) = self.cached(leaf, intermediates, generation, now) {
            return Ok(Some(user.into()));
        }
        let period = (self.verify)(leaf, intermediates, now).map_err(AuthenticationError)?;
        let Some(user) = user(leaf, self.reads_uid)? else { return Ok(None) };
        let intermediates = intermediates.iter().map(|c| c.clone().into_owned()).collect();
        self.store(leaf, CachedChain { intermediates, user: user.clone(), generation, period }, now);
        Ok(Some(user.into()))
    }
}

/// The user of a verified certificate; `None` if the certificate has no common name (upstream:
/// `CommonNameUserConversion`).
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

/// The common name of a certificate, or an empty text. If there are several names, the last one counts, as in Go.
pub(crate) fn common_name(leaf: &CertificateDer<'_>) -> Result<Str, AuthenticationError> {
    let (_, certificate) = parse(leaf)?;
    let name = certificate.subject().iter_common_name().last();
    name.map_or(Ok(Str::default()), |name| text(name, "common name"))
}

/// The text of an attribute. An unreadable attribute is an error, because another attribute must not give the name
/// instead.
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
        AuthFuture::ready(self.verify(request, now()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use http::HeaderMap;
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(name: &str) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, "group");
        params.distinguished_name.push(DnType::CommonName, name);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().into()
    }

    /// Authorities that accept every certificate for ten seconds, and no certificate for the next ten seconds, and so on.
    #[derive(Default)]
    struct Fake {
        verified: AtomicUsize,
        generation: AtomicU64,
    }

    impl Fake {
        fn verify(&self, now: Duration) -> Result<Range<Duration>, String> {
            self.verified.fetch_add(1, Ordering::Relaxed);
            let period = now.as_secs() / 10;
            let start = Duration::from_secs(period * 10);
            if period.is_multiple_of(2) {
                Ok(start..start + Duration::from_secs(10))
            } else {
                Err("expired".to_owned())
            }
        }

        fn authenticator(self: &Arc<Self>) -> ClientCertificateAuthenticator {
            let (fake, of_generation) = (self.clone(), self.clone());
            ClientCertificateAuthenticator::new(
                Box::new(move |_, _, now| fake.verify(now)),
                Box::new(move || of_generation.generation.load(Ordering::Relaxed)),
                true,
            )
        }
    }

    /// A row: a time in milliseconds, the generation of the authorities, a chain, its user, and the number of
    /// verifications so far.
    type Row<'r> = (u64, u64, &'r [CertificateDer<'static>], Option<&'r str>, usize);

    /// Presents each chain in turn to one authenticator.
    fn check(chains: &[Row<'_>]) {
        let fake = Arc::new(Fake::default());
        let authenticator = fake.authenticator();
        for (now, generation, certificates, name, count) in chains {
            fake.generation.store(*generation, Ordering::Relaxed);
            let headers = HeaderMap::new();
            let request = AuthenticationRequest { certificates, headers: &headers, path: "", audiences: &[] };
            let user = authenticator.verify(&request, Duration::from_millis(*now)).ok().flatten();
            let user = user.map(|authentication| authentication.user);
            assert_eq!(user.as_ref().map(|user| user.name.as_str()), *name);
            assert!(user.is_none_or(|user| user.groups == ["group"]));
            assert_eq!(fake.verified.load(Ordering::Relaxed), *count);
        }
    }

    #[test]
    fn a_chain_is_verified_once_while_nothing_changes() {
        let (a, b) = (certificate("a"), certificate("b"));
        let (alone, other, with_b) = ([a.clone()], [b.clone()], [a, b]);
        check(&[
            (0, 0, &[], None, 0),
            (0, 0, &alone, Some("a"), 1),
            (0, 0, &alone, Some("a"), 1),
            (0, 0, &other, Some("b"), 2),
            (0, 0, &with_b, Some("a"), 3),
            (0, 0, &with_b, Some("a"), 3),
        ]);
    }

    #[test]
    fn a_chain_is_valid_until_the_moment_of_its_end() {
        let alone = [certificate("a")];
        check(&[
            (5, 0, &alone, Some("a"), 1),
            (9_999, 0, &alone, Some("a"), 1),
            (10_000, 0, &alone, None, 2),
            // A failure is not cached.
            (10_000, 0, &alone, None, 3),
            // The clock was set back.
            (9_999, 0, &alone, Some("a"), 3),
            (20_000, 0, &alone, Some("a"), 4),
            (0, 0, &alone, Some("a"), 5),
        ]);
    }

    #[test]
    fn a_chain_is_verified_again_by_other_authorities() {
        let alone = [certificate("a")];
        check(&[
            (0, 0, &alone, Some("a"), 1),
            (0, 1, &alone, Some("a"), 2),
            (0, 1, &alone, Some("a"), 2),
            (0, 2, &alone, Some("a"), 3),
        ]);
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
    fn the_cache_is_bounded() {
        let authenticator = Arc::new(Fake::default()).authenticator();
        let store = |number: usize, generation: u64| {
            let user = UserInfo::default();
            let period = Duration::ZERO..Duration::MAX;
            let chain = CachedChain { intermediates: Vec::new(), user, generation, period };
            authenticator.store(&number.to_be_bytes().to_vec().into(), chain, Duration::ZERO);
            authenticator.cache.read().len()
        };
        for number in 0..CACHE_SIZE {
            assert_eq!(store(number, u64::from(number > 0)), number + 1);
        }
        // The chain of earlier authorities gives way first, then all chains do.
        assert_eq!(store(CACHE_SIZE, 1), CACHE_SIZE);
        assert_eq!(store(CACHE_SIZE + 1, 1), 1);
    }
}
