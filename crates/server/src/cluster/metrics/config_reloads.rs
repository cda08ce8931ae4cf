//! The metrics of the reloads of a configuration file (upstream: `apiserver/pkg/util/configmetrics` and its users).

use pintle_locks::Mutex;
use pintle_metrics::{Counter, Exposition, Gauge, Kind, Stability};
use sha2::{Digest, Sha256};

/// The hash of a text as metrics show it.
pub(super) fn hash_of(text: &[u8]) -> String {
    if text.is_empty() {
        return String::new();
    }
    let digits = Sha256::digest(text).iter().fold(String::new(), |digits, byte| format!("{digits}{byte:02x}"));
    format!("sha256:{digits}")
}

/// The names of the metrics of one configuration.
pub(super) struct ReloadFamilies {
    pub(super) total: &'static str,
    pub(super) last: &'static str,
    pub(super) info: &'static str,
    /// The name of the configuration in help texts.
    pub(super) what: &'static str,
    /// The stability of the first two metrics.
    pub(super) stability: Stability,
    /// A label that tells configurations of the same kind apart.
    pub(super) label: Option<(&'static str, &'static str)>,
}

/// The reloads of a configuration, and its hashes.
#[derive(Debug, Default)]
pub(crate) struct ConfigReloads {
    /// Counts and last times of failures and of successes.
    results: [(Counter, Gauge); 2],
    /// The hashes of the server's name and of the configuration.
    hashes: Mutex<Option<(String, String)>>,
}

impl ConfigReloads {
    /// Records the configuration at the start of the server. `server` is the identity of the server in metrics.
    pub(crate) fn begin(&self, server: &str, text: &[u8]) {
        *self.hashes.lock() = Some((hash_of(server.as_bytes()), hash_of(text)));
    }

    /// Records a reload at a time in seconds. `server` is the identity of the server in metrics. `text` is the
    /// configuration that is in use now, or `None` if the reload has failed.
    pub(crate) fn record(&self, server: &str, text: Option<&[u8]>, now: i64) {
        let (count, time) = &self.results[usize::from(text.is_some())];
        count.inc();
        time.set(now);
        let mut hashes = self.hashes.lock();
        let old = hashes.take().map(|(_, hash)| hash).unwrap_or_default();
        *hashes = Some((hash_of(server.as_bytes()), text.map_or(old, hash_of)));
    }

    pub(super) fn write(&self, out: &mut Exposition, families: &ReloadFamilies) {
        let hashes = self.hashes.lock();
        let Some((server, hash)) = &*hashes else { return };
        let (what, stability) = (families.what, families.stability);
        let labels = |own: (&'static str, &'static str)| {
            let own = [Some(own), families.label].into_iter().flatten();
            own.chain([("apiserver_id_hash", server.as_str())]).collect::<Vec<(&str, &str)>>()
        };
        let results =
            || ["failure", "success"].into_iter().zip(&self.results).filter(|(_, (count, _))| count.get() > 0);
        for (status, (count, _)) in results() {
            let help = format!("Reloads of the {what} configuration by status and server.");
            out.family(families.total, Kind::Counter, stability, &help)
                .value(&labels(("status", status)), count.get() as f64);
        }
        for (status, (_, time)) in results() {
            let help = format!("Time of the last reload of the {what} configuration by status and server.");
            out.family(families.last, Kind::Gauge, stability, &help)
                .value(&labels(("status", status)), time.get() as f64);
        }
        let help = format!("The hash of the last applied {what} configuration.");
        let own = families.label.into_iter().chain([("apiserver_id_hash", server.as_str()), ("hash", hash)]);
        let own: Vec<(&str, &str)> = own.collect();
        out.family(families.info, Kind::Gauge, Stability::Alpha, &help).value(&own, 1.0);
    }
}
