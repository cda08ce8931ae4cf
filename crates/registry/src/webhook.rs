//! The client configuration of a webhook (upstream: `admissionregistration/v1.WebhookClientConfig` and the same type in
//! `apiextensions.k8s.io`).

use pintle_value::{Str, Value};

/// The address of a webhook, and the authorities that verify its certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WebhookClientConfig {
    /// The address.
    pub target: WebhookTarget,
    /// The certificate authorities (`caBundle`), in PEM. Empty means the authorities that the system trusts.
    pub authorities: Vec<u8>,
}

/// The address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WebhookTarget {
    /// The webhook has a URL.
    Url(Str),
    /// The webhook is behind a service of the cluster.
    Service {
        /// The service's namespace.
        namespace: Str,
        /// The service's name.
        name: Str,
        /// The service's port.
        port: u16,
        /// The path of the URL; may be empty.
        path: Str,
    },
}

impl WebhookClientConfig {
    /// Parses a `clientConfig`. Returns `None` if it has neither a service nor a URL.
    #[must_use]
    pub fn parse(config: &Value) -> Option<Self> {
        let target = match (config.get("service"), config.str_at(&["url"])) {
            (Some(service), _) => WebhookTarget::Service {
                namespace: service.str_at(&["namespace"]).into(),
                name: service.str_at(&["name"]).into(),
                port: service.int_at(&["port"]).and_then(|port| u16::try_from(port).ok()).unwrap_or(443),
                path: service.str_at(&["path"]).into(),
            },
            (None, "") => return None,
            (None, url) => WebhookTarget::Url(url.into()),
        };
        let authorities = pintle_schema::base64::decode(config.str_at(&["caBundle"]).as_bytes()).unwrap_or_default();
        // A blank bundle has no authorities.
        let authorities = if authorities.trim_ascii().is_empty() { Vec::new() } else { authorities };
        Some(Self { target, authorities })
    }

    /// The URL of requests to the webhook.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.target {
            WebhookTarget::Url(url) => url.to_string(),
            WebhookTarget::Service { namespace, name, port, path } => {
                format!("https://{name}.{namespace}.svc:{port}{path}")
            }
        }
    }

    /// The host in the URL, without the port.
    #[must_use]
    pub fn hostname(&self) -> String {
        pintle_value::url::parse_url(&self.url()).map(|url| url.hostname().to_owned()).unwrap_or_default()
    }
}
