//! The strategy for EvictionRequest. The tags of its types have most of its rules.

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::Value;

use super::validate_conditions;
use crate::generic::{SPEC, SPEC_AND_METADATA, StatusStrategy, reset_status, set_generation};

/// The strategy for EvictionRequest.
pub(crate) struct EvictionRequestStrategy;

static STATUS: StatusStrategy =
    StatusStrategy::new(|context, object, _| validate_conditions(context, object)).preserving(SPEC_AND_METADATA);

impl Strategy for EvictionRequestStrategy {
    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, Value::object());
        set_generation(object, old, SPEC);
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context_of, object};

    #[test]
    fn a_change_of_the_intent_raises_the_generation() {
        let context = context_of(37, &[("EvictionRequestAPI", true)]);
        let mut request = object(r#"{"spec":{"intent":"Eviction"},"status":{"observedGeneration":1}}"#);
        EvictionRequestStrategy.prepare_for_create(&context, &mut request);
        assert_eq!(request, object(r#"{"spec":{"intent":"Eviction"},"status":{},"metadata":{"generation":1}}"#));
        let old = request.clone();
        request.set_at(&["spec", "intent"], "Withdrawn");
        EvictionRequestStrategy.prepare_for_update(&context, &mut request, &old);
        assert_eq!(request.generation(), 2);
    }
}
