//! Encryption at rest in a running server: the transformers in use, and the health of KMS plugins (upstream:
//! `server/options/encryptionconfig/config.go`).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::join_all;
use pintle_locks::{Mutex, RwLock};
use pintle_value::time::Time;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::running::RunningConfiguration;
use crate::{
    ConfigurationFile, ConfigurationOptions, EncryptionMetrics, KmsConfiguration, KmsPlugin, ResourceTransformers,
    TransformError,
};

/// The name of the health check of all KMS plugins.
pub const KMS_HEALTH_CHECK: &str = "kms-providers";

/// The flags of encryption at rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncryptionOptions {
    /// The file with the configuration (`--encryption-provider-config`). `None` encrypts nothing.
    pub config_file: Option<PathBuf>,
    /// Whether the file is read again when it changes (`--encryption-provider-config-automatic-reload`).
    pub automatic_reload: bool,
}

impl EncryptionOptions {
    /// Checks that the flags agree (upstream: `EtcdOptions.Validate`).
    ///
    /// # Errors
    /// Returns upstream's message.
    pub fn validate(&self) -> Result<(), String> {
        if self.automatic_reload && self.config_file.is_none() {
            let problem = "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config";
            return Err(problem.to_owned());
        }
        Ok(())
    }

    pub(crate) fn configuration(&self) -> ConfigurationOptions {
        ConfigurationOptions { reload: self.automatic_reload, kms_v1: false }
    }
}

/// Makes the client of a KMS plugin.
pub type PluginFactory = dyn Fn(&KmsConfiguration) -> Result<Arc<dyn KmsPlugin>, String> + Send + Sync;

/// The clients of plugins and the clock. Tests replace them.
#[derive(Clone)]
pub struct EncryptionEnvironment {
    /// Makes the clients of plugins.
    pub plugins: Arc<PluginFactory>,
    /// The clock.
    pub now: Arc<dyn Fn() -> Time + Send + Sync>,
}

/// Plugins at Unix sockets, and the clock of the system.
impl Default for EncryptionEnvironment {
    fn default() -> Self {
        Self { plugins: Arc::new(connect), now: Arc::new(|| SystemTime::now().into()) }
    }
}

impl fmt::Debug for EncryptionEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncryptionEnvironment")
    }
}

#[cfg(unix)]
fn connect(kms: &KmsConfiguration) -> Result<Arc<dyn KmsPlugin>, String> {
    let timeout = std::time::Duration::from_nanos(u64::try_from(kms.timeout.0).unwrap_or_default());
    Ok(Arc::new(crate::KmsClient::new(&kms.endpoint, timeout)?))
}

#[cfg(not(unix))]
fn connect(_: &KmsConfiguration) -> Result<Arc<dyn KmsPlugin>, String> {
    Err("KMS plugins need Unix sockets".to_owned())
}

/// The transformers that a running server uses (upstream: `DynamicTransformers`). By default nothing is encrypted.
#[derive(Debug, Default)]
pub struct EncryptionAtRest {
    pub(crate) options: EncryptionOptions,
    pub(crate) environment: EncryptionEnvironment,
    pub(crate) metrics: Arc<EncryptionMetrics>,
    running: RwLock<RunningConfiguration>,
    /// Configurations that were replaced, until their plugins are closed.
    replaced: Mutex<JoinSet<()>>,
}

impl EncryptionAtRest {
    /// Reads the configuration and checks the plugins once. A plugin that is away does not fail the start, but it can make
    /// the start wait for the time-outs of its calls. `server` is the identity of the server, whose hash metrics show.
    ///
    /// # Errors
    /// The configuration cannot be used; with upstream's message.
    pub async fn start(
        options: EncryptionOptions,
        server: &str,
        environment: EncryptionEnvironment,
    ) -> Result<Arc<Self>, String> {
        let metrics = Arc::new(EncryptionMetrics::new(server));
        let mut encryption = Self { options, environment, metrics, ..Self::default() };
        if let Some(file) = &encryption.options.config_file {
            let file = ConfigurationFile::read(file, encryption.options.configuration())?;
            let running = encryption.run(&file).await?;
            encryption.metrics.reloads.set_configuration(&file.content_hash);
            *encryption.running.get_mut() = running;
        }
        Ok(Arc::new(encryption))
    }

    /// The current transformers.
    #[must_use]
    pub fn transformers(&self) -> Arc<ResourceTransformers> {
        self.running.read().transformers.clone()
    }

    /// The metrics.
    #[must_use]
    pub fn metrics(&self) -> &EncryptionMetrics {
        &self.metrics
    }

    /// True if the configuration is read again when its file changes.
    #[must_use]
    pub fn reloads(&self) -> bool {
        self.options.automatic_reload && self.options.config_file.is_some()
    }

    /// True if the server has the health check [`KMS_HEALTH_CHECK`]. With reloads, a later configuration can have plugins.
    #[must_use]
    pub fn has_health_check(&self) -> bool {
        self.reloads() || !self.running.read().providers.is_empty()
    }

    /// Checks the plugins. A recent result of a plugin counts. Takes up to the time-outs of the plugins' calls.
    ///
    /// # Errors
    /// Returns upstream's messages about all plugins that are not healthy.
    pub async fn check_plugins(&self) -> Result<(), String> {
        let providers = self.running.read().providers.clone();
        check_all(&providers).await
    }

    /// The hash of the configuration in use, which is empty without one.
    pub(crate) fn content_hash(&self) -> String {
        self.running.read().content_hash.clone()
    }

    /// Makes the providers of a configuration and checks its plugins once.
    pub(crate) async fn run(&self, file: &ConfigurationFile) -> Result<RunningConfiguration, String> {
        RunningConfiguration::start(file, &self.environment, &self.metrics).await
    }

    /// Uses another configuration. The plugins of the old one are closed after the time in which their calls end.
    pub(crate) fn replace(&self, new: RunningConfiguration) {
        let old = std::mem::replace(&mut *self.running.write(), new);
        let mut replaced = self.replaced.lock();
        while replaced.try_join_next().is_some() {}
        replaced.spawn(async move {
            sleep(old.close_grace_period).await;
            drop(old);
        });
    }
}

/// Checks plugins (upstream: `kmsHealthChecker.Check`). Other than upstream, they are checked at the same time.
pub(crate) async fn check_all(providers: &[Arc<crate::running::RunningProvider>]) -> Result<(), String> {
    let results = join_all(providers.iter().map(|provider| provider.check())).await;
    let failures = results.into_iter().enumerate().filter_map(|(index, result)| {
        let error = result.err()?;
        Some(TransformError::new(format!("kms-provider-{index}: {error}")))
    });
    let all = failures.reduce(|mut all, failure| {
        all.append(failure);
        all
    });
    all.map_or(Ok(()), |error| Err(error.to_string()))
}
