//! The metrics of the reloads of the audit policy. Upstream does not reload it; their names follow its other metrics.

use pintle_metrics::Stability;

use super::config_reloads::ReloadFamilies;

/// The metrics of reloads.
pub(super) const RELOADS: ReloadFamilies = ReloadFamilies {
    total: "apiserver_audit_policy_config_controller_automatic_reloads_total",
    last: "apiserver_audit_policy_config_controller_automatic_reload_last_timestamp_seconds",
    info: "apiserver_audit_policy_config_controller_last_config_info",
    what: "audit policy",
    stability: Stability::Alpha,
    label: None,
};
