//! A configuration in use: its providers, and the tasks that check its KMS plugins.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use pintle_supervisor::BackgroundTask;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::at_rest::EncryptionEnvironment;
use crate::{
    ConfigurationFile, EncryptionMetrics, KmsProvider, NEGATIVE_POLL_INTERVAL, POSITIVE_POLL_INTERVAL,
    ResourceTransformers,
};

/// The name of the tasks that check plugins.
const POLL_TASK: &str = "kms-plugin";

/// The providers of a configuration. Dropping it ends the tasks that check its plugins.
#[derive(Debug, Default)]
pub(crate) struct RunningConfiguration {
    pub(crate) transformers: Arc<ResourceTransformers>,
    /// The plugins, in the order of the configuration.
    pub(crate) providers: Vec<Arc<RunningProvider>>,
    /// How long the plugins stay open after another configuration has replaced this one (`KMSCloseGracePeriod`).
    pub(crate) close_grace_period: Duration,
    /// The hash of the file's content.
    pub(crate) content_hash: String,
    /// Own the tasks.
    _polls: JoinSet<()>,
}

/// A plugin, and the state of the task that checks it.
#[derive(Debug)]
pub(crate) struct RunningProvider {
    name: String,
    provider: Arc<KmsProvider>,
    task: BackgroundTask,
}

impl RunningConfiguration {
    /// Makes the providers, checks the plugins once, and starts the tasks that check them again. A plugin that is not
    /// healthy is not an error (upstream: `primeAndProbeKMSv2`).
    ///
    /// # Errors
    /// Returns upstream's message.
    pub(crate) async fn start(
        file: &ConfigurationFile,
        environment: &EncryptionEnvironment,
        metrics: &Arc<EncryptionMetrics>,
    ) -> Result<Self, String> {
        let mut providers = Vec::new();
        let mut timeouts = Duration::ZERO;
        let transformers = ResourceTransformers::with_metrics(
            &file.configuration,
            &mut |kms| {
                let plugin = (environment.plugins)(kms).map_err(|error| {
                    let name = pintle_value::print::quote(&kms.name);
                    format!("could not configure KMSv2-Plugin's probe {name}, error: {error}")
                })?;
                timeouts += Duration::from_nanos(u64::try_from(kms.timeout.0).unwrap_or_default());
                let now = environment.now.clone();
                let provider =
                    KmsProvider::with_metrics(kms.name.clone(), plugin, Box::new(move || now()), metrics.clone());
                let transformer = provider.transformer();
                let (name, task) = (kms.name.clone(), BackgroundTask::new(POLL_TASK));
                providers.push(Arc::new(RunningProvider { name, provider, task }));
                Ok(transformer)
            },
            metrics.clone(),
        );
        let transformers = transformers.map_err(|error| format!("error while building transformers: {error}"))?;
        let first = join_all(providers.iter().map(|provider| provider.check_and_log())).await;
        let mut polls = JoinSet::new();
        for (provider, is_healthy) in providers.iter().zip(first) {
            polls.spawn(supervise(provider.clone(), is_healthy));
        }
        Ok(Self {
            transformers: Arc::new(transformers),
            providers,
            close_grace_period: timeouts * 2,
            content_hash: file.content_hash.clone(),
            _polls: polls,
        })
    }
}

async fn supervise(provider: Arc<RunningProvider>, is_healthy: bool) {
    let start = || {
        let provider = provider.clone();
        async move {
            provider.task.report_success();
            provider.poll(is_healthy).await;
            Ok(())
        }
    };
    provider.task.supervise(start, || false).await;
}

impl RunningProvider {
    /// Checks the plugin, and that its task works.
    pub(crate) async fn check(&self) -> Result<(), String> {
        self.provider.check().await?;
        self.task
            .failure()
            .map_or(Ok(()), |reason| Err(format!("the task that checks the plugin has failed: {reason}")))
    }

    /// Returns whether the plugin is healthy.
    async fn check_and_log(&self) -> bool {
        let result = self.provider.check().await;
        if let Err(error) = &result {
            tracing::warn!(name = self.name, error, "KMS plugin failed health check probe");
        }
        result.is_ok()
    }

    /// Checks the plugin forever. So the DEK stays fresh, and another key of the plugin is noticed.
    async fn poll(&self, mut is_healthy: bool) {
        loop {
            sleep(if is_healthy { POSITIVE_POLL_INTERVAL } else { NEGATIVE_POLL_INTERVAL }).await;
            is_healthy = self.check_and_log().await;
        }
    }
}
