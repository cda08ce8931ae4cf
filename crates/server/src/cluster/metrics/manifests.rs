//! The metrics of the files with webhooks and policies, by plugin (upstream: `admission/plugin/manifest/metrics`).

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_locks::Mutex;
use pintle_metrics::{Exposition, Stability};

use super::config_reloads::{ConfigReloads, ReloadFamilies};

/// The reloads of the files of each plugin.
#[derive(Debug, Default)]
pub(super) struct ManifestMetrics(Mutex<BTreeMap<&'static str, Arc<ConfigReloads>>>);

impl ManifestMetrics {
    /// The reloads of the files of a plugin.
    pub(super) fn of(&self, plugin: &'static str) -> Arc<ConfigReloads> {
        self.0.lock().entry(plugin).or_default().clone()
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        for (plugin, reloads) in &*self.0.lock() {
            let families = ReloadFamilies {
                total: "apiserver_manifest_admission_config_controller_automatic_reloads_total",
                last: "apiserver_manifest_admission_config_controller_automatic_reload_last_timestamp_seconds",
                info: "apiserver_manifest_admission_config_controller_last_config_info",
                what: "admission manifest",
                stability: Stability::Alpha,
                label: Some(("plugin", plugin)),
            };
            reloads.write(out, &families);
        }
    }
}
