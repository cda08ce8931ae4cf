//! Reads the configuration again when its file changes (upstream:
//! `server/options/encryptionconfig/controller/controller.go`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::at_rest::check_all;
use crate::running::RunningConfiguration;
use crate::{ConfigurationFile, EncryptionAtRest, content_hash};

/// How often the file is compared with the configuration in use, as other configuration files are. Upstream compares each
/// minute.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum time until a file that cannot be used is read again, although it has not changed. Upstream's interval.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// How long plugins of a new configuration may take to become healthy, at least.
const MIN_HEALTH_TIMEOUT: Duration = Duration::from_secs(10);
/// The time between their checks.
const HEALTH_INTERVAL: Duration = Duration::from_millis(100);

/// The failed attempts to use a file.
struct Failures {
    /// The hash of the file's content, or the error of reading it.
    state: Result<String, String>,
    retry_at: Instant,
    /// The time until the next attempt after that.
    delay: Duration,
}

impl EncryptionAtRest {
    /// Uses each new configuration in the file. Never returns.
    pub async fn follow(self: Arc<Self>) {
        let mut failures: Option<Failures> = None;
        loop {
            sleep(RELOAD_INTERVAL).await;
            let Some(file) = &self.options.config_file else { continue };
            let state = content_hash(file);
            if state.as_ref() == Ok(&self.content_hash()) {
                failures = None;
                continue;
            }
            let known = failures.take().filter(|failures| failures.state == state);
            if let Some(known) = known.as_ref().filter(|known| Instant::now() < known.retry_at) {
                failures = Some(Failures { state, retry_at: known.retry_at, delay: known.delay });
                continue;
            }
            if self.reload().await.is_err() {
                let delay = known.map_or(RELOAD_INTERVAL, |known| known.delay);
                let retry_at = Instant::now() + delay;
                failures = Some(Failures { state, retry_at, delay: MAX_RETRY_INTERVAL.min(delay * 2) });
            }
        }
    }

    /// Uses the configuration in the file. Returns whether it differs from the configuration in use. Logs and counts.
    ///
    /// # Errors
    /// The file cannot be used, or a plugin is not healthy; with upstream's message. The configuration in use stays.
    pub async fn reload(&self) -> Result<bool, String> {
        let Some(file) = &self.options.config_file else { return Ok(false) };
        let result = self.try_reload(file).await;
        let now = (self.environment.now)();
        match &result {
            Ok(false) => {}
            Ok(true) => {
                tracing::info!(file = %file.display(), "Loaded new encryption config content");
                self.metrics.reloads.record_success(now, &self.content_hash());
            }
            Err(error) => {
                tracing::error!(file = %file.display(), error, "Error processing encryption config file");
                self.metrics.reloads.record_failure(now);
            }
        }
        result
    }

    async fn try_reload(&self, file: &Path) -> Result<bool, String> {
        if content_hash(file)? == self.content_hash() {
            return Ok(false);
        }
        let file = ConfigurationFile::read(file, self.options.configuration())?;
        if file.content_hash == self.content_hash() {
            return Ok(false);
        }
        let new = self.run(&file).await?;
        wait_until_healthy(&new).await?;
        self.replace(new);
        Ok(true)
    }
}

/// Waits until the plugins of a new configuration are healthy (`validateNewTransformersHealth`).
async fn wait_until_healthy(new: &RunningConfiguration) -> Result<(), String> {
    let mut last = String::new();
    let healthy = async {
        while let Err(error) = check_all(&new.providers).await {
            last = error;
            sleep(HEALTH_INTERVAL).await;
        }
    };
    let result = timeout(MIN_HEALTH_TIMEOUT.max(new.close_grace_period), healthy).await;
    result.map_err(|_| {
        format!(
            "health check for new transformers failed, polling error timed out waiting for the condition: {}",
            if last.is_empty() { "%!w(<nil>)" } else { &last }
        )
    })
}
