//! The chain of plugins, assembled from the configuration (upstream: `admission/chain.go`).

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pintle_gates::Gates;
use pintle_metrics::{Exposition, WorkQueueMetrics};
use pintle_registry::ApiError;
use pintle_value::Value;

use crate::manifest::ManifestFiles;
use crate::metrics::{ChainMetrics, Phase};
use crate::plugins::{PLUGINS, PluginError, PluginOptions, Registration, TerminatingCrd, TolerationSeconds};
use crate::webhook::ReviewEndpoint;
use crate::{AdmissionAttributes, AdmissionPlugin};

/// The configuration of the plugin chain.
#[derive(Clone, Default)]
pub struct AdmissionConfiguration {
    /// Names of plugins to enable in addition to the default ones (`--enable-admission-plugins`).
    pub enabled: Vec<String>,
    /// Names of plugins to disable (`--disable-admission-plugins`).
    pub disabled: Vec<String>,
    /// The configurations of plugins by the plugin's name, as text in YAML or JSON (`--admission-control-config-file`).
    pub plugins: BTreeMap<String, Vec<u8>>,
    /// How long pods tolerate nodes that are not ready or not reachable.
    pub toleration_seconds: TolerationSeconds,
    /// Plugins of the program that embeds the server. They run after the built-in ones.
    pub additional: Vec<Arc<dyn AdmissionPlugin>>,
}

impl fmt::Debug for AdmissionConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let additional: Vec<&str> = self.additional.iter().map(|plugin| plugin.name()).collect();
        f.debug_struct("AdmissionConfiguration")
            .field("enabled", &self.enabled)
            .field("disabled", &self.disabled)
            .field("plugins", &self.plugins.keys())
            .field("toleration_seconds", &self.toleration_seconds)
            .field("additional", &additional)
            .finish()
    }
}

/// An error in an [`AdmissionConfiguration`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// A flag names a plugin that does not exist.
    #[error("{flag} plugin \"{name}\" is unknown")]
    UnknownPlugin {
        /// The flag.
        flag: &'static str,
        /// The name.
        name: String,
    },
    /// A plugin is enabled and disabled.
    #[error("{0} in enable-admission-plugins and disable-admission-plugins overlapped")]
    Overlap(String),
    /// The configuration of a plugin cannot be read.
    #[error("couldn't init admission plugin \"{name}\": {error}")]
    UnreadablePlugin {
        /// The plugin.
        name: &'static str,
        /// Upstream's message.
        error: String,
    },
    /// The configuration of a plugin is invalid.
    #[error("failed to initialize admission plugin \"{name}\": {error}")]
    InvalidPlugin {
        /// The plugin.
        name: &'static str,
        /// Upstream's message.
        error: String,
    },
}

/// Admission plugins in the order in which they run.
#[derive(Clone, Default)]
pub struct PluginChain {
    plugins: Vec<Arc<dyn AdmissionPlugin>>,
    metrics: Arc<ChainMetrics>,
}

impl PluginChain {
    /// The chain of a configuration and feature gates. [`TerminatingCrd`] is always part of it.
    ///
    /// # Errors
    /// The configuration names unknown plugins, contradicts itself, or has an invalid configuration of a plugin.
    pub fn assemble(configuration: &AdmissionConfiguration, gates: &Gates) -> Result<Self, ConfigurationError> {
        let lists = [
            ("enable-admission-plugins", &configuration.enabled),
            ("disable-admission-plugins", &configuration.disabled),
        ];
        for (flag, names) in lists {
            let is_known = |name: &&String| PLUGINS.iter().any(|plugin| plugin.name == **name);
            if let Some(name) = names.iter().find(|name| !is_known(name)) {
                return Err(ConfigurationError::UnknownPlugin { flag, name: name.clone() });
            }
        }
        if let Some(name) = configuration.enabled.iter().find(|name| configuration.disabled.contains(name)) {
            return Err(ConfigurationError::Overlap(name.clone()));
        }
        let names = |list: &[String], name: &str| list.iter().any(|listed| listed == name);
        let is_enabled = |plugin: &&Registration| {
            (plugin.enabled_by_default && !names(&configuration.disabled, plugin.name))
                || names(&configuration.enabled, plugin.name)
        };
        let mut plugins: Vec<Arc<dyn AdmissionPlugin>> = vec![Arc::new(TerminatingCrd)];
        for &Registration { name, build, .. } in PLUGINS.iter().filter(is_enabled) {
            let text = configuration.plugins.get(name).map(Vec::as_slice);
            let plugin = build(&PluginOptions { text, toleration_seconds: configuration.toleration_seconds, gates });
            plugins.push(plugin.map_err(|error| match error {
                PluginError::Unreadable(error) => ConfigurationError::UnreadablePlugin { name, error },
                PluginError::Invalid(error) => ConfigurationError::InvalidPlugin { name, error },
            })?);
        }
        plugins.extend(configuration.additional.iter().cloned());
        Ok(Self { metrics: Arc::new(ChainMetrics::new(plugins.len())), plugins })
    }

