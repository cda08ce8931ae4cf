//! Finds a chain from a client's certificate to a trusted authority (Go: `Certificate.Verify` with the key usage
//! `ClientAuth`).

use std::ops::Range;
use std::time::Duration;

use pintle_value::time::Time;

use crate::certificate::Certificate;
use crate::keys::PublicKey;

/// Maximum number of signatures that are verified for a certificate, as in Go. The client chooses the certificates, so
/// a signature with a slow key counts several times.
const MAX_SIGNATURE_CHECKS: usize = 100;

/// Why a certificate is not valid, with Go's texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// A certificate cannot be parsed.
    #[error("x509: malformed certificate")]
    Malformed,
    /// A critical extension is unknown.
    #[error("x509: unhandled critical extension")]
    UnhandledCriticalExtension,
    /// The validity has ended.
    #[error("x509: certificate has expired or is not yet valid: current time {now} is after {not_after}")]
    Expired {
        /// The time of the verification.
        now: Time,
        /// The end of the validity.
        not_after: Time,
    },
    /// The validity has not begun.
    #[error("x509: certificate has expired or is not yet valid: current time {now} is before {not_before}")]
    NotYetValid {
        /// The time of the verification.
        now: Time,
        /// The start of the validity.
        not_before: Time,
    },
    /// No chain leads to an authority. The text is the reason why a certificate with the issuer's name is not the
    /// issuer.
    #[error("x509: certificate signed by unknown authority{0}")]
    UnknownAuthority(String),
    /// An intermediate is not an authority.
    #[error("x509: certificate is not authorized to sign other certificates")]
    NotAuthorizedToSign,
    /// There are more intermediates than an authority allows.
    #[error("x509: too many intermediates for path length constraint")]
    TooManyIntermediates,
    /// The usages of a key do not include the authentication of clients.
    #[error("x509: certificate specifies an incompatible key usage")]
    IncompatibleUsage,
    /// An authority does not allow an alternative name.
    #[error("x509: a root or intermediate certificate is not authorized to sign for this name")]
    NotAuthorizedForName,
    /// An authority requires a certificate policy.
    #[error("x509: no valid chains built: candidate chains with invalid policies")]
    InvalidPolicies,
    /// The issuer has not made the signature, or its algorithm is not accepted.
    #[error("x509: verification of the signature failed, or its algorithm is not accepted")]
    Signature,
    /// The issuer may not sign certificates.
    #[error("x509: invalid signature: parent certificate cannot sign this kind of certificate")]
    ParentNotAuthorized,
    /// Too many certificates might be issuers.
    #[error("x509: signature check attempts limit reached while verifying certificate chain")]
    SignatureLimit,
}

/// Trusted authorities.
#[derive(Debug, Default)]
pub struct Authorities(Vec<Certificate>);

impl Authorities {
    /// Trusts authorities.
    #[must_use]
    pub fn new(certificates: Vec<Certificate>) -> Self {
        Self(certificates)
    }

    /// The names of the authorities in DER.
    pub fn subjects(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|authority| &*authority.subject)
    }

    /// Verifies that a certificate is a client's, at a time since 1970. Returns the period around this time in which
    /// the result stays the same, because no certificate becomes valid or expires in it.
    ///
    /// # Errors
    /// No chain leads to an authority.
    pub fn verify_client(
        &self,
        leaf: &[u8],
        intermediates: &[&[u8]],
        now: Duration,
    ) -> Result<Range<Duration>, VerifyError> {
        let leaf = Certificate::parse(leaf).ok_or(VerifyError::Malformed)?;
        let intermediates: Vec<_> = intermediates
            .iter()
            .map(|der| Certificate::parse(der))
            .collect::<Option<_>>()
            .ok_or(VerifyError::Malformed)?;
        leaf.check_itself(now)?;
        if self.0.iter().any(|authority| authority.der == leaf.der) {
            check_chain(&[&leaf])?;
        } else {
            Search { authorities: &self.0, intermediates: &intermediates, now, checks: 0 }.extend(&mut vec![&leaf])?;
        }
        Ok(period(std::iter::once(&leaf).chain(&intermediates).chain(&self.0), now))
    }
}

/// A search for a chain.
struct Search<'c> {
    authorities: &'c [Certificate],
    intermediates: &'c [Certificate],
    now: Duration,
    /// The number of signatures that were verified.
    checks: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Intermediate,
    Root,
}

impl<'c> Search<'c> {
    /// Extends a chain to an authority.
    fn extend(&mut self, chain: &mut Vec<&'c Certificate>) -> Result<(), VerifyError> {
        let (mut hint, mut last) = (None, None);
        let Some(child) = chain.last().copied() else { return Err(VerifyError::Malformed) };
        let authorities = child.possible_issuers(self.authorities).into_iter().map(|parent| (Role::Root, parent));
        let intermediates = child.possible_issuers(self.intermediates).into_iter();
        for (role, parent) in authorities.chain(intermediates.map(|parent| (Role::Intermediate, parent))) {
            self.checks += parent.key.as_ref().map_or(1, PublicKey::cost);
            if self.checks > MAX_SIGNATURE_CHECKS {
                return Err(VerifyError::SignatureLimit);
            }
            if parent.key.is_none() || chain.iter().any(|known| known.is_same_entity(parent)) {
                continue;
            }
            if let Err(error) = child.check_signature_of(parent) {
                hint.get_or_insert(error);
                continue;
            }
            let extended = parent.check_as_parent(role, chain.len() - 1, self.now).and_then(|()| {
                chain.push(parent);
                let found = if role == Role::Root { check_chain(chain) } else { self.extend(chain) };
                chain.pop();
                found
            });
            match extended {
                Ok(()) => return Ok(()),
                Err(VerifyError::SignatureLimit) => return Err(VerifyError::SignatureLimit),
                Err(error) => last = Some(error),
            }
        }
        let hint =
            hint.map(|hint| format!(" (possibly because of \"{hint}\" while trying to verify a candidate authority)"));
        Err(last.unwrap_or(VerifyError::UnknownAuthority(hint.unwrap_or_default())))
    }
}

