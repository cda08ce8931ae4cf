//! Which entries of a configuration decide about which resources (upstream: `getTransformerOverridesAndKMSPluginProbes`).

use std::collections::BTreeMap;

use pintle_registry::GroupResource;
use pintle_value::Str;
use pintle_value::print::quote;

use super::{EncryptionConfiguration, KmsVersion, ProviderConfiguration};

/// All resources.
pub(crate) const ANY: GroupResource = GroupResource { group: Str::const_new("*"), resource: Str::const_new("*") };

const KMS_V1_REFUSED: &str = "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 \
                              instead.  Set --feature-gates=KMSv1=true to use the deprecated KMSv1 feature.";

/// All resources of a resource's group.
pub(crate) fn any_in_group(resource: &GroupResource) -> GroupResource {
    GroupResource::new(resource.group.clone(), "*")
}

/// Parses `resource` or `resource.group` (`ParseGroupResource`).
pub(super) fn parse_resource(text: &str) -> GroupResource {
    let (resource, group) = text.split_once('.').unwrap_or((text, ""));
    GroupResource::new(group, resource)
}

/// The positions of the entries of each resource that the configuration names, in order.
///
/// # Errors
/// Returns upstream's message about an entry that has no effect, or about KMS v1 without its feature gate.
pub(crate) fn rules(
    configuration: &EncryptionConfiguration,
    kms_v1: bool,
) -> Result<BTreeMap<GroupResource, Vec<usize>>, String> {
    let mut rules: BTreeMap<GroupResource, Vec<usize>> = BTreeMap::new();
    for (position, entry) in configuration.entries.iter().enumerate() {
        let is_v1 = |provider: &ProviderConfiguration| matches!(provider, ProviderConfiguration::Kms(kms) if kms.api_version == KmsVersion::V1);
        if !kms_v1 && entry.providers.iter().any(is_v1) {
            return Err(KMS_V1_REFUSED.to_owned());
        }
        for resource in &entry.resources {
            for wildcard in [any_in_group(resource), ANY] {
                if rules.contains_key(&wildcard) {
                    let (resource, wildcard) = (shown(resource), shown(&wildcard));
                    return Err(format!("resource {resource} is masked by earlier rule {wildcard}"));
                }
            }
            rules.entry(resource.clone()).or_default().push(position);
        }
    }
    Ok(rules)
}

/// A resource as it is written in a configuration, quoted.
fn shown(resource: &GroupResource) -> String {
    let core = resource.group.is_empty() && resource.resource == "*";
    quote(&if core { "*.".to_owned() } else { resource.to_string() })
}
