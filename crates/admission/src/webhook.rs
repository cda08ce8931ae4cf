//! The calls of webhooks. Plugins decide what they send; the server sends it (upstream: `apiserver/pkg/util/webhook`).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pintle_registry::{BoxFuture, WebhookClientConfig};

/// Calls webhooks.
pub trait WebhookCaller: Send + Sync {
    /// Posts a review. Returns the body of a successful answer.
    fn call<'a>(&'a self, call: WebhookCall<'a>) -> BoxFuture<'a, Result<Bytes, WebhookCallError>>;

    /// Posts a review, as JSON, to the server of a kubeconfig. After temporary failures, it is posted again until the
    /// deadline. Returns the body of a successful answer, or the reason of the failure. Only endpoints of plugins are
    /// known.
    fn review<'a>(
        &'a self,
        endpoint: &'a ReviewEndpoint,
        review: Bytes,
        deadline: Option<Instant>,
    ) -> BoxFuture<'a, Result<Bytes, String>>;
}

/// A server that a plugin asks for reviews.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewEndpoint {
    /// The kubeconfig with its address and the credentials for it.
    pub kubeconfig: PathBuf,
    /// The delay before the first retry.
    pub first_delay: Duration,
}

/// A call of a webhook.
#[derive(Clone, Debug)]
pub struct WebhookCall<'a> {
    /// The webhook.
    pub client: &'a WebhookClientConfig,
    /// The kubeconfig with the credentials for webhooks; `None` for anonymous calls.
    pub kubeconfig: Option<&'a Path>,
    /// The review as JSON.
    pub review: Bytes,
    /// How long the call may take.
    pub timeout: Duration,
}

/// Why a webhook could not be called, or did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookCallError {
    /// There is no client for the webhook, because its certificate authorities or credentials cannot be used.
    NoClient(String),
    /// The call failed, with upstream's message.
    Failed {
        /// The message.
        message: String,
        /// The code of the answer, if there is one.
        code: Option<u16>,
        /// True if the certificate of the webhook lacks subject alternative names.
        lacks_san: bool,
    },
}

/// Calls no webhook: every call fails.
#[derive(Clone, Copy, Debug)]
pub struct NoWebhooks;

impl WebhookCaller for NoWebhooks {
    fn call<'a>(&'a self, _: WebhookCall<'a>) -> BoxFuture<'a, Result<Bytes, WebhookCallError>> {
        Box::pin(async { Err(WebhookCallError::NoClient("webhooks are not called".to_owned())) })
    }

    fn review<'a>(
        &'a self,
        _: &'a ReviewEndpoint,
        _: Bytes,
        _: Option<Instant>,
    ) -> BoxFuture<'a, Result<Bytes, String>> {
        Box::pin(async { Err("webhooks are not called".to_owned()) })
    }
}
