//! The chain of plugins, assembled from the configuration in upstream's order (upstream:
//! `pkg/kubeapiserver/options/plugins.go`, `admission/chain.go`).

use std::fmt;
use std::sync::Arc;

use pintle_registry::ApiError;
use pintle_value::Value;

use crate::{AdmissionAttributes, AdmissionPlugin, NamespaceLifecycle, TerminatingDefinition};

/// A plugin that can be enabled and disabled.
struct Registration {
    name: &'static str,
    enabled_by_default: bool,
    build: fn() -> Arc<dyn AdmissionPlugin>,
}

/// The plugins that can be configured, in the order in which they run.
const PLUGINS: &[Registration] =
    &[Registration { name: "NamespaceLifecycle", enabled_by_default: true, build: || Arc::new(NamespaceLifecycle) }];

/// The configuration of the plugin chain.
#[derive(Clone, Default)]
pub struct AdmissionConfiguration {
    /// Names of plugins to enable in addition to the default ones (`--enable-admission-plugins`).
    pub enabled: Vec<String>,
    /// Names of plugins to disable (`--disable-admission-plugins`).
    pub disabled: Vec<String>,
    /// Plugins of the program that embeds the server. They run after the built-in ones.
    pub additional: Vec<Arc<dyn AdmissionPlugin>>,
}

impl fmt::Debug for AdmissionConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let additional: Vec<&str> = self.additional.iter().map(|plugin| plugin.name()).collect();
        f.debug_struct("AdmissionConfiguration")
            .field("enabled", &self.enabled)
            .field("disabled", &self.disabled)
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
}

/// Admission plugins in the order in which they run.
#[derive(Clone, Default)]
pub struct PluginChain(Vec<Arc<dyn AdmissionPlugin>>);

impl PluginChain {
    /// The chain of a configuration. [`TerminatingDefinition`] is always part of it.
    ///
    /// # Errors
    /// The configuration names unknown plugins or contradicts itself.
    pub fn assemble(configuration: &AdmissionConfiguration) -> Result<Self, ConfigurationError> {
        let lists = [
            ("enable-admission-plugins", &configuration.enabled),
            ("disable-admission-plugins", &configuration.disabled),
        ];
        for (flag, names) in lists {
            if let Some(name) = names.iter().find(|name| !PLUGINS.iter().any(|plugin| plugin.name == **name)) {
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
        let mut plugins: Vec<Arc<dyn AdmissionPlugin>> = vec![Arc::new(TerminatingDefinition)];
        plugins.extend(PLUGINS.iter().filter(is_enabled).map(|plugin| (plugin.build)()));
        plugins.extend(configuration.additional.iter().cloned());
        Ok(Self(plugins))
    }

    /// The names of the plugins, in the order in which they run.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|plugin| plugin.name())
    }

    /// Runs the mutating phase of all plugins.
    ///
    /// # Errors
    /// The error of the first plugin that refuses the write.
    pub async fn mutate(&self, attributes: &AdmissionAttributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        for plugin in self.handlers(attributes) {
            plugin.mutate(attributes, object).await?;
        }
        Ok(())
    }

    /// Runs the validating phase of all plugins.
    ///
    /// # Errors
    /// The error of the first plugin that refuses the write.
    pub async fn validate(&self, attributes: &AdmissionAttributes<'_>, object: &Value) -> Result<(), ApiError> {
        for plugin in self.handlers(attributes) {
            plugin.validate(attributes, object).await?;
        }
        Ok(())
    }

    /// The plugins that handle a write.
    fn handlers(&self, attributes: &AdmissionAttributes<'_>) -> impl Iterator<Item = &Arc<dyn AdmissionPlugin>> {
        let (operation, resource) = (attributes.operation, attributes.resource);
        self.0.iter().filter(move |plugin| plugin.handles(operation, resource))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(enabled: &[&str], disabled: &[&str], expect: Result<&[&str], &str>) {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let configuration =
            AdmissionConfiguration { enabled: owned(enabled), disabled: owned(disabled), additional: Vec::new() };
        let found = PluginChain::assemble(&configuration);
        let found = found.map(|chain| chain.names().collect::<Vec<_>>()).map_err(|error| error.to_string());
        assert_eq!(found, expect.map(<[&str]>::to_vec).map_err(str::to_owned));
    }

    #[test]
    fn the_chain_follows_the_configuration() {
        check(&[], &[], Ok(&["TerminatingDefinition", "NamespaceLifecycle"]));
        check(&["NamespaceLifecycle"], &[], Ok(&["TerminatingDefinition", "NamespaceLifecycle"]));
        check(&[], &["NamespaceLifecycle"], Ok(&["TerminatingDefinition"]));
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
}
