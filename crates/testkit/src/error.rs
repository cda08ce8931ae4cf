//! The errors of the kit.

use std::path::PathBuf;

/// Why an operation on a cluster failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cluster cannot be started with these options.
    #[error("the cluster cannot start: {0}")]
    Start(String),
    /// The cluster has not stopped cleanly.
    #[error("the cluster has not stopped cleanly: {0}")]
    Stop(String),
    /// The server's answer is not of the expected form.
    #[error("{0}")]
    Answer(String),
    /// A request of the kit has failed.
    #[error(transparent)]
    Request(#[from] kube::Error),
    /// A manifest cannot be read.
    #[error("{0}")]
    Manifest(String),
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    #[non_exhaustive]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// An expected event has not happened in time.
    #[error("timed out: {0}")]
    Timeout(String),
}
