//! Client certificates: the common name is the user, the organizations are the groups (upstream: `x509.CommonNameUserConversion`).

use pintle_value::Str;
use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{Authenticator, Credentials, Identity, Rejected};

/// Checks a certificate chain (leaf first) against the authorities that are trusted, now. Says why it is not good.
pub type Verify = Box<dyn Fn(&CertificateDer<'_>, &[CertificateDer<'_>]) -> Result<(), String> + Send + Sync>;

/// Knows senders by their client certificate.
pub struct ClientCertificate {
    verify: Verify,
}

impl ClientCertificate {
    /// An authenticator that trusts the certificates that `verify` accepts.
    #[must_use]
    pub fn new(verify: Verify) -> Self {
        Self { verify }
    }
}

impl Authenticator for ClientCertificate {
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<Identity>, Rejected> {
        let Some((leaf, rest)) = credentials.certificates.split_first() else { return Ok(None) };
        (self.verify)(leaf, rest).map_err(Rejected)?;
        let (_, certificate) = X509Certificate::from_der(leaf).map_err(|e| Rejected(e.to_string()))?;
        let subject = certificate.subject();
        let name = subject.iter_common_name().next().and_then(|a| a.as_str().ok()).unwrap_or_default();
        if name.is_empty() {
            return Ok(None);
        }
        let groups = subject.iter_organization().filter_map(|a| a.as_str().ok()).map(Str::from).collect();
        Ok(Some(Identity { name: name.into(), groups, ..Identity::default() }))
    }
}
