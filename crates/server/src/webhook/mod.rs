//! What calls to all webhooks have in common: the form of URLs and the errors of responses (upstream: client-go's `rest`,
//! whose messages clients see), and clients from kubeconfig files.

mod call;
mod kubeconfig;

pub(crate) use call::{clean_url, read_body, retry_after, transport_error_message};
pub(crate) use kubeconfig::KubeconfigClient;
