//! How the API servers of APIServices with a service are reached.

use pintle_schema::base64;
use pintle_value::{Str, Value};

/// The port of a service whose APIService names none.
pub(super) const DEFAULT_PORT: u16 = 443;

/// How the API server of an APIService is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteApiService {
    /// The namespace of the service.
    pub namespace: Str,
    /// The name of the service.
    pub service: Str,
    /// The port of the service.
    pub port: u16,
    /// The authorities of the API server's certificate, in PEM. Without any, the system's authorities count.
    pub authorities: Vec<u8>,
    /// True if the certificate is not verified.
    pub skips_verification: bool,
}

impl RemoteApiService {
    /// `None` for an APIService whose version this server serves itself.
    #[must_use]
    pub fn of(service: &Value) -> Option<Self> {
        let spec = service.get("spec")?;
        let reference = spec.get("service")?;
        Some(Self {
            namespace: reference.str_at(&["namespace"]).into(),
            service: reference.str_at(&["name"]).into(),
            port: reference.int_at(&["port"]).and_then(|port| u16::try_from(port).ok()).unwrap_or(DEFAULT_PORT),
            authorities: base64::decode(spec.str_at(&["caBundle"]).as_bytes()).unwrap_or_default(),
            skips_verification: spec.bool_at(&["insecureSkipTLSVerify"]),
        })
    }

    /// The name for which the API server's certificate has to be valid.
    #[must_use]
    pub fn host(&self) -> String {
        format!("{}.{}.svc", self.service, self.namespace)
    }
}
