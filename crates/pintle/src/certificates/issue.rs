//! Issues the server's own certificates for existing keys.

use pintle_auth::user::SYSTEM_PRIVILEGED_GROUP;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SerialNumber,
};
use time::{Duration, OffsetDateTime};

use super::CertificateAndKey;
use super::details::CertificateDetails;
use super::folder::Part;
use super::keys::read_key;
use crate::client_certificate::{CertificateUser, client_certificate};
use crate::serving::LOOPBACK_NAME;

/// How much the clock of a client may be behind.
pub const CLOCK_SKEW: Duration = Duration::hours(1);
/// The common names of the authorities that the server makes.
const AUTHORITY_NAME: &str = "pintle-ca";
const FRONT_PROXY_AUTHORITY_NAME: &str = "pintle-front-proxy-ca";
/// The common name with which the server calls aggregated servers, as in kubeadm.
pub(crate) const FRONT_PROXY_NAME: &str = "front-proxy-client";
/// The lifetime of the authority's certificate, in days.
const AUTHORITY_DAYS: i64 = 3650;
/// The lifetime of the certificates that the authority signs, in days.
const LEAF_DAYS: i64 = 3650;

/// Issues the certificate of an authority for its key. All certificates for a key have the same subject, so the
/// authority's signatures stay valid.
pub(crate) fn authority(part: Part, key: &KeyPair, now: OffsetDateTime) -> Result<String, rcgen::Error> {
    let mut params = certificate_params(common_name(part), now, AUTHORITY_DAYS)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(params.self_signed(key)?.pem())
}

fn common_name(authority: Part) -> &'static str {
    match authority.authority() {
        Part::FrontProxyAuthority => FRONT_PROXY_AUTHORITY_NAME,
        _ => AUTHORITY_NAME,
    }
}

/// The subject of an authority that the server makes.
pub(crate) fn authority_name(part: Part) -> String {
    format!("CN={}", common_name(part))
}

/// True if an authority's certificate was issued by [`authority`], and not by the operator.
pub(crate) fn is_own_authority(part: Part, certificate: &CertificateDetails) -> bool {
    certificate.is_self_issued && certificate.subject == authority_name(part)
}

/// The host names and addresses for which the serving certificate is valid.
pub(crate) fn hosts(names: &[String]) -> Vec<String> {
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
    for name in names.iter().filter(|name| !name.is_empty()) {
        if !hosts.contains(name) {
            hosts.push(name.clone());
        }
    }
    hosts
}

/// Issues a serving certificate for a key.
pub(crate) fn serving(
    authority: &CertificateAndKey,
    key: &KeyPair,
    names: &[String],
    now: OffsetDateTime,
) -> Result<String, rcgen::Error> {
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, read_key(&authority.key)?)?;
    let mut params = certificate_params("kube-apiserver", now, LEAF_DAYS)?;
    params.subject_alt_names = CertificateParams::new(hosts(names))?.subject_alt_names;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params.signed_by(key, &issuer)?.pem())
}

/// Issues the administrator's client certificate for a key.
pub(crate) fn admin(authority: &CertificateAndKey, key: &KeyPair, now: OffsetDateTime) -> Result<String, rcgen::Error> {
    let user = CertificateUser { name: "kubernetes-admin", groups: &[SYSTEM_PRIVILEGED_GROUP] };
    client_certificate(authority, key, user, now - CLOCK_SKEW, now + Duration::days(LEAF_DAYS))
}

/// Issues the client certificate with which the server calls aggregated servers, for a key.
pub(crate) fn front_proxy(
    authority: &CertificateAndKey,
    key: &KeyPair,
    now: OffsetDateTime,
) -> Result<String, rcgen::Error> {
    let user = CertificateUser { name: FRONT_PROXY_NAME, groups: &[] };
    client_certificate(authority, key, user, now - CLOCK_SKEW, now + Duration::days(LEAF_DAYS))
}

fn certificate_params(name: &str, now: OffsetDateTime, days: i64) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = now - CLOCK_SKEW;
    params.not_after = now + Duration::days(days);
    params.serial_number = Some(SerialNumber::from(serial_number()?.to_vec()));
    Ok(params)
}

/// A random serial number. A certificate that is issued again for the same key has another serial number.
pub(crate) fn serial_number() -> Result<[u8; 20], rcgen::Error> {
    let mut serial = [0; 20];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut serial).map_err(|_| rcgen::Error::RingUnspecified)?;
    // The number is positive and always has 20 bytes.
    serial[0] = serial[0] & 0x7f | 0x40;
    Ok(serial)
}
