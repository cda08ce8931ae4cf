//! Client certificates of users, signed by the server's own authority. This module writes them as DER, because rcgen
//! allows each attribute of a subject only once. A user's groups are several organizations.

use pintle_auth::pem;
use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256, SignatureAlgorithm,
    SigningKey,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};
use yasna::models::{GeneralizedTime, ObjectIdentifier, UTCTime};
use yasna::{DERWriter, Tag, construct_der};

use crate::certificates::{CertificateAndKey, CertificateError, new_key, read_key, sec1_pem, serial_number};

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];
const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];
const CLIENT_AUTH: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 2];
/// The identifiers of signature algorithms.
const ALGORITHMS: [(&SignatureAlgorithm, &[u64]); 4] = [
    (&PKCS_ECDSA_P256_SHA256, &[1, 2, 840, 10045, 4, 3, 2]),
    (&PKCS_ECDSA_P384_SHA384, &[1, 2, 840, 10045, 4, 3, 3]),
    (&PKCS_RSA_SHA256, &[1, 2, 840, 113_549, 1, 1, 11]),
    (&PKCS_ED25519, &[1, 3, 101, 112]),
];
/// The first year that certificates write with four digits (RFC 5280).
const FIRST_LONG_YEAR: i32 = 2050;

/// A user and its groups, as a client certificate names them.
#[derive(Clone, Copy, Debug)]
pub struct CertificateUser<'a> {
    /// The common name.
    pub name: &'a str,
    /// The organizations.
    pub groups: &'a [&'a str],
}

/// Creates a key for a user, and the client certificate for this key.
///
/// # Errors
/// The authority cannot be read, or the certificate cannot be signed.
pub fn sign_client_certificate(
    authority: &CertificateAndKey,
    user: CertificateUser<'_>,
    not_before: OffsetDateTime,
    not_after: OffsetDateTime,
) -> Result<CertificateAndKey, CertificateError> {
    let key = new_key()?;
    let certificate = client_certificate(authority, &key, user, not_before, not_after)?;
    Ok(CertificateAndKey { certificate, key: sec1_pem(&key)? })
}

/// Creates the client certificate of a user for a key.
pub(crate) fn client_certificate(
    authority: &CertificateAndKey,
    key: &KeyPair,
    user: CertificateUser<'_>,
    not_before: OffsetDateTime,
    not_after: OffsetDateTime,
) -> Result<String, rcgen::Error> {
    let unreadable = || rcgen::Error::CouldNotParseCertificate;
    let issuer = CertificateDer::from_pem_slice(authority.certificate.as_bytes()).map_err(|_| unreadable())?;
    let (_, issuer) = X509Certificate::from_der(&issuer).map_err(|_| unreadable())?;
    let issuer_key = read_key(&authority.key)?;
    let algorithm = ALGORITHMS.iter().find(|(algorithm, _)| *algorithm == issuer_key.algorithm());
    let (algorithm, identifier) = algorithm.ok_or(rcgen::Error::UnsupportedSignatureAlgorithm)?;
    let write_algorithm = |writer: DERWriter<'_>| {
        writer.write_sequence(|writer| {
            write_oid(writer.next(), identifier);
            // RFC 4055: only algorithms of RSA have a parameter.
            if *algorithm == &PKCS_RSA_SHA256 {
                writer.next().write_null();
            }
        });
    };
    let serial = serial_number()?;
    let body = construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_tagged(Tag::context(0), |writer| writer.write_i8(2));
            writer.next().write_bigint_bytes(&serial, true);
            write_algorithm(writer.next());
            writer.next().write_der(issuer.subject().as_raw());
            writer.next().write_sequence(|writer| {
                write_time(writer.next(), not_before);
                write_time(writer.next(), not_after);
            });
            write_subject(writer.next(), user);
            writer.next().write_der(&rcgen::PublicKeyData::subject_public_key_info(key));
            writer.next().write_tagged(Tag::context(3), write_extensions);
        });
    });
    let signature = issuer_key.sign(&body)?;
    let certificate = construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_der(&body);
            write_algorithm(writer.next());
            writer.next().write_bitvec_bytes(&signature, signature.len() * 8);
        });
    });
    Ok(pem::encode("CERTIFICATE", &certificate))
}

