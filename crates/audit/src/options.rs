//! The values of the flags `--audit-…`, their defaults and their validation (upstream:
//! `apiserver/pkg/server/options/audit.go`).

use pintle_value::print::{plain_float, quote};
use pintle_value::time::Duration;

const MODES: [&str; 3] = ["batch", "blocking", "blocking-strict"];
const FORMATS: [&str; 2] = ["legacy", "json"];
const VERSION: &str = "audit.k8s.io/v1";

/// The flags of audit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditOptions {
    /// `--audit-policy-file`
    pub policy_file: String,
    /// `--audit-log-…`
    pub log: LogOptions,
    /// `--audit-webhook-…`
    pub webhook: WebhookOptions,
}

/// The flags of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogOptions {
    /// `--audit-log-path`: empty for no log, `-` for standard output.
    pub path: String,
    /// `--audit-log-maxage`, in days.
    pub max_age: i64,
    /// `--audit-log-maxbackup`
    pub max_backups: i64,
    /// `--audit-log-maxsize`, in MiB.
    pub max_size: i64,
    /// `--audit-log-format`
    pub format: String,
    /// `--audit-log-compress`
    pub compress: bool,
    /// `--audit-log-version`
    pub version: String,
    /// `--audit-log-mode` and `--audit-log-batch-…`
    pub batch: BatchOptions,
    /// `--audit-log-truncate-…`
    pub truncate: TruncateOptions,
}

/// The flags of the webhook.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookOptions {
    /// `--audit-webhook-config-file`: empty for no webhook.
    pub config_file: String,
    /// `--audit-webhook-initial-backoff`
    pub initial_backoff: Duration,
    /// `--audit-webhook-version`
    pub version: String,
    /// `--audit-webhook-mode` and `--audit-webhook-batch-…`
    pub batch: BatchOptions,
    /// `--audit-webhook-truncate-…`
    pub truncate: TruncateOptions,
}

/// When requests wait for events to be recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchOptions {
    /// `-mode`: `batch`, `blocking` or `blocking-strict`.
    pub mode: String,
    /// `-batch-buffer-size`
    pub buffer_size: i64,
    /// `-batch-max-size`
    pub max_size: i64,
    /// `-batch-max-wait`
    pub max_wait: Duration,
    /// `-batch-throttle-enable`
    pub throttle_enable: bool,
    /// `-batch-throttle-qps`
    pub throttle_qps: f32,
    /// `-batch-throttle-burst`
    pub throttle_burst: i64,
}

/// How large events are truncated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TruncateOptions {
    /// `-truncate-enabled`
    pub enabled: bool,
    /// `-truncate-max-batch-size`, in bytes.
    pub max_batch_size: i64,
    /// `-truncate-max-event-size`, in bytes.
    pub max_event_size: i64,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            path: String::new(),
            max_age: 366,
            max_backups: 100,
            max_size: 100,
            format: "json".to_owned(),
            compress: false,
            version: VERSION.to_owned(),
            batch: BatchOptions {
                mode: "blocking".to_owned(),
                buffer_size: 10_000,
                max_size: 1,
                max_wait: Duration(0),
                throttle_enable: false,
                throttle_qps: 0.0,
                throttle_burst: 0,
            },
            truncate: TruncateOptions::default(),
        }
    }
}

impl Default for WebhookOptions {
    fn default() -> Self {
        Self {
            config_file: String::new(),
            initial_backoff: Duration::from_seconds(10),
            version: VERSION.to_owned(),
            batch: BatchOptions {
                mode: "batch".to_owned(),
                buffer_size: 10_000,
                max_size: 400,
                max_wait: Duration::from_seconds(30),
                throttle_enable: true,
                throttle_qps: 10.0,
                throttle_burst: 15,
            },
            truncate: TruncateOptions::default(),
        }
    }
}

impl Default for TruncateOptions {
    fn default() -> Self {
        Self { enabled: false, max_batch_size: 10 * 1024 * 1024, max_event_size: 100 * 1024 }
    }
}

