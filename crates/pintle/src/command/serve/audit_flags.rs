//! The flags of audit, with kube-apiserver's names.

use clap::ArgAction;
use pintle_audit::{AuditOptions, BatchOptions, LogOptions, TruncateOptions, WebhookOptions};
use pintle_value::time::Duration;

/// Defines the flags that the log and the webhook have in common, and their values.
macro_rules! backend_flags {
    ($name:ident, $plugin:literal, $defaults:ident) => {
        /// The flags of the mode and the truncation of a backend.
        #[derive(clap::Args)]
        struct $name {
            #[arg(id = concat!($plugin, "-mode"), long = concat!("audit-", $plugin, "-mode"), value_name = "MODE",
                default_value_t = $defaults::default().batch.mode,
                help = concat!("When events go to the audit ", $plugin, ". 'blocking': before the request goes on. \
                    'blocking-strict': the same, and a request is refused if its first event is not recorded. 'batch': \
                    later, from a buffer"))]
            mode: String,
            #[arg(id = concat!($plugin, "-buffer-size"), long = concat!("audit-", $plugin, "-batch-buffer-size"),
                value_name = "N", default_value_t = $defaults::default().batch.buffer_size,
                allow_negative_numbers = true,
                help = "Number of events that the buffer holds. Only used in batch mode")]
            buffer_size: i64,
            #[arg(id = concat!($plugin, "-batch-size"), long = concat!("audit-", $plugin, "-batch-max-size"),
                value_name = "N", default_value_t = $defaults::default().batch.max_size,
                allow_negative_numbers = true,
                help = "Maximum number of events of a batch. Only used in batch mode")]
            batch_size: i64,
            #[arg(id = concat!($plugin, "-batch-wait"), long = concat!("audit-", $plugin, "-batch-max-wait"),
                value_name = "DURATION", default_value_t = $defaults::default().batch.max_wait,
                value_parser = parse_any_duration, allow_hyphen_values = true,
                help = "How long a batch waits until it is full. Only used in batch mode")]
            batch_wait: Duration,
            #[arg(id = concat!($plugin, "-throttle"), long = concat!("audit-", $plugin, "-batch-throttle-enable"),
                value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
                default_value_t = $defaults::default().batch.throttle_enable, action = ArgAction::Set,
                help = "Whether the rate of batches is limited. Only used in batch mode")]
            throttle: bool,
            #[arg(id = concat!($plugin, "-qps"), long = concat!("audit-", $plugin, "-batch-throttle-qps"),
                value_name = "RATE", default_value_t = $defaults::default().batch.throttle_qps,
                allow_negative_numbers = true,
                help = "Maximum average number of batches per second. Only used in batch mode")]
            qps: f32,
            #[arg(id = concat!($plugin, "-burst"), long = concat!("audit-", $plugin, "-batch-throttle-burst"),
                value_name = "N", default_value_t = $defaults::default().batch.throttle_burst,
                allow_negative_numbers = true,
                help = "Maximum number of batches at the same moment after a time without batches. Only used in batch mode")]
            burst: i64,
            #[arg(id = concat!($plugin, "-truncate"), long = concat!("audit-", $plugin, "-truncate-enabled"),
                value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
                default_value_t = $defaults::default().truncate.enabled, action = ArgAction::Set,
                help = "Whether large events and batches are truncated")]
            truncate: bool,
            #[arg(id = concat!($plugin, "-batch-bytes"),
                long = concat!("audit-", $plugin, "-truncate-max-batch-size"), value_name = "BYTES",
                default_value_t = $defaults::default().truncate.max_batch_size, allow_negative_numbers = true,
                help = "Maximum size of a batch, in bytes. A larger batch is split. Only used with truncation")]
            batch_bytes: i64,
            #[arg(id = concat!($plugin, "-event-bytes"),
                long = concat!("audit-", $plugin, "-truncate-max-event-size"), value_name = "BYTES",
                default_value_t = $defaults::default().truncate.max_event_size, allow_negative_numbers = true,
                help = "Maximum size of an event, in bytes. A larger event loses its objects. If it is still larger, it is \
                    not recorded. Only used with truncation")]
            event_bytes: i64,
        }

        impl $name {
            fn options(self) -> (BatchOptions, TruncateOptions) {
                let batch = BatchOptions {
                    mode: self.mode,
                    buffer_size: self.buffer_size,
                    max_size: self.batch_size,
                    max_wait: self.batch_wait,
                    throttle_enable: self.throttle,
                    throttle_qps: self.qps,
                    throttle_burst: self.burst,
                };
                let truncate = TruncateOptions {
                    enabled: self.truncate,
                    max_batch_size: self.batch_bytes,
                    max_event_size: self.event_bytes,
                };
                (batch, truncate)
            }
        }
    };
}

