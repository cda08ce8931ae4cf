//! The plugins `AlwaysAdmit` and `AlwaysDeny` (upstream: `plugin/pkg/admission/admit`, `plugin/pkg/admission/deny`).
//! They are deprecated and useful in tests only.

use pintle_registry::{ApiError, BoxFuture};
use pintle_value::Value;

use crate::{AdmissionAttributes, AdmissionPlugin};

/// The admission plugin `AlwaysAdmit`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysAdmit;

impl AdmissionPlugin for AlwaysAdmit {
    fn name(&self) -> &'static str {
        "AlwaysAdmit"
    }

    fn handles(&self, _attributes: &AdmissionAttributes<'_>) -> bool {
        false
    }
}

/// The admission plugin `AlwaysDeny`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysDeny;

impl AlwaysDeny {
    fn refuse(attributes: &AdmissionAttributes<'_>, object: &Value) -> ApiError {
        attributes.forbidden(object, "admission control is denying all modifications")
    }
}

impl AdmissionPlugin for AlwaysDeny {
    fn name(&self) -> &'static str {
        "AlwaysDeny"
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Err(Self::refuse(attributes, object)) })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Err(Self::refuse(attributes, object)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    #[test]
    fn one_admits_everything_and_the_other_nothing() {
        let map = json(r#"{"metadata":{"name":"m"}}"#);
        let create = Scenario::create("", "configmaps");
        create.check_mutate(&AlwaysAdmit, map.clone(), Ok(&map));
        create.check_validate(&AlwaysAdmit, &map, Ok(()));
        let refused = "configmaps \"m\" is forbidden: admission control is denying all modifications";
        create.check_mutate(&AlwaysDeny, map.clone(), Err(refused));
        create.check_validate(&AlwaysDeny, &map, Err(refused));
        // A write of an object without a name.
        let refused = "configmaps \"Unknown\" is forbidden: admission control is denying all modifications";
        create.check_validate(&AlwaysDeny, &json("{}"), Err(refused));
    }
}
