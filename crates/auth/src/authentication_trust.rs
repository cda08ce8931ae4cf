//! The data with which aggregated servers authenticate requests as this server does, in the ConfigMap
//! `extension-apiserver-authentication` (upstream: `pkg/controlplane/controller/clusterauthenticationtrust`). Several
//! servers may write it, so existing entries stay.

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;

use crate::pem;

/// How long certificates stay in the bundle after their expiry, in seconds.
const EXPIRY_SLACK: i64 = 300;

/// The authorities of clients, and the headers with which front proxies name users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationTrust {
    /// The authorities of clients' certificates, in PEM.
    pub client_ca: String,
    /// The authorities of front proxies, in PEM. Without them, the other fields of front proxies do not count.
    pub request_header_ca: String,
    /// The headers with user names.
    pub username_headers: Vec<String>,
    /// The headers with uids.
    pub uid_headers: Vec<String>,
    /// The headers with groups.
    pub group_headers: Vec<String>,
    /// The prefixes of headers with extra attributes.
    pub extra_header_prefixes: Vec<String>,
    /// The common names of front proxies.
    pub allowed_names: Vec<String>,
}

impl AuthenticationTrust {
    /// The data of the ConfigMap.
    #[must_use]
    pub fn data(&self) -> Vec<(&'static str, String)> {
        let mut data = Vec::new();
        if !self.client_ca.is_empty() {
            data.push(("client-ca-file", self.client_ca.clone()));
        }
        if self.request_header_ca.is_empty() {
            return data;
        }
        let list = |list: &[String]| serde_json::Value::from(list).to_string();
        data.push(("requestheader-username-headers", list(&self.username_headers)));
        if !self.uid_headers.is_empty() {
            data.push(("requestheader-uid-headers", list(&self.uid_headers)));
        }
        data.push(("requestheader-group-headers", list(&self.group_headers)));
        data.push(("requestheader-extra-headers-prefix", list(&self.extra_header_prefixes)));
        data.push(("requestheader-client-ca-file", self.request_header_ca.clone()));
        data.push(("requestheader-allowed-names", list(&self.allowed_names)));
        data
    }

    /// Reads the data of the ConfigMap; `data` returns the text of a key, or an empty text.
    ///
    /// # Errors
    /// A list cannot be read.
    pub fn from_data<'a>(data: impl Fn(&str) -> &'a str) -> Result<Self, String> {
        let list = |key: &str| -> Result<Vec<String>, String> {
            match data(key) {
                "" => Ok(Vec::new()),
                text => serde_json::from_str(text).map_err(|error| format!("{key}: {error}")),
            }
        };
        Ok(Self {
            client_ca: data("client-ca-file").to_owned(),
            request_header_ca: data("requestheader-client-ca-file").to_owned(),
            username_headers: list("requestheader-username-headers")?,
            uid_headers: list("requestheader-uid-headers")?,
            group_headers: list("requestheader-group-headers")?,
            extra_header_prefixes: list("requestheader-extra-headers-prefix")?,
            allowed_names: list("requestheader-allowed-names")?,
        })
    }

    /// This trust combined with another one, each entry once. Certificates that have expired are left out.
    ///
    /// # Errors
    /// A certificate cannot be read.
    pub fn combined(&self, other: &Self) -> Result<Self, String> {
        let lists = |this: &[String], other: &[String]| -> Vec<String> {
            let mut all: Vec<String> = Vec::with_capacity(this.len() + other.len());
            for text in this.iter().chain(other) {
                if !all.contains(text) {
                    all.push(text.clone());
                }
            }
            all
        };
        Ok(Self {
            client_ca: combined_certificates(&self.client_ca, &other.client_ca)?,
            request_header_ca: combined_certificates(&self.request_header_ca, &other.request_header_ca)?,
            username_headers: lists(&self.username_headers, &other.username_headers),
            uid_headers: lists(&self.uid_headers, &other.uid_headers),
            group_headers: lists(&self.group_headers, &other.group_headers),
            extra_header_prefixes: lists(&self.extra_header_prefixes, &other.extra_header_prefixes),
            allowed_names: lists(&self.allowed_names, &other.allowed_names),
        })
    }
}

/// The certificates of two bundles in PEM, each once. Expired certificates are left out.
fn combined_certificates(this: &str, other: &str) -> Result<String, String> {
    let oldest_expiry = ASN1Time::now().timestamp() - EXPIRY_SLACK;
    let mut all: Vec<CertificateDer<'_>> = Vec::new();
    for bundle in [this, other] {
        for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            let (_, parsed) = X509Certificate::from_der(&certificate).map_err(|error| error.to_string())?;
            if parsed.validity().not_after.timestamp() > oldest_expiry && !all.contains(&certificate) {
                all.push(certificate);
            }
        }
    }
    Ok(all.iter().map(|certificate| pem::encode("CERTIFICATE", certificate)).collect())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn certificate(year: i32) -> String {
        let mut params = CertificateParams::default();
        params.not_after = date_time_ymd(year, 1, 1);
        pem::encode("CERTIFICATE", params.self_signed(&KeyPair::generate().unwrap()).unwrap().der())
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn servers_combine_what_they_trust() {
        let (old, a, b) = (certificate(2020), certificate(2090), certificate(2091));
        let first = AuthenticationTrust {
            client_ca: format!("# a comment\n{old}{a}"),
            request_header_ca: a.clone(),
            username_headers: texts(&["X-Remote-User", "X-User"]),
            allowed_names: texts(&["front"]),
            ..AuthenticationTrust::default()
        };
        let second = AuthenticationTrust {
            client_ca: format!("{b}{a}"),
            request_header_ca: a.clone(),
            username_headers: texts(&["X-User", "X-Other"]),
            group_headers: texts(&["X-Remote-Group"]),
            ..AuthenticationTrust::default()
        };
        let combined = first.combined(&second).unwrap();
        assert_eq!(combined.client_ca, format!("{a}{b}"));
        let data: Vec<_> = combined.data();
        let expect = [
            ("client-ca-file", format!("{a}{b}")),
            ("requestheader-username-headers", r#"["X-Remote-User","X-User","X-Other"]"#.to_owned()),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#.to_owned()),
            ("requestheader-extra-headers-prefix", "[]".to_owned()),
            ("requestheader-client-ca-file", a),
            ("requestheader-allowed-names", r#"["front"]"#.to_owned()),
        ];
        assert_eq!(data, expect);
        let get = |key: &str| data.iter().find(|(known, _)| *known == key).map_or("", |(_, text)| text.as_str());
        assert_eq!(AuthenticationTrust::from_data(get), Ok(combined.clone()));
        assert_eq!(combined.combined(&second), Ok(combined));
    }

    #[test]
    fn data_that_cannot_be_read_is_an_error() {
        assert!(AuthenticationTrust::from_data(|_| "[1]").is_err());
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
        let broken = AuthenticationTrust { client_ca: broken, ..AuthenticationTrust::default() };
        assert!(broken.combined(&AuthenticationTrust::default()).is_err());
        assert_eq!(AuthenticationTrust::default().data(), []);
    }
}
