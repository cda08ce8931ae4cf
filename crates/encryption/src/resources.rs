//! The transformers of all resources that a configuration names.

use std::collections::HashMap;
use std::sync::Arc;

use pintle_registry::GroupResource;

use crate::configuration::{ANY, any_in_group, rules};
use crate::transformer::{self, Identity, PrefixTransformers, PrefixedTransformer};
use crate::{EncryptionConfiguration, KmsConfiguration, ProviderConfiguration, Transformer};

const NO_PROVIDER: &str = "no matching prefix found";

/// Makes the transformer of a KMS plugin and names the prefix of its stored values.
pub type KmsFactory<'f> = dyn FnMut(&KmsConfiguration) -> Result<(Vec<u8>, Arc<dyn Transformer>), String> + 'f;

/// The transformers of resources (upstream: `StaticTransformers`).
#[derive(Clone, Debug)]
pub struct ResourceTransformers {
    transformers: HashMap<GroupResource, Arc<dyn Transformer>>,
    /// The transformer of resources that no rule matches.
    identity: Arc<dyn Transformer>,
}

/// No resource is encrypted.
impl Default for ResourceTransformers {
    fn default() -> Self {
        Self { transformers: HashMap::new(), identity: Arc::new(Identity) }
    }
}

impl ResourceTransformers {
    /// Makes the transformers of a configuration. `kms` is called once for each KMS plugin in the configuration.
    ///
    /// # Errors
    /// The transformer of a KMS plugin cannot be made, or an entry has no effect.
    pub fn new(configuration: &EncryptionConfiguration, kms: &mut KmsFactory<'_>) -> Result<Self, String> {
        let mut entries: Vec<Vec<PrefixedTransformer>> = Vec::new();
        for entry in &configuration.entries {
            let transformers = entry.providers.iter().map(|provider| prefixed(provider, kms));
            entries.push(transformers.collect::<Result<_, _>>()?);
        }
        let transformer = |positions: Vec<usize>| -> Arc<dyn Transformer> {
            let transformers = positions.into_iter().flat_map(|position| entries[position].iter().cloned());
            Arc::new(PrefixTransformers::new(transformers.collect(), NO_PROVIDER))
        };
        let rules = rules(configuration, true)?.into_iter();
        let transformers = rules.map(|(resource, positions)| (resource, transformer(positions))).collect();
        Ok(Self { transformers, ..Self::default() })
    }

    /// The transformer of a resource: of the resource itself, of all resources of its group, or of all resources. Values of
    /// other resources are not encrypted.
    #[must_use]
    pub fn of(&self, resource: &GroupResource) -> &Arc<dyn Transformer> {
        let of = |resource: &GroupResource| self.transformers.get(resource);
        let named = of(resource).or_else(|| of(&any_in_group(resource))).or_else(|| of(&ANY));
        named.unwrap_or(&self.identity)
    }
}

fn prefixed(provider: &ProviderConfiguration, kms: &mut KmsFactory<'_>) -> Result<PrefixedTransformer, String> {
    match provider {
        ProviderConfiguration::AesGcm(keys) => transformer::aes_gcm(keys),
        ProviderConfiguration::AesCbc(keys) => transformer::aes_cbc(keys),
        ProviderConfiguration::Secretbox(keys) => transformer::secretbox(keys),
        ProviderConfiguration::Identity => Ok((Vec::new(), Arc::new(Identity))),
        ProviderConfiguration::Kms(configuration) => kms(configuration),
    }
}
