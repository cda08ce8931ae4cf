//! The plugin `CertificateSubjectRestriction`: nobody requests a client certificate of the group `system:masters`.

use pintle_auth::user::SYSTEM_PRIVILEGED_GROUP;
use pintle_kinds::requested_subject;
use pintle_registry::ApiError;
use pintle_value::Value;

use super::{GROUP, PLURAL};
use crate::{AdmissionAttributes, Phase, SyncPlugin};

/// The signer of client certificates.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// The admission plugin `CertificateSubjectRestriction`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CertificateSubjectRestriction;

impl SyncPlugin for CertificateSubjectRestriction {
    const NAME: &'static str = "CertificateSubjectRestriction";
    const PHASES: &'static [Phase] = &[Phase::Validating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.creates(GROUP, PLURAL)
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, object: &Value) -> Result<(), ApiError> {
        if object.str_at(&["spec", "signerName"]) != CLIENT_SIGNER {
            return Ok(());
        }
        let refused = |why: String| Err(attributes.forbidden(object, why));
        match requested_subject(object) {
            Err(why) => refused(format!("failed to parse CSR: {why}")),
            Ok(subject) if subject.organizations.iter().any(|group| group == SYSTEM_PRIVILEGED_GROUP) => {
                let group = SYSTEM_PRIVILEGED_GROUP;
                refused(format!("use of {CLIENT_SIGNER} signer with {group} group is not allowed"))
            }
            Ok(_) => Ok(()),
        }
    }
}
