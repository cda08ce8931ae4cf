//! The metrics of the issuers of tokens and of the reloads of their configuration (upstream:
//! `plugin/pkg/authenticator/token/oidc`, `server/options/authenticationconfig/metrics`).

use std::sync::Arc;
use std::time::Duration;

use pintle_locks::Mutex;
use pintle_metrics::{Buckets, Exposition, Family, Histogram, Kind, Stability};

use super::config_reloads::{ConfigReloads, ReloadFamilies, hash_of};

const DURATIONS: Buckets = Buckets::seconds(&[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);

/// The metrics of reloads.
const RELOADS: ReloadFamilies = ReloadFamilies {
    total: "apiserver_authentication_config_controller_automatic_reloads_total",
    last: "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds",
    info: "apiserver_authentication_config_controller_last_config_info",
    what: "authentication",
    stability: Stability::Beta,
    label: None,
};

const RESULTS: [&str; 2] = ["failure", "success"];

/// The metrics of an issuer.
#[derive(Debug)]
pub(crate) struct IssuerSeries {
    /// The durations of failed and of successful authentications.
    durations: [Histogram; 2],
    keys: Mutex<KeysSeries>,
}

/// The fetches of an issuer's keys.
#[derive(Debug, Default)]
struct KeysSeries {
    /// The hash of the server's name.
    server: String,
    /// The times of the last failed and the last successful fetch, in seconds.
    times: [Option<i64>; 2],
    /// The hash of the keys.
    hash: Option<String>,
}

impl IssuerSeries {
    /// Records an authentication.
    pub(crate) fn record_authentication(&self, ok: bool, took: Duration) {
        self.durations[usize::from(ok)].observe(took);
    }

    /// Records a fetch of keys at a time in seconds. `text` is the text of the keys, or `None` if the fetch has failed.
    pub(crate) fn record_keys(&self, text: Option<&[u8]>, now: i64) {
        let mut keys = self.keys.lock();
        keys.times[usize::from(text.is_some())] = Some(now);
        if let Some(text) = text {
            keys.hash = Some(hash_of(text));
        }
    }

    /// Removes the metrics of keys, because the issuer is not used any more.
    pub(crate) fn forget_keys(&self) {
        let mut keys = self.keys.lock();
        (keys.times, keys.hash) = ([None; 2], None);
    }
}

/// The metrics of authenticators.
#[derive(Debug, Default)]
pub(crate) struct AuthenticationMetrics {
    /// By the hash of the issuer's URL.
    issuers: Family<String, IssuerSeries>,
    reloads: ConfigReloads,
}

impl AuthenticationMetrics {
    /// The series of an issuer. `server` is the identity of the server in metrics.
    pub(crate) fn issuer(&self, url: &str, server: &str) -> Arc<IssuerSeries> {
        let series = self.issuers.get(&hash_of(url.as_bytes()), || IssuerSeries {
            durations: [Histogram::new(DURATIONS), Histogram::new(DURATIONS)],
            keys: Mutex::default(),
        });
        series.keys.lock().server = hash_of(server.as_bytes());
        series
    }

    /// The reloads of the configuration.
    pub(crate) fn reloads(&self) -> &ConfigReloads {
        &self.reloads
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        let issuers = self.issuers.all();
        for (issuer, series) in &issuers {
            for (result, durations) in RESULTS.iter().zip(&series.durations) {
                if durations.count() > 0 {
                    let help = "Latency of the authentication of JSON Web Tokens in seconds, by result and issuer.";
                    let family = "apiserver_authentication_jwt_authenticator_latency_seconds";
                    out.family(family, Kind::Histogram, Stability::Alpha, help)
                        .histogram(&[("result", result), ("jwt_issuer_hash", issuer)], durations);
                }
            }
        }
        for (issuer, series) in &issuers {
            let keys = series.keys.lock();
            if let Some(hash) = &keys.hash {
                let help = "The hash of the last fetched keys of an issuer of JSON Web Tokens.";
                let family = "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info";
                let labels = [("jwt_issuer_hash", &**issuer), ("apiserver_id_hash", &keys.server), ("hash", hash)];
                out.family(family, Kind::Gauge, Stability::Alpha, help).value(&labels, 1.0);
            }
        }
        for (issuer, series) in &issuers {
            let keys = series.keys.lock();
            for (result, time) in RESULTS.iter().zip(keys.times) {
                if let Some(time) = time {
                    let help = "Time of the last fetch of the keys of an issuer of JSON Web Tokens, by result.";
                    let family = "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds";
                    let labels =
                        [("result", *result), ("jwt_issuer_hash", issuer), ("apiserver_id_hash", &keys.server)];
                    out.family(family, Kind::Gauge, Stability::Alpha, help).value(&labels, time as f64);
                }
            }
        }
        self.reloads.write(out, &RELOADS);
    }
}
