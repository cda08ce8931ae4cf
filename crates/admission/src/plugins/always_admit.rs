//! The plugin `AlwaysAdmit` (upstream: `plugin/pkg/admission/admit`). It is deprecated and useful in tests only.

use crate::{AdmissionAttributes, Phase, SyncPlugin};

/// The admission plugin `AlwaysAdmit`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AlwaysAdmit;

impl SyncPlugin for AlwaysAdmit {
    const NAME: &'static str = "AlwaysAdmit";
    const PHASES: &'static [Phase] = &[Phase::Mutating, Phase::Validating];

    fn handles(&self, _attributes: &AdmissionAttributes<'_>) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    #[test]
    fn everything_is_admitted() {
        let map = json(r#"{"metadata":{"name":"m"}}"#);
        let create = Scenario::create("", "configmaps");
        create.check_mutate(&AlwaysAdmit, map.clone(), Ok(&map));
        create.check_validate(&AlwaysAdmit, &map, Ok(()));
    }
}
