//! The plugin `AlwaysDeny` (upstream: `plugin/pkg/admission/deny`). It is deprecated and useful in tests only.

use pintle_registry::{ApiError, BoxFuture};
use pintle_value::Value;

use crate::{AdmissionAttributes, AdmissionPlugin};

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
    fn nothing_is_admitted() {
        let map = json(r#"{"metadata":{"name":"m"}}"#);
        let create = Scenario::create("", "configmaps");
        let refused = "configmaps \"m\" is forbidden: admission control is denying all modifications";
        create.check_mutate(&AlwaysDeny, map.clone(), Err(refused));
        create.check_validate(&AlwaysDeny, &map, Err(refused));
        // A write of an object without a name.
        let refused = "configmaps \"Unknown\" is forbidden: admission control is denying all modifications";
        create.check_validate(&AlwaysDeny, &json("{}"), Err(refused));
    }
}
