//! The fields of a certificate that decide whether the server can use it.

use std::net::IpAddr;

use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The fields of a certificate.
#[derive(Clone, Debug)]
pub(crate) struct CertificateDetails {
    /// The serial number, in hexadecimal digits.
    pub(crate) serial: String,
    pub(crate) not_before: OffsetDateTime,
    pub(crate) not_after: OffsetDateTime,
    /// The names and addresses for which the certificate is valid.
    pub(crate) names: Vec<String>,
    /// The subject and the issuer as text.
    pub(crate) subject: String,
    pub(crate) issuer: String,
    /// True if the certificate names itself as its issuer.
    pub(crate) is_self_issued: bool,
    /// The hash of the public key.
    pub(crate) key_hash: String,
    public_key: Vec<u8>,
}

impl CertificateDetails {
    /// Reads the first certificate of a text in PEM. `None` if there is no certificate, or if it is malformed.
    pub(crate) fn of(pem: &str) -> Option<Self> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
        Self::of_der(&der)
    }

    /// Reads all certificates of a text in PEM.
    pub(crate) fn all_of(pem: &str) -> Vec<Self> {
        CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(|der| Self::of_der(&der.ok()?)).collect()
    }

    fn of_der(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let names = certificate.subject_alternative_name().ok().flatten();
        let names = names.iter().flat_map(|extension| &extension.value.general_names).filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => {
                let v4 = <[u8; 4]>::try_from(*bytes).ok().map(|bytes| IpAddr::from(bytes).to_string());
                v4.or_else(|| <[u8; 16]>::try_from(*bytes).ok().map(|bytes| IpAddr::from(bytes).to_string()))
            }
            _ => None,
        });
        let key = certificate.public_key();
        Some(Self {
            serial: hexadecimal(certificate.raw_serial()),
            not_before: certificate.validity().not_before.to_datetime(),
            not_after: certificate.validity().not_after.to_datetime(),
            names: names.collect(),
            subject: certificate.subject().to_string(),
            issuer: certificate.issuer().to_string(),
            is_self_issued: certificate.subject().as_raw() == certificate.issuer().as_raw(),
            key_hash: hexadecimal(&Sha256::digest(key.raw)),
            public_key: key.subject_public_key.data.to_vec(),
        })
    }

    /// True if this is the certificate of the key.
    pub(crate) fn is_of(&self, key: &KeyPair) -> bool {
        self.public_key == key.public_key_raw()
    }

    /// True if the certificate is valid at a time.
    pub(crate) fn is_valid_at(&self, time: OffsetDateTime) -> bool {
        (self.not_before..=self.not_after).contains(&time)
    }
}

/// True if the first certificate of a text in PEM was signed by an authority.
pub(crate) fn is_signed_by(pem: &str, authority: &str) -> bool {
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).ok();
    let (Some(leaf), Some(authority)) = (der(pem), der(authority)) else { return false };
    let (Ok((_, leaf)), Ok((_, authority))) = (X509Certificate::from_der(&leaf), X509Certificate::from_der(&authority))
    else {
        return false;
    };
    leaf.issuer().as_raw() == authority.subject().as_raw()
        && leaf.verify_signature(Some(authority.public_key())).is_ok()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
