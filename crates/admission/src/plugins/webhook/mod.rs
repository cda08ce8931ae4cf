//! Admission webhooks: the plugins `MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook` (upstream:
//! `admission/plugin/webhook`). They decide which webhooks see a write, encode their reviews and interpret their answers.
//! The server calls the webhooks ([`WebhookCaller`](crate::webhook::WebhookCaller)).
//!
//! - `configuration`: the configuration of the plugins.
//! - `source`: the webhooks of the stored configurations, compiled.
//! - `conditions`: their match conditions.
//! - `review`: the requests to webhooks and their answers.
//! - `call`: one call of a webhook, and how it fails.
//! - `mutating`, `validating`: the plugins.

mod call;
mod conditions;
mod configuration;
mod metrics;
mod mutating;
mod review;
mod source;
#[cfg(test)]
mod tests;
mod validating;

pub(crate) use self::mutating::MutatingAdmissionWebhook;
pub(crate) use self::validating::ValidatingAdmissionWebhook;
