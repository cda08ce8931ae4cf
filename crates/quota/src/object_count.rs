//! Evaluators that only count the objects of a kind (upstream: `generic.NewObjectCountEvaluator`).

use pintle_kinds::ResourceList;
use pintle_registry::GroupResource;
use pintle_value::{Str, Value};

use crate::resource_list::count;
use crate::{Evaluator, QuotaContext, QuotaFeatures, QuotaWrite};

/// The prefix of limits on numbers of objects.
pub(crate) const COUNT_PREFIX: &str = "count/";

/// Counts the objects of a kind.
#[derive(Clone, Debug)]
pub struct ObjectCount {
    group: Str,
    plural: Str,
    /// True if the limit may be named without a prefix, too.
    has_alias: bool,
}

impl ObjectCount {
    /// The evaluator of a kind of the core group. The limit of the kind has a short name, for compatibility.
    pub(crate) const fn with_alias(plural: &'static str) -> Self {
        Self { group: Str::const_new(""), plural: Str::const_new(plural), has_alias: true }
    }

    /// The evaluator of any kind.
    pub(crate) fn of(group: &str, plural: &str) -> Self {
        Self { group: group.into(), plural: plural.into(), has_alias: false }
    }
}

/// The name of the limit on the number of objects of a kind.
pub(crate) fn count_name(group: &str, plural: &str) -> String {
    let separator = if group.is_empty() { "" } else { "." };
    format!("{COUNT_PREFIX}{plural}{separator}{group}")
}

/// True if this is the name of the limit on the number of objects of a kind.
pub(crate) fn is_count_name(name: &str, group: &str, plural: &str) -> bool {
    match name.strip_prefix(COUNT_PREFIX).and_then(|kind| kind.strip_prefix(plural)) {
        Some(rest) if group.is_empty() => rest.is_empty(),
        Some(rest) => rest.strip_prefix('.') == Some(group),
        None => false,
    }
}

impl Evaluator for ObjectCount {
    fn resource(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.plural.clone())
    }

    fn handles_updates(&self) -> bool {
        false
    }

    fn handles(&self, write: QuotaWrite<'_>) -> bool {
        write.subresource.is_empty() && write.old.is_none()
    }

    fn counts(&self, name: &str, _: QuotaFeatures) -> bool {
        self.has_alias && self.plural == name || is_count_name(name, &self.group, &self.plural)
    }

    fn usage(&self, _: &Value, _: &dyn QuotaContext) -> ResourceList {
        let alias = self.has_alias.then(|| self.plural.to_string());
        let names = std::iter::once(count_name(&self.group, &self.plural)).chain(alias);
        names.map(|name| (name, count(1))).collect()
    }

    fn constant_usage(&self) -> Option<ResourceList> {
        struct Nowhere;
        impl QuotaContext for Nowhere {
            fn features(&self) -> QuotaFeatures {
                QuotaFeatures::default()
            }

            fn now(&self) -> pintle_value::time::Time {
                pintle_value::time::Time::ZERO
            }

            fn extended_resource_of(&self, _: &str) -> Option<String> {
                None
            }
        }
        Some(self.usage(&Value::Null, &Nowhere))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{check_counted, check_usage};

    #[test]
    fn objects_are_counted() {
        check_counted("", "configmaps", &["count/configmaps", "configmaps"], &["count/configmaps.apps", "secrets"]);
        check_counted("apps", "deployments", &["count/deployments.apps"], &["deployments", "count/deployments"]);
        check_counted(
            "",
            "endpoints",
            &["count/endpoints"],
            &["endpoints", "count/endpointslices", "count/endpoints."],
        );
        check_usage("", "configmaps", "{}", "configmaps=1,count/configmaps=1");
        check_usage("apps", "deployments", "{}", "count/deployments.apps=1");
    }
}