impl AuditOptions {
    /// The errors of the values, with upstream's texts. Flags of a backend that is not used are not validated.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut errors = Vec::new();
        self.log.validate(&mut errors);
        if self.webhook.is_enabled() {
            let WebhookOptions { batch, truncate, version, .. } = &self.webhook;
            errors.extend(
                [batch.error("webhook"), truncate.error("webhook"), version_error(version)].into_iter().flatten(),
            );
        }
        errors
    }
}

impl LogOptions {
    /// Returns whether there is a log.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        !self.path.is_empty()
    }

    fn validate(&self, errors: &mut Vec<String>) {
        if !self.is_enabled() {
            return;
        }
        let found = [self.batch.error("log"), self.truncate.error("log"), version_error(&self.version)];
        errors.extend(found.into_iter().flatten());
        if !FORMATS.contains(&&*self.format) {
            let allowed = FORMATS.join(",");
            errors.push(format!("invalid audit log format {}, allowed formats are \"{allowed}\"", self.format));
        }
        let numbers = [("maxage", self.max_age), ("maxbackup", self.max_backups), ("maxsize", self.max_size)];
        for (flag, number) in numbers.into_iter().filter(|(_, number)| *number < 0) {
            errors.push(format!("--audit-log-{flag} {number} can't be a negative number"));
        }
    }
}

impl WebhookOptions {
    /// Returns whether there is a webhook.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        !self.config_file.is_empty()
    }

    /// Parses the version. As in upstream, it has to be a version even if there is no webhook.
    ///
    /// # Errors
    /// Returns upstream's message.
    pub fn parse_version(&self) -> Result<(), String> {
        match self.version.matches('/').count() {
            0 | 1 => Ok(()),
            _ => Err(unexpected_version(&self.version)),
        }
    }
}

impl BatchOptions {
    fn error(&self, plugin: &str) -> Option<String> {
        let mode = &self.mode;
        if !MODES.contains(&&**mode) {
            let allowed = MODES.join(",");
            return Some(format!("invalid audit {plugin} mode {mode}, allowed modes are \"{allowed}\""));
        }
        if mode != "batch" {
            return None;
        }
        let invalid = |what: &str, value: &dyn std::fmt::Display| {
            Some(format!("invalid audit batch {plugin} {what} {value}, must be a positive number"))
        };
        match self {
            Self { buffer_size: size @ ..=0, .. } => invalid("buffer size", size),
            Self { max_size: size @ ..=0, .. } => invalid("max batch size", size),
            Self { throttle_enable: false, .. } => None,
            Self { throttle_qps, .. } if *throttle_qps <= 0.0 => {
                // The shortest text of the 32-bit number.
                let qps = throttle_qps.to_string().parse().unwrap_or(f64::from(*throttle_qps));
                invalid("throttle QPS", &plain_float(qps))
            }
            Self { throttle_burst: burst @ ..=0, .. } => invalid("throttle burst", burst),
            _ => None,
        }
    }
}

impl TruncateOptions {
    fn error(&self, plugin: &str) -> Option<String> {
        let Self { max_batch_size, max_event_size, .. } = self;
        let invalid = format!("invalid audit truncate {plugin} max");
        if *max_event_size <= 0 {
            return Some(format!("{invalid} event size {max_event_size}, must be a positive number"));
        }
        (max_batch_size < max_event_size).then(|| {
            format!("{invalid} batch size {max_batch_size}, must be greater than max event size ({max_event_size})")
        })
    }
}

fn version_error(version: &str) -> Option<String> {
    match version {
        VERSION => None,
        text if text.matches('/').count() > 1 => Some(unexpected_version(text)),
        _ => Some(format!("invalid group version, allowed versions are [{}]", quote(VERSION))),
    }
}

fn unexpected_version(text: &str) -> String {
    format!("unexpected GroupVersion string: {text}")
}
