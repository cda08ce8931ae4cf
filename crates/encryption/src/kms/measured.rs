//! Records the calls of a plugin (upstream: `recordMetricsInterceptor` in `kmsv2/grpc_service.go`).

use std::sync::Arc;
use std::time::Instant;

use super::plugin::{DECRYPT, ENCRYPT, STATUS};
use super::{EncryptedDek, KmsFuture, KmsPlugin, KmsStatus};
use crate::Secret;
use crate::metrics::ProviderMetrics;

/// A plugin whose calls are recorded.
#[derive(Debug)]
pub(super) struct MeasuredPlugin {
    plugin: Arc<dyn KmsPlugin>,
    metrics: Arc<ProviderMetrics>,
}

impl MeasuredPlugin {
    pub(super) fn new(plugin: Arc<dyn KmsPlugin>, metrics: Arc<ProviderMetrics>) -> Self {
        Self { plugin, metrics }
    }

    fn measure<'p, T: 'p>(&'p self, method: &'static str, call: KmsFuture<'p, T>) -> KmsFuture<'p, T> {
        Box::pin(async move {
            let start = Instant::now();
            let result = call.await;
            let status = result.as_ref().err().map_or("OK".into(), |error| error.status.clone());
            self.metrics.record_call(method, start.elapsed(), status);
            result
        })
    }
}

impl KmsPlugin for MeasuredPlugin {
    fn status(&self) -> KmsFuture<'_, KmsStatus> {
        self.measure(STATUS, self.plugin.status())
    }

    fn encrypt<'p>(&'p self, uid: &'p str, dek: &'p [u8]) -> KmsFuture<'p, EncryptedDek> {
        self.measure(ENCRYPT, self.plugin.encrypt(uid, dek))
    }

    fn decrypt<'p>(&'p self, uid: &'p str, dek: &'p EncryptedDek) -> KmsFuture<'p, Secret> {
        self.measure(DECRYPT, self.plugin.decrypt(uid, dek))
    }
}
