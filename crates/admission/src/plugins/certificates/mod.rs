//! The plugins for certificate signing requests and cluster trust bundles (upstream:
//! `plugin/pkg/admission/certificates`). A user who approves a request or signs a certificate needs a permission for
//! the signer, beside the permission for the subresource.

mod approval;
mod signing;
mod subject_restriction;
mod trust_bundle_attest;

pub(crate) use approval::CertificateApproval;
use pintle_auth::AuthorizationAttributes;
use pintle_registry::Resource;
pub(crate) use signing::CertificateSigning;
pub(crate) use subject_restriction::CertificateSubjectRestriction;
pub(crate) use trust_bundle_attest::ClusterTrustBundleAttest;

use crate::AdmissionAttributes;

const GROUP: &str = "certificates.k8s.io";
const PLURAL: &str = "certificatesigningrequests";

fn is_signing_request(resource: &Resource) -> bool {
    resource.is(GROUP, PLURAL)
}

/// Whether the user may do something for a signer, or for all signers of its domain
/// (`certauthorization.IsAuthorizedForSignerName`).
async fn may(attributes: &AdmissionAttributes<'_>, verb: &str, signer: &str) -> bool {
    for name in pintle_kinds::signer_permissions(signer) {
        let wanted = AuthorizationAttributes {
            verb,
            group: GROUP,
            version: "*",
            resource: "signers",
            name: &name,
            ..AuthorizationAttributes::default()
        };
        if attributes.authorizer.authorize(attributes.user, &wanted).await.is_allowed() {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests;
