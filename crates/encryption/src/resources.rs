//! The transformers of all resources that a configuration names.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pintle_locks::RwLock;
use pintle_registry::GroupResource;

use crate::configuration::{ANY, any_in_group, rules};
use crate::transformer::{self, Identity, PrefixTransformers, Provider};
use crate::{
    EncryptionConfiguration, EncryptionMetrics, KmsConfiguration, ProviderConfiguration, StoredKey, Transformer,
};

const NO_PROVIDER: &str = "no matching prefix found";

/// Makes the transformer of a KMS plugin and names the prefix of its stored values.
pub type KmsFactory<'f> = dyn FnMut(&KmsConfiguration) -> Result<(Vec<u8>, Arc<dyn Transformer>), String> + 'f;

/// The transformers of resources (upstream: `StaticTransformers`).
#[derive(Debug)]
pub struct ResourceTransformers {
    /// The providers of each entry of the configuration.
    entries: Vec<Vec<Provider>>,
    /// The positions of the entries of each resource that the configuration names.
    rules: BTreeMap<GroupResource, Vec<usize>>,
    /// The transformers that were made so far.
    transformers: RwLock<HashMap<GroupResource, Arc<dyn Transformer>>>,
    /// The transformer of resources that no rule matches.
    identity: Arc<dyn Transformer>,
    metrics: Arc<EncryptionMetrics>,
}

/// No resource is encrypted.
impl Default for ResourceTransformers {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            rules: BTreeMap::new(),
            transformers: RwLock::default(),
            identity: Arc::new(Identity),
            metrics: Arc::default(),
        }
    }
}

impl ResourceTransformers {
    /// Makes the transformers of a configuration. `kms` is called once for each KMS plugin in the configuration.
    ///
    /// # Errors
    /// The transformer of a KMS plugin cannot be made, or an entry has no effect.
    pub fn new(configuration: &EncryptionConfiguration, kms: &mut KmsFactory<'_>) -> Result<Self, String> {
        Self::with_metrics(configuration, kms, Arc::default())
    }

    /// Makes transformers that record values in these metrics.
    ///
    /// # Errors
    /// See [`ResourceTransformers::new`].
    pub(crate) fn with_metrics(
        configuration: &EncryptionConfiguration,
        kms: &mut KmsFactory<'_>,
        metrics: Arc<EncryptionMetrics>,
    ) -> Result<Self, String> {
        let mut entries: Vec<Vec<Provider>> = Vec::new();
        for entry in &configuration.entries {
            let providers = entry.providers.iter().map(|provider| make_provider(provider, kms));
            entries.push(providers.collect::<Result<_, _>>()?);
        }
        Ok(Self { entries, rules: rules(configuration, true)?, metrics, ..Self::default() })
    }

    /// True if a rule matches a resource.
    #[must_use]
    pub fn has_rule(&self, resource: &GroupResource) -> bool {
        self.rule(resource).is_some()
    }

    /// The positions of the entries of a resource.
    fn rule(&self, resource: &GroupResource) -> Option<&Vec<usize>> {
        let of = |resource: &GroupResource| self.rules.get(resource);
        of(resource).or_else(|| of(&any_in_group(resource))).or_else(|| of(&ANY))
    }

    /// The key with which values of a resource are written now. `None` if a KMS plugin has not provided it yet.
    #[must_use]
    pub fn writing_key(&self, resource: &GroupResource) -> Option<StoredKey> {
        let first = self.rule(resource).and_then(|positions| self.entries[*positions.first()?].first());
        first.map_or_else(|| Some(StoredKey::of(b"")), Provider::writing_key)
    }

    /// True if no resource is encrypted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The transformer of a resource: of the resource itself, of all resources of its group, or of all resources. Values of
    /// other resources are not encrypted.
    #[must_use]
    pub fn of(&self, resource: &GroupResource) -> Arc<dyn Transformer> {
        if self.rules.is_empty() {
            return self.identity.clone();
        }
        if let Some(transformer) = self.transformers.read().get(resource) {
            return transformer.clone();
        }
        let made = self.make(resource);
        self.transformers.write().entry(resource.clone()).or_insert(made).clone()
    }

    fn make(&self, resource: &GroupResource) -> Arc<dyn Transformer> {
        let Some(positions) = self.rule(resource) else { return self.identity.clone() };
        let label: Arc<str> = resource.to_string().into();
        let providers = positions.iter().flat_map(|position| &self.entries[*position]);
        let transformers = providers.map(|provider| provider.transformer(&self.metrics, &label));
        Arc::new(PrefixTransformers::new(transformers, NO_PROVIDER, &self.metrics, &label))
    }
}

fn make_provider(provider: &ProviderConfiguration, kms: &mut KmsFactory<'_>) -> Result<Provider, String> {
    match provider {
        ProviderConfiguration::AesGcm(keys) => transformer::aes_gcm(keys),
        ProviderConfiguration::AesCbc(keys) => transformer::aes_cbc(keys),
        ProviderConfiguration::Secretbox(keys) => transformer::secretbox(keys),
        ProviderConfiguration::Identity => Ok(Provider::shared((Vec::new(), Arc::new(Identity)))),
        ProviderConfiguration::Kms(configuration) => kms(configuration).map(Provider::shared),
    }
}