fn write_oid(writer: DERWriter<'_>, components: &[u64]) {
    writer.write_oid(&ObjectIdentifier::from_slice(components));
}

fn write_time(writer: DERWriter<'_>, time: OffsetDateTime) {
    let time = time.replace_nanosecond(0).unwrap_or(time);
    if time.year() < FIRST_LONG_YEAR {
        writer.write_utctime(&UTCTime::from_datetime(time));
    } else {
        writer.write_generalized_time(&GeneralizedTime::from_datetime(time));
    }
}

fn write_subject(writer: DERWriter<'_>, user: CertificateUser<'_>) {
    let organizations = user.groups.iter().map(|group| (ORGANIZATION, *group));
    writer.write_sequence(|writer| {
        for (attribute, value) in organizations.chain([(COMMON_NAME, user.name)]) {
            writer.next().write_set(|writer| {
                writer.next().write_sequence(|writer| {
                    write_oid(writer.next(), attribute);
                    writer.next().write_utf8_string(value);
                });
            });
        }
    });
}

fn write_extensions(writer: DERWriter<'_>) {
    writer.write_sequence(|writer| {
        writer.next().write_sequence(|writer| {
            write_oid(writer.next(), KEY_USAGE);
            writer.next().write_bool(true);
            // Digital signature is the first bit.
            writer.next().write_bytes(&construct_der(|writer| writer.write_bitvec_bytes(&[0x80], 1)));
        });
        writer.next().write_sequence(|writer| {
            write_oid(writer.next(), EXTENDED_KEY_USAGE);
            let usages = construct_der(|writer| writer.write_sequence(|writer| write_oid(writer.next(), CLIENT_AUTH)));
            writer.next().write_bytes(&usages);
        });
    });
}

#[cfg(test)]
mod tests {
    use time::Duration;

    use super::*;
    use crate::certificates::Certificates;

    #[test]
    fn a_certificate_names_the_user_with_all_groups_and_expires() {
        let now = OffsetDateTime::from_unix_timestamp(1_800_000_000).expect("a time");
        let authority = Certificates::generate(&[], now).expect("certificates").authority;
        let user = CertificateUser { name: "j\u{fc}rgen", groups: &["dev", "ops", "system:x"] };
        for (years, expect) in [(1, "2028"), (40, "2067")] {
            let signed = sign_client_certificate(&authority, user, now, now + Duration::days(366 * years));
            let signed = signed.expect("a certificate");
            assert!(signed.key.contains("EC PRIVATE KEY"));
            let der = CertificateDer::from_pem_slice(signed.certificate.as_bytes()).expect("PEM");
            let (rest, certificate) = X509Certificate::from_der(&der).expect("a certificate");
            assert!(rest.is_empty());
            let subject = certificate.subject();
            let texts = |attributes: Vec<&x509_parser::x509::AttributeTypeAndValue<'_>>| -> Vec<String> {
                attributes.iter().map(|attribute| attribute.as_str().expect("a text").to_owned()).collect()
            };
            assert_eq!(texts(subject.iter_common_name().collect()), ["j\u{fc}rgen"]);
            assert_eq!(texts(subject.iter_organization().collect()), ["dev", "ops", "system:x"]);
            assert!(certificate.validity().not_after.to_datetime().to_string().starts_with(expect));
            assert_eq!(certificate.validity().not_before.to_datetime(), now);
            let usage = certificate.extended_key_usage().expect("extensions").expect("a usage").value;
            assert!(usage.client_auth && !usage.server_auth);
            let issuer = CertificateDer::from_pem_slice(authority.certificate.as_bytes()).expect("PEM");
            let mut roots = rustls::RootCertStore::empty();
            roots.add(issuer).expect("an authority");
            let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
            let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            let verifier = verifier.build().expect("a verifier");
            let at = |time: OffsetDateTime| {
                let since = std::time::Duration::from_secs(time.unix_timestamp().unsigned_abs());
                verifier.verify_client_cert(&der, &[], rustls::pki_types::UnixTime::since_unix_epoch(since))
            };
            assert!(at(now + Duration::hours(1)).is_ok());
            assert!(at(now + Duration::days(366 * years + 1)).is_err());
        }
    }
}
