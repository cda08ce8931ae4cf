//! The metrics of reloads of the configuration (upstream: `server/options/encryptionconfig/metrics/metrics.go`).

use pintle_locks::Mutex;
use pintle_metrics::{Counter, Exposition, Kind, Stability};
use pintle_value::time::Time;

use super::kms::seconds;

/// The reloads by their result.
#[derive(Debug, Default)]
pub(crate) struct ReloadMetrics {
    failures: Counter,
    successes: Counter,
    /// The times of the last failure and of the last success.
    last: Mutex<[Option<Time>; 2]>,
    /// The hash of the configuration in use.
    configuration: Mutex<Option<String>>,
}

impl ReloadMetrics {
    /// Records the hash of the configuration in use.
    pub(crate) fn set_configuration(&self, content_hash: &str) {
        *self.configuration.lock() = Some(content_hash.to_owned());
    }

    /// Counts a reload. The hash is the new configuration's.
    pub(crate) fn record_success(&self, now: Time, content_hash: &str) {
        self.successes.inc();
        self.last.lock()[1] = Some(now);
        self.set_configuration(content_hash);
    }

    /// Counts a reload that has failed.
    pub(crate) fn record_failure(&self, now: Time) {
        self.failures.inc();
        self.last.lock()[0] = Some(now);
    }

    pub(super) fn write(&self, server: &str, out: &mut Exposition) {
        let statuses = ["failure", "success"];
        let help =
            "Total number of reload successes and failures of encryption configuration split by apiserver identity.";
        let name = "apiserver_encryption_config_controller_automatic_reloads_total";
        let mut family = out.family(name, Kind::Counter, Stability::Alpha, help);
        for (status, count) in statuses.iter().zip([&self.failures, &self.successes]).filter(|(_, n)| n.get() > 0) {
            family.value(&[("status", status), ("apiserver_id_hash", server)], count.get() as f64);
        }
        let help = "Timestamp of the last successful or failed automatic reload of encryption configuration split by \
                    apiserver identity.";
        let name = "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds";
        let mut family = out.family(name, Kind::Gauge, Stability::Alpha, help);
        for (status, time) in statuses.iter().zip(*self.last.lock()) {
            if let Some(time) = time {
                family.value(&[("status", status), ("apiserver_id_hash", server)], seconds(time));
            }
        }
        let help = "Information about the last applied encryption configuration with hash as label, split by apiserver \
                    identity.";
        let name = "apiserver_encryption_config_controller_last_config_info";
        if let Some(hash) = &*self.configuration.lock() {
            let labels = [("apiserver_id_hash", server), ("hash", hash)];
            out.family(name, Kind::Gauge, Stability::Alpha, help).value(&labels, 1.0);
        }
    }
}
