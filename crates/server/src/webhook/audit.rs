//! The webhook that receives audit events (upstream: `apiserver/plugin/pkg/audit/webhook`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pintle_audit::{AuditMetrics, Event, Sink, SinkFuture, event_list_json};
use pintle_store::{Clock as _, SystemClock};

use super::kubeconfig_webhook::{Backoff, KubeconfigWebhook};
use super::{check_response, transport_error_message};
use crate::egress::{EgressSelector, EgressType};

const PLUGIN: &str = "webhook";
/// The time limit of an attempt.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Sends audit events to a webhook, as one list. As in upstream, a call is repeated after any error. The server's clock is
/// not used, because events are delivered even when a test has stopped that clock.
pub struct AuditWebhook {
    webhook: KubeconfigWebhook,
    first_delay: Duration,
    metrics: Arc<AuditMetrics>,
}

impl AuditWebhook {
    /// The webhook of a kubeconfig. `first_delay` is the delay before the first retry.
    ///
    /// # Errors
    /// The kubeconfig cannot be used; with upstream's message.
    pub fn load(
        kubeconfig: &Path,
        first_delay: Duration,
        egress: &EgressSelector,
        metrics: &Arc<AuditMetrics>,
    ) -> Result<Self, String> {
        let dialer = egress.dialer(EgressType::ControlPlane);
        let webhook = KubeconfigWebhook::load(kubeconfig, TIMEOUT, dialer)
            .map_err(|error| format!("initializing audit webhook: {error}"))?;
        Ok(Self { webhook, first_delay, metrics: metrics.clone() })
    }

    async fn send(&self, events: &[Arc<Event>]) -> Result<(), String> {
        let list = Bytes::from(event_list_json(events).map_err(|error| error.to_string())?);
        let mut delays = Backoff::new(self.first_delay);
        loop {
            let Err(error) = self.attempt(&list).await else { return Ok(()) };
            let Some(delay) = delays.next() else { return Err(error) };
            SystemClock.sleep(delay).await;
        }
    }

    /// Sends a list once. The content of a successful response does not count.
    async fn attempt(&self, list: &Bytes) -> Result<(), String> {
        let response = self.webhook.post(&SystemClock, list, Duration::MAX).await;
        check_response(&response.map_err(|error| transport_error_message(&error))?)
    }
}

impl Sink for AuditWebhook {
    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> SinkFuture<'a, bool> {
        SinkFuture::boxed(async move {
            let sent = self.send(events).await;
            if let Err(error) = &sent {
                self.metrics.record_failure(PLUGIN, error, events);
            }
            sent.is_ok()
        })
    }
}
