//! Writes rules in the form of stored objects, the counterpart of `read`.

use pintle_value::{Str, Value};

use super::policy::PolicyRule;

/// A rule as an item of `rules`. Empty lists are left out, except the verbs, which are required.
impl From<PolicyRule> for Value {
    fn from(rule: PolicyRule) -> Self {
        let list = |items: Vec<Str>| Value::Array(items.into_iter().map(Value::String).collect());
        // The lists are in the order of their keys.
        let optional = [
            ("apiGroups", rule.api_groups),
            ("nonResourceURLs", rule.non_resource_urls),
            ("resourceNames", rule.resource_names),
            ("resources", rule.resources),
        ];
        let present = optional.into_iter().filter(|(_, items)| !items.is_empty());
        Value::Object(present.chain([("verbs", rule.verbs)]).map(|(key, items)| (key, list(items))).collect())
    }
}
