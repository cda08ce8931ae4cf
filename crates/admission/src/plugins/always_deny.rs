//! The plugin `AlwaysDeny` (upstream: `plugin/pkg/admission/deny`). It is deprecated and useful in tests only.

use pintle_registry::ApiError;
use pintle_value::Value;

use crate::{AdmissionAttributes, Phase, SyncPlugin};

/// The admission plugin `AlwaysDeny`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AlwaysDeny;

impl AlwaysDeny {
    fn refuse(attributes: &AdmissionAttributes<'_>, object: &Value) -> ApiError {
        attributes.forbidden(object, "admission control is denying all modifications")
    }
}

impl SyncPlugin for AlwaysDeny {
    const NAME: &'static str = "AlwaysDeny";
    const PHASES: &'static [Phase] = &[Phase::Mutating, Phase::Validating];

    fn handles(&self, _: &AdmissionAttributes<'_>) -> bool {
        true
    }

    fn mutate(&self, attributes: &AdmissionAttributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        Err(Self::refuse(attributes, object))
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, object: &Value) -> Result<(), ApiError> {
        Err(Self::refuse(attributes, object))
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
