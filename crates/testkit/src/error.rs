//! The errors of the kit.

use std::path::PathBuf;

/// Why something could not be done with a cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cluster cannot be started with these options.
    #[error("the cluster cannot start: {0}")]
    Start(String),
    /// The cluster has not stopped cleanly.
    #[error("the cluster has not stopped cleanly: {0}")]
    Stop(String),
    /// The server has answered with something else than was asked for.
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
        /// What went wrong.
        error: std::io::Error,
    },
    /// Something has not happened in time.
    #[error("timed out: {0}")]
    Timeout(String),
}
