//! Admission webhooks: the plugins `MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook` (upstream:
//! `admission/plugin/webhook`). They decide which webhooks see a write, encode their reviews and interpret their answers.
//! The server calls the webhooks ([`WebhookCaller`](crate::webhook::WebhookCaller)).
//!
//! - `configuration`: the configuration of the plugins.
//! - `source`: the webhooks of the stored configurations, compiled.
//! - `conditions`: their match conditions.
//! - `review`: the requests to webhooks and their answers.
//! - `call`: one call of a webhook, and how it fails.
//! - `plugin`: the common part of the plugins.
//! - `mutating`, `validating`: how the webhooks of a type are called.

mod call;
mod conditions;
mod configuration;
mod metrics;
mod mutating;
mod plugin;
mod review;
mod source;
#[cfg(test)]
mod tests;
mod validating;

use self::plugin::WebhookPlugin;
use super::{BuiltPlugin, PluginOptions};

/// Builds the plugin `MutatingAdmissionWebhook`.
pub(super) fn build_mutating(options: &PluginOptions<'_>) -> BuiltPlugin {
    WebhookPlugin::<mutating::Mutating>::build(options)
}

/// Builds the plugin `ValidatingAdmissionWebhook`.
pub(super) fn build_validating(options: &PluginOptions<'_>) -> BuiltPlugin {
    WebhookPlugin::<validating::Validating>::build(options)
}
