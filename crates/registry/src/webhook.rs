//! A server that ours asks, as objects of the API name it (upstream: `admissionregistration/v1.WebhookClientConfig` and
//! its twin in `apiextensions.k8s.io`).

use pintle_value::{Str, Value};

/// How a webhook is reached, and whom to believe that it is it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WebhookClientConfig {
    /// Where it is.
    pub target: WebhookTarget,
    /// The authorities that have signed its certificate, in PEM; empty for those that the system trusts.
    pub authorities: Vec<u8>,
}

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WebhookTarget {
    /// At a URL.
    Url(Str),
    /// Behind a service of the cluster.
    Service {
        /// The service's namespace.
        namespace: Str,
        /// Its name.
        name: Str,
        /// The port of it.
        port: u16,
        /// The path there; may be empty.
        path: Str,
    },
}

impl WebhookClientConfig {
    /// The webhook of a `clientConfig`; `None` if it names none.
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
        // What is blank names nobody.
        let authorities = if authorities.trim_ascii().is_empty() { Vec::new() } else { authorities };
        Some(Self { target, authorities })
    }

    /// The URL that requests are for.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.target {
            WebhookTarget::Url(url) => url.to_string(),
            WebhookTarget::Service { namespace, name, port, path } => {
                format!("https://{name}.{namespace}.svc:{port}{path}")
            }
        }
    }
}