backend_flags!(LogBackendFlags, "log", LogOptions);
backend_flags!(WebhookBackendFlags, "webhook", WebhookOptions);

/// The flags of audit.
#[derive(clap::Args)]
pub(crate) struct AuditFlags {
    /// The file with the audit policy, which decides which requests are recorded. It is read again when it changes.
    /// Without a policy, nothing is recorded.
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    audit_policy_file: String,
    /// The file of the audit log. '-' is standard output.
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    audit_log_path: String,
    /// The age in days at which old audit logs are removed. 0 for never.
    #[arg(long, value_name = "DAYS", default_value_t = LogOptions::default().max_age, allow_negative_numbers = true)]
    audit_log_maxage: i64,
    /// Maximum number of old audit logs that are kept. 0 for no limit.
    #[arg(long, value_name = "N", default_value_t = LogOptions::default().max_backups, allow_negative_numbers = true)]
    audit_log_maxbackup: i64,
    /// The size in MiB at which the audit log is rotated. 0 for never.
    #[arg(long, value_name = "MIB", default_value_t = LogOptions::default().max_size, allow_negative_numbers = true)]
    audit_log_maxsize: i64,
    /// The format of the audit log: json or legacy, which is a line of text for each event.
    #[arg(long, value_name = "FORMAT", default_value_t = LogOptions::default().format)]
    audit_log_format: String,
    /// Whether old audit logs are compressed with gzip.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = false, action = ArgAction::Set)]
    audit_log_compress: bool,
    /// The API version of the events in the audit log.
    #[arg(long, value_name = "VERSION", default_value_t = LogOptions::default().version)]
    audit_log_version: String,
    #[command(flatten)]
    log: LogBackendFlags,
    /// The kubeconfig of a webhook that receives audit events.
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    audit_webhook_config_file: String,
    /// The delay before the first retry of a failed call of the audit webhook.
    #[arg(long, value_name = "DURATION", default_value_t = WebhookOptions::default().initial_backoff,
        value_parser = parse_any_duration, allow_hyphen_values = true)]
    audit_webhook_initial_backoff: Duration,
    /// Old name of --audit-webhook-initial-backoff (deprecated).
    #[arg(long, value_name = "DURATION", default_value_t = WebhookOptions::default().initial_backoff,
        value_parser = parse_any_duration, allow_hyphen_values = true)]
    audit_webhook_batch_initial_backoff: Duration,
    /// The API version of the events that the audit webhook receives.
    #[arg(long, value_name = "VERSION", default_value_t = WebhookOptions::default().version)]
    audit_webhook_version: String,
    #[command(flatten)]
    webhook: WebhookBackendFlags,
}

/// Parses a duration in Go's syntax, which may be negative.
fn parse_any_duration(text: &str) -> Result<Duration, String> {
    Duration::parse(text).map_err(|error| error.to_string())
}