    /// The names of all plugins that can be enabled and disabled, sorted (upstream: `Plugins.Registered`).
    #[must_use]
    pub fn registered() -> Vec<&'static str> {
        let mut names: Vec<_> = PLUGINS.iter().map(|plugin| plugin.name).collect();
        names.sort_unstable();
        names
    }

    /// The names of the plugins that are enabled by default, in the order in which they run.
    pub fn enabled_by_default() -> impl Iterator<Item = &'static str> {
        PLUGINS.iter().filter(|plugin| plugin.enabled_by_default).map(|plugin| plugin.name)
    }

    /// The names of the plugins, in the order in which they run.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.plugins.iter().map(|plugin| plugin.name())
    }

    /// The kubeconfigs that the configurations of plugins name, by the plugin.
    pub fn kubeconfigs(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.plugins.iter().filter_map(|plugin| Some((plugin.name(), plugin.kubeconfig()?)))
    }

    /// The plugins that read objects from files, by name.
    pub fn manifests(&self) -> impl Iterator<Item = (&'static str, ManifestFiles<'_>)> {
        self.plugins.iter().filter_map(|plugin| Some((plugin.name(), plugin.manifests()?)))
    }

    /// The servers that plugins ask for reviews, by the plugin.
    pub fn review_endpoints(&self) -> impl Iterator<Item = (&'static str, &ReviewEndpoint)> {
        self.plugins.iter().filter_map(|plugin| Some((plugin.name(), plugin.review_endpoint()?)))
    }

    /// True if a plugin enforces the stored objects of a resource of `admissionregistration.k8s.io`.
    #[must_use]
    pub fn enforces(&self, resource: &str) -> bool {
        self.plugins.iter().any(|plugin| plugin.enforced_resources().contains(&resource))
    }

    /// Writes the metrics of all plugins.
    pub fn write_metrics(&self, out: &mut Exposition) {
        self.metrics.write(self.names(), out);
        self.plugins.iter().for_each(|plugin| plugin.write_metrics(out));
    }

    /// The work queues of all plugins.
    pub fn work_queues(&self) -> impl Iterator<Item = &WorkQueueMetrics> {
        self.plugins.iter().filter_map(|plugin| plugin.work_queue())
    }

    /// Runs the mutating phase of all plugins.
    ///
    /// # Errors
    /// The error of the first plugin that refuses the write.
    pub async fn mutate(&self, attributes: &AdmissionAttributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        let started = Instant::now();
        let result = self.mutate_twice(attributes, object).await;
        self.metrics.observe_step(Phase::Mutating, attributes.operation, result.is_err(), started.elapsed());
        result
    }

    async fn mutate_twice(&self, attributes: &AdmissionAttributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        self.mutate_once(attributes, object).await?;
        // The plugins before a webhook or a policy have not seen its changes.
        if attributes.reinvocation.begin_second_run() {
            self.mutate_once(attributes, object).await?;
        }
        Ok(())
    }

    async fn mutate_once(&self, attributes: &AdmissionAttributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        for (index, plugin) in self.handlers(Phase::Mutating, attributes) {
            let started = Instant::now();
            let result = plugin.mutate(attributes, object).await;
            let (operation, took) = (attributes.operation, started.elapsed());
            self.metrics.observe_plugin(index, Phase::Mutating, operation, result.is_err(), took);
            result?;
        }
        Ok(())
    }

    /// Runs the validating phase of all plugins.
    ///
    /// # Errors
    /// The error of the first plugin that refuses the write.
    pub async fn validate(&self, attributes: &AdmissionAttributes<'_>, object: &Value) -> Result<(), ApiError> {
        let started = Instant::now();
        let result = self.validate_all(attributes, object).await;
        self.metrics.observe_step(Phase::Validating, attributes.operation, result.is_err(), started.elapsed());
        result
    }

    async fn validate_all(&self, attributes: &AdmissionAttributes<'_>, object: &Value) -> Result<(), ApiError> {
        for (index, plugin) in self.handlers(Phase::Validating, attributes) {
            let started = Instant::now();
            let result = plugin.validate(attributes, object).await;
            let (operation, took) = (attributes.operation, started.elapsed());
            self.metrics.observe_plugin(index, Phase::Validating, operation, result.is_err(), took);
            result?;
        }
        Ok(())
    }

    /// The plugins that handle a write in a phase, with their positions.
    fn handlers(
        &self,
        phase: Phase,
        attributes: &AdmissionAttributes<'_>,
    ) -> impl Iterator<Item = (usize, &Arc<dyn AdmissionPlugin>)> {
        self.plugins
            .iter()
            .enumerate()
            .filter(move |(_, plugin)| plugin.phases().contains(&phase) && plugin.handles(attributes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(enabled: &[&str], disabled: &[&str], expect: Result<&[&str], &str>) {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let configuration =
            AdmissionConfiguration { enabled: owned(enabled), disabled: owned(disabled), ..Default::default() };
        let found = PluginChain::assemble(&configuration, &Gates::default());
        let found = found.map(|chain| chain.names().collect::<Vec<_>>()).map_err(|error| error.to_string());
        assert_eq!(found, expect.map(<[&str]>::to_vec).map_err(str::to_owned));
    }

    #[test]
    fn the_chain_follows_the_configuration() {
        let on: Vec<_> = PluginChain::enabled_by_default().collect();
        let all = [&["TerminatingCRD"], &*on].concat();
        check(&[], &[], Ok(&all));
        check(&["NamespaceLifecycle"], &[], Ok(&all));
        check(&[], &on, Ok(&["TerminatingCRD"]));
        let rest = all.iter().copied().filter(|name| *name != "NodeRestriction");
        check(&[], &["NodeRestriction"], Ok(&rest.collect::<Vec<_>>()));
    }

    #[test]
    fn stored_rules_are_enforced_by_their_plugins() {
        let enforced = |disabled: &str| {
            let disabled = disabled.split_terminator(',').map(str::to_owned).collect();
            let configuration = AdmissionConfiguration { disabled, ..Default::default() };
            let chain = PluginChain::assemble(&configuration, &Gates::default()).expect("a chain");
            [
                "mutatingadmissionpolicies",
                "mutatingadmissionpolicybindings",
                "mutatingwebhookconfigurations",
                "validatingadmissionpolicies",
                "validatingadmissionpolicybindings",
                "validatingwebhookconfigurations",
            ]
            .map(|resource| chain.enforces(resource))
        };
        assert_eq!(enforced(""), [true; 6]);
        assert_eq!(enforced("ValidatingAdmissionWebhook"), [true, true, true, true, true, false]);
        assert_eq!(
            enforced("MutatingAdmissionPolicy,MutatingAdmissionWebhook"),
            [false, false, false, true, true, true]
        );
    }

    #[test]
    fn overlapping_lists_and_unknown_plugins_are_errors() {
        check(&["Nope"], &[], Err("enable-admission-plugins plugin \"Nope\" is unknown"));
        check(&[], &["Nope"], Err("disable-admission-plugins plugin \"Nope\" is unknown"));
        check(
            &["NamespaceLifecycle"],
            &["NamespaceLifecycle"],
            Err("NamespaceLifecycle in enable-admission-plugins and disable-admission-plugins overlapped"),
        );
    }

    #[test]
    fn invalid_configurations_of_plugins_are_errors() {
        let check = |fields: &str, expect: &str| {
            let head = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n";
            let plugins = BTreeMap::from([("PodSecurity".to_owned(), format!("{head}{fields}").into_bytes())]);
            let found =
                PluginChain::assemble(&AdmissionConfiguration { plugins, ..Default::default() }, &Gates::default());
            assert_eq!(found.err().map(|error| error.to_string()).unwrap_or_default(), expect);
        };
        check("exemptions:\n  usernames: [a]\n", "");
        check(
            "exemption: {}\n",
            "couldn't init admission plugin \"PodSecurity\": strict decoding error: unknown field \"exemption\"",
        );
        check(
            "exemptions:\n  usernames: [a, a]\n",
            "failed to initialize admission plugin \"PodSecurity\": PodSecurity invalid: exemptions.usernames[1]: \
             Duplicate value: \"a\"",
        );
    }
}
