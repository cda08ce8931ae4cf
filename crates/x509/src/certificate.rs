//! A certificate, with the data that the verification of its chain needs. Certificates that Go cannot parse are not
//! parsed here either.

use std::collections::HashSet;

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{ExtendedKeyUsage, GeneralName, KeyUsage, ParsedExtension, X509Extension};
use x509_parser::prelude::FromDer;

use crate::keys::PublicKey;
use crate::names::{Constraints, Names};
use crate::signature::SignatureAlgorithm;

/// The version of certificates that have extensions.
const V3: u32 = 2;

/// A parsed certificate.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The whole certificate in DER.
    pub(crate) der: Box<[u8]>,
    pub(crate) subject: Box<[u8]>,
    pub(crate) issuer: Box<[u8]>,
    /// The public key in DER.
    pub(crate) key_info: Box<[u8]>,
    /// The key; `None` if its algorithm is unknown.
    pub(crate) key: Option<PublicKey>,
    /// The start of the validity, in seconds since 1970.
    pub(crate) not_before: i64,
    /// The end of the validity, in seconds since 1970.
    pub(crate) not_after: i64,
    pub(crate) is_v3: bool,
    pub(crate) basic_constraints: Option<BasicConstraints>,
    /// False if the certificate has key usages without the signing of certificates.
    pub(crate) may_sign_certificates: bool,
    pub(crate) may_authenticate_clients: bool,
    pub(crate) has_unhandled_critical_extension: bool,
    pub(crate) requires_policy: bool,
    /// The identifiers of the certificate's key and of the issuer's key; empty if missing.
    pub(crate) key_id: Box<[u8]>,
    pub(crate) issuer_key_id: Box<[u8]>,
    /// The alternative names in DER.
    pub(crate) alternative_names: Option<Box<[u8]>>,
    pub(crate) names: Names,
    pub(crate) constraints: Option<Constraints>,
    /// The signed part.
    pub(crate) signed: Box<[u8]>,
    /// The algorithm of the signature; `None` if it is not accepted.
    pub(crate) algorithm: Option<SignatureAlgorithm>,
    pub(crate) signature: Box<[u8]>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BasicConstraints {
    pub(crate) is_authority: bool,
    pub(crate) max_intermediates: Option<u32>,
}

impl Certificate {
    /// Parses a certificate in DER; `None` if it is malformed.
    #[must_use]
    pub fn parse(der: &[u8]) -> Option<Self> {
        const SIGN: u8 = 0x80;
        let (rest, parsed) = X509Certificate::from_der(der).ok()?;
        let is_negative = parsed.raw_serial().first().is_some_and(|first| first & SIGN != 0);
        if !rest.is_empty() || is_negative || parsed.signature_algorithm != parsed.tbs_certificate.signature {
            return None;
        }
        // Go shifts bit strings that do not consist of whole bytes, so they are not valid signatures or keys.
        if parsed.signature_value.unused_bits != 0 || parsed.public_key().subject_public_key.unused_bits != 0 {
            return None;
        }
        let mut certificate = Self {
            der: der.into(),
            subject: parsed.subject().as_raw().into(),
            issuer: parsed.issuer().as_raw().into(),
            key_info: parsed.public_key().raw.into(),
            key: PublicKey::of(parsed.public_key()).filter(|key| *key != PublicKey::Other),
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
            is_v3: parsed.version().0 == V3,
            basic_constraints: None,
            may_sign_certificates: true,
            may_authenticate_clients: true,
            has_unhandled_critical_extension: false,
            requires_policy: false,
            key_id: Box::default(),
            issuer_key_id: Box::default(),
            alternative_names: None,
            names: Names::default(),
            constraints: None,
            signed: parsed.tbs_certificate.as_ref().into(),
            algorithm: SignatureAlgorithm::of(&parsed.signature_algorithm),
            signature: parsed.signature_value.data.as_ref().into(),
        };
        let mut known = HashSet::new();
        for extension in parsed.extensions() {
            let is_handled = certificate.read(extension)?;
            certificate.has_unhandled_critical_extension |= extension.critical && !is_handled;
            if !known.insert(extension.oid.clone()) {
                return None;
            }
        }
        Some(certificate)
    }

    /// The public key; `None` if its algorithm is unknown.
    #[must_use]
    pub fn public_key(&self) -> Option<&PublicKey> {
        self.key.as_ref()
    }

    /// Reads an extension. Returns whether Go processes it; `None` if it is malformed.
    fn read(&mut self, extension: &X509Extension<'_>) -> Option<bool> {
        Some(match extension.parsed_extension() {
            ParsedExtension::ParseError { .. } => return None,
            ParsedExtension::KeyUsage(KeyUsage { flags }) => {
                const CERTIFICATE_SIGN: u16 = 1 << 5;
                self.may_sign_certificates = *flags == 0 || flags & CERTIFICATE_SIGN != 0;
                true
            }
            ParsedExtension::BasicConstraints(constraints) => {
                self.basic_constraints = Some(BasicConstraints {
                    is_authority: constraints.ca,
                    max_intermediates: constraints.path_len_constraint,
                });
                true
            }
            ParsedExtension::SubjectAlternativeName(names) => {
                self.alternative_names = Some(extension.value.into());
                self.names = Names::of(&names.general_names)?;
                names.general_names.iter().any(is_heeded)
            }
            ParsedExtension::NameConstraints(constraints) => {
                let (constraints, is_complete) = Constraints::of(constraints)?;
                self.constraints = Some(constraints);
                is_complete
            }
            ParsedExtension::ExtendedKeyUsage(usages) => {
                self.may_authenticate_clients = is_for_clients(usages);
                true
            }
            ParsedExtension::PolicyConstraints(constraints) => {
                self.requires_policy = constraints.require_explicit_policy.is_some();
                true
            }
            ParsedExtension::CRLDistributionPoints(_)
            | ParsedExtension::CertificatePolicies(_)
            | ParsedExtension::PolicyMappings(_)
            | ParsedExtension::InhibitAnyPolicy(_) => true,
            // Go refuses to parse these extensions if they are critical.
            ParsedExtension::AuthorityKeyIdentifier(_)
            | ParsedExtension::SubjectKeyIdentifier(_)
            | ParsedExtension::AuthorityInfoAccess(_)
                if extension.critical =>
            {
                return None;
            }
            ParsedExtension::SubjectKeyIdentifier(identifier) => {
                self.key_id = identifier.0.into();
                true
            }
            ParsedExtension::AuthorityKeyIdentifier(identifiers) => {
                self.issuer_key_id = identifiers.key_identifier.as_ref().map_or_else(Box::default, |id| id.0.into());
                true
            }
            _ => false,
        })
    }
}

/// Whether Go reads names of this type.
fn is_heeded(name: &GeneralName<'_>) -> bool {
    use GeneralName::{DNSName, IPAddress, RFC822Name, URI};
    matches!(name, DNSName(_) | RFC822Name(_) | URI(_) | IPAddress(_))
}

/// Whether the usages of a key include the authentication of clients. An empty list restricts nothing.
fn is_for_clients(usages: &ExtendedKeyUsage<'_>) -> bool {
    let ExtendedKeyUsage {
        any,
        server_auth,
        client_auth,
        code_signing,
        email_protection,
        time_stamping,
        ocsp_signing,
        other,
    } = usages;
    let has_others = [server_auth, code_signing, email_protection, time_stamping, ocsp_signing].into_iter().any(|b| *b);
    *any || *client_auth || !has_others && other.is_empty()
}