impl AuditFlags {
    /// The options of audit.
    ///
    /// # Errors
    /// Values are invalid; with upstream's message.
    pub(crate) fn options(self) -> Result<AuditOptions, String> {
        let default_backoff = WebhookOptions::default().initial_backoff;
        let initial_backoff = [self.audit_webhook_initial_backoff, self.audit_webhook_batch_initial_backoff]
            .into_iter()
            .find(|backoff| *backoff != default_backoff);
        let (log_batch, log_truncate) = self.log.options();
        let (webhook_batch, webhook_truncate) = self.webhook.options();
        let options = AuditOptions {
            policy_file: self.audit_policy_file,
            log: LogOptions {
                path: self.audit_log_path,
                max_age: self.audit_log_maxage,
                max_backups: self.audit_log_maxbackup,
                max_size: self.audit_log_maxsize,
                format: self.audit_log_format,
                compress: self.audit_log_compress,
                version: self.audit_log_version,
                batch: log_batch,
                truncate: log_truncate,
            },
            webhook: WebhookOptions {
                config_file: self.audit_webhook_config_file,
                initial_backoff: initial_backoff.unwrap_or(default_backoff),
                version: self.audit_webhook_version,
                batch: webhook_batch,
                truncate: webhook_truncate,
            },
        };
        match options.validate().as_slice() {
            [] => Ok(options),
            [error] => Err(error.clone()),
            errors => Err(format!("[{}]", errors.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        audit: AuditFlags,
    }

    fn parse(line: &str) -> Result<AuditOptions, String> {
        let arguments = std::iter::once("serve").chain(line.split_whitespace());
        CommandLine::try_parse_from(arguments).expect("flags").audit.options()
    }

    #[test]
    fn without_flags_the_options_have_their_defaults() {
        assert_eq!(parse(""), Ok(AuditOptions::default()));
    }

    #[test]
    fn each_flag_has_its_option() {
        let batch = |seconds, max_size, mode: &str| BatchOptions {
            mode: mode.to_owned(),
            buffer_size: 2,
            max_size,
            max_wait: Duration::from_seconds(seconds),
            throttle_enable: true,
            throttle_qps: 0.5,
            throttle_burst: 5,
        };
        let truncate = |max_batch_size| TruncateOptions { enabled: true, max_batch_size, max_event_size: 7 };
        let expect = AuditOptions {
            policy_file: "/p".to_owned(),
            log: LogOptions {
                path: "-".to_owned(),
                max_age: 1,
                max_backups: 2,
                max_size: 3,
                format: "legacy".to_owned(),
                compress: true,
                version: "audit.k8s.io/v1".to_owned(),
                batch: batch(4, 3, "batch"),
                truncate: truncate(8),
            },
            webhook: WebhookOptions {
                config_file: "/w".to_owned(),
                initial_backoff: Duration::from_seconds(1),
                version: "audit.k8s.io/v1".to_owned(),
                batch: batch(-1, 4, "blocking-strict"),
                truncate: truncate(9),
            },
        };
        let found = parse(
            "--audit-policy-file /p --audit-log-path - --audit-log-maxage 1 --audit-log-maxbackup=2 \
             --audit-log-maxsize 3 --audit-log-format legacy --audit-log-compress --audit-log-version audit.k8s.io/v1 \
             --audit-log-mode batch --audit-log-batch-buffer-size 2 --audit-log-batch-max-size 3 \
             --audit-log-batch-max-wait 4s --audit-log-batch-throttle-enable=true --audit-log-batch-throttle-qps 0.5 \
             --audit-log-batch-throttle-burst 5 --audit-log-truncate-enabled --audit-log-truncate-max-batch-size 8 \
             --audit-log-truncate-max-event-size 7 --audit-webhook-config-file /w --audit-webhook-initial-backoff 1s \
             --audit-webhook-version audit.k8s.io/v1 --audit-webhook-mode blocking-strict \
             --audit-webhook-batch-buffer-size 2 --audit-webhook-batch-max-size 4 --audit-webhook-batch-max-wait -1s \
             --audit-webhook-batch-throttle-enable --audit-webhook-batch-throttle-qps 0.5 \
             --audit-webhook-batch-throttle-burst 5 --audit-webhook-truncate-enabled \
             --audit-webhook-truncate-max-batch-size 9 --audit-webhook-truncate-max-event-size 7",
        );
        assert_eq!(found, Ok(expect));
        let old_name = parse("--audit-webhook-batch-initial-backoff 2s").expect("options");
        assert_eq!(old_name.webhook.initial_backoff, Duration::from_seconds(2));
    }

    #[test]
    fn all_errors_are_reported_together() {
        let mode = "invalid audit log mode x, allowed modes are \"batch,blocking,blocking-strict\"";
        assert_eq!(parse("--audit-log-path - --audit-log-mode x"), Err(mode.to_owned()));
        let size = "--audit-log-maxsize -1 can't be a negative number";
        let found = parse("--audit-log-path - --audit-log-mode x --audit-log-maxsize -1");
        assert_eq!(found, Err(format!("[{mode}, {size}]")));
        assert!(parse("--audit-log-mode x --audit-log-maxsize -1").is_ok());
    }
}
