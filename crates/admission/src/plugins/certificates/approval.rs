//! The plugin `CertificateApproval`: a change of `approval` needs the permission to `approve` for the signer.

use pintle_registry::{ApiError, BoxFuture};
use pintle_value::Value;
use pintle_value::print::quote;

use super::{is_signing_request, may};
use crate::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin, Phase};

/// The admission plugin `CertificateApproval`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CertificateApproval;

impl AdmissionPlugin for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    fn phases(&self) -> &[Phase] {
        &[Phase::Validating]
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.operation == AdmissionOperation::Update
            && is_signing_request(attributes.resource)
            && attributes.subresource == "approval"
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            // The signer of the stored request counts, since the write might name another.
            let signer = attributes.old.map(|old| old.str_at(&["spec", "signerName"])).unwrap_or_default();
            if may(attributes, "approve", signer).await {
                return Ok(());
            }
            let why = format!("user not permitted to approve requests with signerName {}", quote(signer));
            Err(attributes.forbidden(object, why))
        })
    }
}
