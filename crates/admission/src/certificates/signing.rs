//! The plugin `CertificateSigning`: a new certificate in `status` needs the permission to `sign` for the signer.

use pintle_registry::{ApiError, BoxFuture, Resource};
use pintle_value::Value;
use pintle_value::print::quote;

use super::{is_signing_request, may};
use crate::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin};

/// The admission plugin `CertificateSigning`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CertificateSigning;

impl AdmissionPlugin for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    fn handles(&self, operation: AdmissionOperation, resource: &Resource) -> bool {
        operation == AdmissionOperation::Update && is_signing_request(resource)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            let old = attributes.old.unwrap_or(&Value::Null);
            let certificate = ["status", "certificate"];
            if attributes.subresource != "status" || old.str_at(&certificate) == object.str_at(&certificate) {
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
