//! The flags of authorization, with kube-apiserver's names.

use std::path::PathBuf;
use std::time::Duration;

use pintle::{AuthorizationMode, AuthorizationOptions};

use super::parse_duration;

/// The default modes, which every installer of Kubernetes sets. kube-apiserver's own default allows everything.
const DEFAULT_MODES: [AuthorizationMode; 2] = [AuthorizationMode::Node, AuthorizationMode::Rbac];

/// The flags of authorization.
#[derive(clap::Args)]
pub(crate) struct AuthorizationFlags {
    /// Ordered list of plug-ins to do authorization on secure port, comma separated: AlwaysAllow, AlwaysDeny, ABAC,
    /// Webhook, RBAC, Node [default: Node,RBAC, if --authorization-config is not used].
    #[arg(long, value_name = "MODE,...", value_delimiter = ',')]
    authorization_mode: Option<Vec<AuthorizationMode>>,
    /// File with Authorization Configuration to configure the authorizer chain. It is read again when it changes. This
    /// flag is mutually exclusive with the other --authorization-mode and --authorization-webhook-* flags.
    #[arg(long, value_name = "FILE")]
    authorization_config: Option<PathBuf>,
    /// File with authorization policy in json line by line format, used with --authorization-mode=ABAC.
    #[arg(long, value_name = "FILE")]
    authorization_policy_file: Option<PathBuf>,
    /// File with webhook configuration in kubeconfig format, used with --authorization-mode=Webhook.
    #[arg(long, value_name = "FILE")]
    authorization_webhook_config_file: Option<PathBuf>,
    /// The API version of the authorization.k8s.io SubjectAccessReview to send to and expect from the webhook
    /// [default: v1beta1].
    #[arg(long, value_name = "VERSION")]
    authorization_webhook_version: Option<String>,
    /// The duration to cache 'authorized' responses from the webhook authorizer [default: 5m0s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    authorization_webhook_cache_authorized_ttl: Option<Duration>,
    /// The duration to cache 'unauthorized' responses from the webhook authorizer [default: 30s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    authorization_webhook_cache_unauthorized_ttl: Option<Duration>,
}

impl AuthorizationFlags {
    /// The authorizers, and the options of authorizers with files or a webhook.
    ///
    /// # Errors
    /// Flags exclude each other.
    pub(crate) fn options(self) -> Result<(Vec<AuthorizationMode>, AuthorizationOptions), String> {
        let has_other_flags = self.authorization_mode.is_some()
            || self.authorization_webhook_config_file.is_some()
            || self.authorization_webhook_version.is_some()
            || self.authorization_webhook_cache_authorized_ttl.is_some()
            || self.authorization_webhook_cache_unauthorized_ttl.is_some();
        if self.authorization_config.is_some() && has_other_flags {
            let conflict = "--authorization-mode or --authorization-webhook-* flags";
            return Err(format!("--authorization-config can not be specified when {conflict} are defined"));
        }
        let defaults = AuthorizationOptions::default();
        let options = AuthorizationOptions {
            config_file: self.authorization_config,
            policy_file: self.authorization_policy_file,
            webhook_config_file: self.authorization_webhook_config_file,
            webhook_version: self.authorization_webhook_version.unwrap_or(defaults.webhook_version),
            webhook_authorized_ttl: self
                .authorization_webhook_cache_authorized_ttl
                .unwrap_or(defaults.webhook_authorized_ttl),
            webhook_unauthorized_ttl: self
                .authorization_webhook_cache_unauthorized_ttl
                .unwrap_or(defaults.webhook_unauthorized_ttl),
        };
        Ok((self.authorization_mode.unwrap_or_else(|| DEFAULT_MODES.to_vec()), options))
    }
}
