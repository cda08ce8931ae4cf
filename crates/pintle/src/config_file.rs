//! Configuration files, with Go's messages of errors, and the comparison with the text that was read last.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pintle_auth::config_file::system_error;

/// How often a configuration file is compared with the configuration in use.
pub(crate) const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// Reads a file. Errors have Go's message.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("open {}: {}", path.display(), system_error(&error)))
}

/// Returns whether a path leads to a regular file. Errors have Go's message.
pub(crate) fn is_regular_file(path: &str) -> Result<bool, String> {
    let metadata = fs::metadata(path).map_err(|error| format!("stat {path}: {}", system_error(&error)))?;
    Ok(metadata.is_file())
}

/// A configuration file that is read again when it changes.
#[derive(Clone, Debug)]
pub(crate) struct FollowedFile {
    path: PathBuf,
    /// The text that was read last.
    text: Vec<u8>,
    is_readable: bool,
}

impl FollowedFile {
    /// Reads a file for the first time.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        Ok(Self { path: path.to_owned(), text: read(path)?, is_readable: true })
    }

    /// The text that was read last.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Reads the file. Returns its text if it has changed. While the file is unreadable, only the first call returns an
    /// error.
    pub(crate) fn changed(&mut self) -> Result<Option<&[u8]>, String> {
        let text = match read(&self.path) {
            Ok(text) => text,
            Err(error) => return if std::mem::take(&mut self.is_readable) { Err(error) } else { Ok(None) },
        };
        self.is_readable = true;
        if text == self.text {
            return Ok(None);
        }
        self.text = text;
        Ok(Some(&self.text))
    }

    /// Forgets the text that was read last, so that the next call returns it again.
    pub(crate) fn retry(&mut self) {
        self.text.clear();
    }
}

/// A configuration that is replaced when its file changes.
pub(crate) trait FollowedConfiguration: Send + Sync + 'static {
    /// The name of the configuration in the log.
    const NAME: &'static str;

    /// Reads the file. Returns its text if it has a new configuration, which is in use now.
    ///
    /// # Errors
    /// The file has a configuration that cannot be used. The configuration in use stays.
    fn check(&self) -> impl Future<Output = Result<Option<Vec<u8>>, String>> + Send;

    /// Counts a reload. `text` is the new configuration, or `None` if the reload has failed.
    fn record(&self, text: Option<&[u8]>);
}

/// Checks the file of a configuration regularly. Logs and counts the reloads.
pub(crate) async fn follow<C: FollowedConfiguration>(configuration: Arc<C>) {
    loop {
        tokio::time::sleep(RELOAD_INTERVAL).await;
        match configuration.check().await {
            Ok(None) => {}
            Ok(Some(text)) => {
                tracing::info!(configuration = C::NAME, "Reloaded a configuration file");
                configuration.record(Some(&text));
            }
            Err(error) => {
                tracing::error!(configuration = C::NAME, error, "Failed to reload a configuration file");
                configuration.record(None);
            }
        }
    }
}
