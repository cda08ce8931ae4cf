//! The plugin `DenyServiceExternalIPs` (upstream: `plugin/pkg/admission/network/denyserviceexternalips`): services get no
//! new external addresses.

use pintle_registry::ApiError;
use pintle_value::Value;

use crate::{AdmissionAttributes, Phase, SyncPlugin};

const ADDRESSES: [&str; 2] = ["spec", "externalIPs"];

/// The admission plugin `DenyServiceExternalIPs`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DenyServiceExternalIPs;

impl SyncPlugin for DenyServiceExternalIPs {
    const NAME: &'static str = "DenyServiceExternalIPs";
    const PHASES: &'static [Phase] = &[Phase::Validating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.creates_or_updates("", "services")
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, service: &Value) -> Result<(), ApiError> {
        let known = attributes.old.map_or(&[][..], |old| old.items_at(&ADDRESSES));
        match service.items_at(&ADDRESSES).iter().all(|address| known.contains(address)) {
            true => Ok(()),
            false => Err(attributes.forbidden(service, "Use of external IPs is denied by admission control")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    #[test]
    fn only_known_addresses_stay() {
        let service =
            |addresses: &str| json(&format!(r#"{{"metadata":{{"name":"s"}},"spec":{{"externalIPs":[{addresses}]}}}}"#));
        let refused = Err("services \"s\" is forbidden: Use of external IPs is denied by admission control");
        let (one, two) = (service(r#""1.1.1.1""#), service(r#""1.1.1.1","2.2.2.2""#));
        let create = Scenario::create("", "services");
        create.check_validate(&DenyServiceExternalIPs, &service(""), Ok(()));
        create.check_validate(&DenyServiceExternalIPs, &one, refused);
        let update = Scenario { old: Some(one.clone()), ..Scenario::update("", "services") };
        update.check_validate(&DenyServiceExternalIPs, &service(""), Ok(()));
        update.check_validate(&DenyServiceExternalIPs, &one, Ok(()));
        update.check_validate(&DenyServiceExternalIPs, &two, refused);
        let update = Scenario { old: Some(two), ..update };
        update.check_validate(&DenyServiceExternalIPs, &one, Ok(()));
        let status = Scenario { subresource: "status", old: Some(service("")), ..update };
        status.check_validate(&DenyServiceExternalIPs, &one, Ok(()));
    }
}
