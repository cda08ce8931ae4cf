//! Strategies of the group `certificates.k8s.io`.

mod pkcs10;
mod signing_request;
mod stored;
mod trust_bundle;

pub use pkcs10::RequestedSubject;
pub use signing_request::requested_subject;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "certificatesigningrequests" => Some(Arc::new(signing_request::CertificateSigningRequestStrategy)),
        "clustertrustbundles" => Some(Arc::new(trust_bundle::ClusterTrustBundleStrategy)),
        _ => None,
    }
}
