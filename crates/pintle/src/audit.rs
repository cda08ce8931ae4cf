//! Audit: the policy, and the places where events are recorded (upstream: `AuditOptions.ApplyTo`). Other than upstream,
//! the server reads the policy file again when it changes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pintle_audit::{AuditBackend, AuditMetrics, AuditOptions, Auditor, Policy, Sink};
use pintle_locks::Mutex;
use pintle_server::{ApiServer, AuditWebhook, EgressSelector};

use crate::config_file::{FollowedConfiguration, FollowedFile};

/// Valid options with their policy, before anything is opened.
#[derive(Debug)]
pub(crate) struct AuditSetup {
    options: AuditOptions,
    policy: Option<(Policy, FollowedFile)>,
}

/// A running audit, and the file of its policy.
#[derive(Debug)]
pub(crate) struct RunningAudit {
    pub(crate) auditor: Arc<Auditor>,
    policy_file: FollowedFile,
}

impl AuditSetup {
    /// Reads the policy file.
    ///
    /// # Errors
    /// Returns upstream's message.
    pub(crate) fn load(options: AuditOptions) -> Result<Self, String> {
        if options.policy_file.is_empty() {
            return Ok(Self { options, policy: None });
        }
        let path = Path::new(&options.policy_file);
        // The file is read twice. A change between both reads is found as every later change.
        let file = FollowedFile::open(path);
        let policy = Policy::read(path)?;
        warn_of_ignored_fields(&policy);
        let policy = Some((policy, file?));
        Ok(Self { options, policy })
    }

    /// Opens the log and the webhook; `None` if nothing is to be recorded. As in upstream, the file of the log is
    /// created even without a policy.
    ///
    /// # Errors
    /// Returns upstream's message.
    pub(crate) fn open(self, egress: &EgressSelector) -> Result<Option<RunningAudit>, String> {
        let Self { options, policy } = self;
        let metrics = Arc::default();
        let webhook = match &policy {
            Some(_) if options.webhook.is_enabled() => Some(open_webhook(&options, egress, &metrics)?),
            _ => None,
        };
        let backend = AuditBackend::open(&options, webhook, &metrics)?;
        options.webhook.parse_version()?;
        let Some((policy, policy_file)) = policy else {
            for (backend, is_enabled) in [("log", options.log.is_enabled()), ("webhook", options.webhook.is_enabled())]
            {
                if is_enabled {
                    tracing::warn!(
                        target: "pintle::start",
                        backend,
                        "No audit policy file provided, no events will be recorded"
                    );
                }
            }
            return Ok(None);
        };
        Ok(backend.map(|backend| RunningAudit { auditor: Auditor::new(policy, backend, metrics), policy_file }))
    }
}

fn open_webhook(
    options: &AuditOptions,
    egress: &EgressSelector,
    metrics: &Arc<AuditMetrics>,
) -> Result<Arc<dyn Sink>, String> {
    let first_delay = Duration::from_nanos(u64::try_from(options.webhook.initial_backoff.0).unwrap_or_default());
    let webhook = AuditWebhook::load(Path::new(&options.webhook.config_file), first_delay, egress, metrics)?;
    Ok(Arc::new(webhook))
}

fn warn_of_ignored_fields(policy: &Policy) {
    if let Some(warning) = policy.warning() {
        tracing::warn!(warning, "The audit policy has fields that are ignored");
    }
}

/// Follows the policy file of a running server.
pub(crate) struct AuditPolicyReload {
    auditor: Arc<Auditor>,
    file: Mutex<FollowedFile>,
    api_server: Arc<ApiServer>,
    /// The server's identity. Metrics show its hash.
    server: String,
}

impl AuditPolicyReload {
    /// Prepares the reload, for the server with this identity.
    pub(crate) fn new(audit: RunningAudit, api_server: &Arc<ApiServer>, server: String) -> Arc<Self> {
        let RunningAudit { auditor, policy_file } = audit;
        let reload = Self { auditor, file: Mutex::new(policy_file), api_server: api_server.clone(), server };
        reload.record(Some(reload.file.lock().text()));
        Arc::new(reload)
    }
}

impl FollowedConfiguration for AuditPolicyReload {
    const NAME: &'static str = "audit policy";

    async fn check(&self) -> Result<Option<Vec<u8>>, String> {
        let mut file = self.file.lock();
        let Some(text) = file.changed()? else { return Ok(None) };
        let policy = Policy::parse(text)?;
        warn_of_ignored_fields(&policy);
        self.auditor.set_policy(policy);
        Ok(Some(text.to_vec()))
    }

    fn record(&self, text: Option<&[u8]>) {
        self.api_server.record_audit_policy_reload(&self.server, text);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pintle_audit::LogOptions;

    use super::*;

    fn open(options: AuditOptions) -> Result<bool, String> {
        Ok(AuditSetup::load(options)?.open(&EgressSelector::default())?.is_some())
    }

    #[tokio::test]
    async fn nothing_is_recorded_without_a_policy_but_the_log_is_created() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let log = |name: &str| LogOptions { path: path(name), ..LogOptions::default() };
        assert_eq!(open(AuditOptions::default()), Ok(false));
        assert_eq!(open(AuditOptions { log: log("a/audit.log"), ..AuditOptions::default() }), Ok(false));
        assert_eq!(fs::read(path("a/audit.log")).ok(), Some(Vec::new()));
        // Without a policy the kubeconfig is not read.
        let mut options = AuditOptions::default();
        options.webhook.config_file = path("missing");
        assert_eq!(open(options.clone()), Ok(false));
        options.webhook.version = "a/b/c".to_owned();
        assert_eq!(open(options), Err("unexpected GroupVersion string: a/b/c".to_owned()));
    }

    #[tokio::test]
    async fn a_policy_needs_a_place_where_events_are_recorded() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        fs::write(path("policy"), "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
            .expect("a file");
        let mut options = AuditOptions { policy_file: path("policy"), ..AuditOptions::default() };
        assert_eq!(open(options.clone()), Ok(false));
        options.log.path = path("audit.log");
        assert_eq!(open(options.clone()), Ok(true));
        options.webhook.config_file = path("missing");
        let missing = format!("initializing audit webhook: stat {}: no such file or directory", path("missing"));
        assert_eq!(open(options.clone()), Err(missing));
        fs::write(path("policy"), "apiVersion: audit.k8s.io/v1\nkind: Policy\n").expect("a file");
        let empty = "loading audit policy file: loaded illegal policy with 0 rules: from file";
        assert_eq!(open(options), Err(format!("{empty} {}", path("policy"))));
    }
}
