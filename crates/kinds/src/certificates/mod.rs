//! Strategies of the group `certificates.k8s.io`.

mod mail_address;
mod pkcs10;
pub(crate) mod pod_request;
mod pod_request_keys;
mod pod_request_status;
pub(crate) mod signing_request;
mod stored;
pub(crate) mod trust_bundle;

pub use pkcs10::RequestedSubject;
pub use signing_request::requested_subject;

/// The names of the virtual resource `signers` for a signer: its own name, and the name for all signers of its domain.
/// A user who acts for the signer needs the permission for one of them (upstream:
/// `certauthorization.IsAuthorizedForSignerName`).
#[must_use]
pub fn signer_permissions(signer: &str) -> [String; 2] {
    let domain = signer.split('/').next().unwrap_or_default();
    [signer.to_owned(), format!("{domain}/*")]
}
