//! The plugin `ClusterTrustBundleAttest`: a write of a signer's trust bundle needs the permission to `attest` for the signer.

use pintle_gates::{Feature, Gates};
use pintle_registry::{ApiError, BoxFuture};
use pintle_value::Value;
use pintle_value::metadata::changes_only_collector_fields;
use pintle_value::print::quote;

use super::{GROUP, may};
use crate::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin, Phase};

/// The admission plugin `ClusterTrustBundleAttest`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClusterTrustBundleAttest {
    enabled: bool,
}

impl ClusterTrustBundleAttest {
    /// The plugin, which does nothing without the feature `ClusterTrustBundle`.
    #[must_use]
    pub(crate) fn new(gates: &Gates) -> Self {
        Self { enabled: gates.is_enabled(Feature::CLUSTER_TRUST_BUNDLE) }
    }
}

impl AdmissionPlugin for ClusterTrustBundleAttest {
    fn name(&self) -> &'static str {
        "ClusterTrustBundleAttest"
    }

    fn phases(&self) -> &[Phase] {
        &[Phase::Validating]
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.enabled
            && matches!(attributes.operation, AdmissionOperation::Create | AdmissionOperation::Update)
            && attributes.resource.is(GROUP, "clustertrustbundles")
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            // The signer of a stored bundle is immutable. A bundle without a signer belongs to nobody.
            let signer = object.str_at(&["spec", "signerName"]);
            let is_unchanged = || attributes.old.is_some_and(|old| changes_only_collector_fields(object, old));
            if signer.is_empty() || is_unchanged() || may(attributes, "attest", signer).await {
                return Ok(());
            }
            let why = format!("user not permitted to attest for signerName {}", quote(signer));
            Err(attributes.forbidden(object, why))
        })
    }
}
