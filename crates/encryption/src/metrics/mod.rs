//! The metrics of encryption at rest, with upstream's names.
//!
//! - `transformations`: values that were encrypted and decrypted (upstream: `storage/value/metrics.go`).
//! - `kms`: calls of KMS plugins, and the use of their keys (upstream: `encrypt/envelope/metrics/metrics.go`).
//! - `reloads`: reloads of the configuration (upstream: `server/options/encryptionconfig/metrics/metrics.go`).

mod kms;
mod reloads;
mod transformations;

use std::fmt::Write as _;

use pintle_metrics::Exposition;
use sha2::{Digest, Sha256};

pub(crate) use self::kms::{KmsMetrics, ProviderMetrics};
pub(crate) use self::reloads::ReloadMetrics;
pub(crate) use self::transformations::{Direction, Recorder, TransformationMetrics};

/// The metrics of encryption at rest. Without encryption, they are the metrics that upstream shows before the first event.
#[derive(Debug, Default)]
pub struct EncryptionMetrics {
    /// The hash of the server's identity.
    server: String,
    pub(crate) transformations: TransformationMetrics,
    pub(crate) kms: KmsMetrics,
    pub(crate) reloads: ReloadMetrics,
}

impl EncryptionMetrics {
    /// The metrics of the server with this identity. Some of them show its hash.
    #[must_use]
    pub fn new(server: &str) -> Self {
        Self { server: hash(server), ..Self::default() }
    }

    /// Writes the metrics.
    pub fn write(&self, out: &mut Exposition) {
        self.transformations.write(out);
        self.kms.write(&self.server, out);
        self.reloads.write(&self.server, out);
    }
}

/// The hash of a text as metrics and messages show it: `sha256:` and hexadecimal digits. An empty text has none.
pub(crate) fn hash(text: &str) -> String {
    let mut hash = String::new();
    if !text.is_empty() {
        hash.push_str("sha256:");
        for byte in Sha256::digest(text) {
            let _ = write!(hash, "{byte:02x}");
        }
    }
    hash
}
