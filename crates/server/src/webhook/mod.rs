//! The common parts of calls to all webhooks. They are the form of URLs and the errors of responses (upstream:
//! client-go's `rest`, whose messages clients see). They also include clients from kubeconfig files, and calls of
//! webhooks that decide about requests or receive audit events.

mod admission;
mod audit;
mod call;
mod kubeconfig;
mod kubeconfig_users;
mod kubeconfig_webhook;
mod post;
mod review_client;

pub(crate) use admission::AdmissionWebhooks;
pub use audit::AuditWebhook;
pub(crate) use call::{check_response, clean_url, read_body, retry_after, transport_error_message};
pub(crate) use kubeconfig::{KubeconfigClient, KubeconfigError};
pub(crate) use kubeconfig_users::KubeconfigUsers;
pub(crate) use post::{Post, PostError, TimeoutSource, WebhookClient};
pub(crate) use review_client::ReviewClient;