impl Certificate {
    /// Checks the properties of a certificate that do not depend on its place in a chain.
    fn check_itself(&self, now: Duration) -> Result<(), VerifyError> {
        if self.has_unhandled_critical_extension {
            return Err(VerifyError::UnhandledCriticalExtension);
        }
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let time = |seconds: i64| Time { seconds, nanos: 0 };
        if seconds < self.not_before {
            return Err(VerifyError::NotYetValid { now: time(seconds), not_before: time(self.not_before) });
        }
        if (seconds, now.subsec_nanos()) > (self.not_after, 0) {
            return Err(VerifyError::Expired { now: time(seconds), not_after: time(self.not_after) });
        }
        Ok(())
    }

    /// Checks a certificate that is the issuer of another, with this number of intermediates between it and the leaf.
    fn check_as_parent(&self, role: Role, intermediates: usize, now: Duration) -> Result<(), VerifyError> {
        self.check_itself(now)?;
        let is_authority = self.basic_constraints.is_some_and(|constraints| constraints.is_authority);
        if role == Role::Intermediate && !is_authority {
            return Err(VerifyError::NotAuthorizedToSign);
        }
        let max = self.basic_constraints.and_then(|constraints| constraints.max_intermediates);
        match max.is_some_and(|max| intermediates > max as usize) {
            true => Err(VerifyError::TooManyIntermediates),
            false => Ok(()),
        }
    }

    /// The certificates with the name of the issuer: first the certificates with the issuer's key identifier, last the
    /// certificates with another key identifier.
    fn possible_issuers<'c>(&self, certificates: &'c [Certificate]) -> Vec<&'c Certificate> {
        let mut issuers: Vec<_> = certificates.iter().filter(|parent| parent.subject == self.issuer).collect();
        issuers.sort_by_key(|parent| match (parent.key_id.is_empty(), self.issuer_key_id.is_empty()) {
            _ if parent.key_id == self.issuer_key_id => 0,
            (true, false) | (false, true) => 1,
            _ => 2,
        });
        issuers
    }

    /// Checks that another certificate has signed this one (Go: `CheckSignatureFrom`).
    fn check_signature_of(&self, parent: &Certificate) -> Result<(), VerifyError> {
        let may_sign = match parent.basic_constraints {
            Some(constraints) => constraints.is_authority,
            None => !parent.is_v3,
        };
        if !may_sign || !parent.may_sign_certificates {
            return Err(VerifyError::ParentNotAuthorized);
        }
        let is_valid = parent.key.as_ref().zip(self.algorithm);
        let is_valid = is_valid.is_some_and(|(key, algorithm)| key.verify(algorithm, &self.signed, &self.signature));
        if is_valid { Ok(()) } else { Err(VerifyError::Signature) }
    }

    /// Whether two certificates have the same key and name. A chain with both would be a cycle.
    fn is_same_entity(&self, other: &Certificate) -> bool {
        self.subject == other.subject
            && self.key_info == other.key_info
            && self.alternative_names == other.alternative_names
    }
}

/// Checks the properties that depend on a whole chain, which begins with the leaf.
fn check_chain(chain: &[&Certificate]) -> Result<(), VerifyError> {
    let Some((_, below)) = chain.split_last() else { return Err(VerifyError::Malformed) };
    // Policies are not compared. An authority that requires a policy is not trusted for clients.
    if below.iter().any(|certificate| certificate.requires_policy) {
        return Err(VerifyError::InvalidPolicies);
    }
    if chain.iter().any(|certificate| !certificate.may_authenticate_clients) {
        return Err(VerifyError::IncompatibleUsage);
    }
    for (position, authority) in chain.iter().enumerate() {
        let Some(constraints) = &authority.constraints else { continue };
        if !chain[..position].iter().all(|certificate| constraints.allow(&certificate.names)) {
            return Err(VerifyError::NotAuthorizedForName);
        }
    }
    Ok(())
}

/// The period around `now` in which no certificate becomes valid or expires.
fn period<'c>(certificates: impl Iterator<Item = &'c Certificate>, now: Duration) -> Range<Duration> {
    let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    let mut period = Duration::ZERO..Duration::MAX;
    for certificate in certificates {
        // A certificate is valid up to the first moment of its last second.
        for change in [seconds(certificate.not_before), seconds(certificate.not_after) + Duration::from_nanos(1)] {
            if change <= now {
                period.start = period.start.max(change);
            } else {
                period.end = period.end.min(change);
            }
        }
    }
    period
}
