//! What calls to all webhooks have in common: the form of URLs and the errors of responses (upstream: client-go's `rest`,
//! whose messages clients see), clients from kubeconfig files, and calls of webhooks that decide about requests, with their
//! reviews.

mod call;
mod kubeconfig;
mod review;
mod review_client;

pub(crate) use call::{clean_url, read_body, retry_after, transport_error_message};
pub(crate) use kubeconfig::{KubeconfigClient, KubeconfigError};
pub(crate) use review::{ReviewKind, ReviewVersion};
pub(crate) use review_client::ReviewClient;
