//! The plugin `CertificateSigning`: a change of the certificate or of the conditions in `status` needs the permission to
//! `sign` for the signer.

use pintle_registry::{ApiError, BoxFuture};
use pintle_value::print::quote;
use pintle_value::{Value, same};

use super::{is_signing_request, may};
use crate::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin, Phase};

/// The admission plugin `CertificateSigning`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CertificateSigning;

impl AdmissionPlugin for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    fn phases(&self) -> &[Phase] {
        &[Phase::Validating]
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.operation == AdmissionOperation::Update
            && is_signing_request(attributes.resource)
            && attributes.subresource == "status"
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            let old = attributes.old.unwrap_or(&Value::Null);
            let is_same = |field| same(old.at(&["status", field]), object.at(&["status", field]));
            if is_same("certificate") && is_same("conditions") {
                return Ok(());
            }
            let signer = old.str_at(&["spec", "signerName"]);
            if may(attributes, "sign", signer).await {
                return Ok(());
            }
            let why = format!("user not permitted to sign requests with signerName {}", quote(signer));
            Err(attributes.forbidden(object, why))
        })
    }
}
