//! The chain of authorizers. It is built from flags or from a configuration file, which is read again when it changes
//! (upstream: `pkg/kubeapiserver/options/authorization.go`, `pkg/kubeapiserver/authorizer`).

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pintle_auth::authorization_config::{
    self, AuthorizationConfiguration, AuthorizationWebhook, AuthorizerConfig, built_in_name,
};
use pintle_auth::user::SYSTEM_PRIVILEGED_GROUP;
use pintle_auth::{AbacAuthorizer, AlwaysAllow, AlwaysDeny, Authorizer, PrivilegedGroup, UnionAuthorizer};
use pintle_locks::Mutex;
use pintle_server::{
    Cluster, CountedAuthorizer, NodeAuthorizer, RbacAuthorizer, ReloadableAuthorizer, WebhookAuthorizer,
    record_authorization_reload,
};
use pintle_value::Str;

use crate::config_file::{FollowedConfiguration, FollowedFile, is_regular_file, read};

/// The name of the authorizer that allows `system:masters` everything.
const PRIVILEGED_GROUP_NAME: &str = "system-privileged-group.authorizer.kubernetes.io";
/// The name of the webhook that the flags configure.
const WEBHOOK_NAME: &str = "default";
/// The time limit of calls to the webhook that the flags configure, in seconds.
const WEBHOOK_TIMEOUT: i64 = 30;

/// An authorizer (`--authorization-mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthorizationMode {
    /// Allows everything.
    AlwaysAllow,
    /// Allows nothing.
    AlwaysDeny,
    /// Decides by the ABAC policies in a file.
    Abac,
    /// Asks a webhook.
    Webhook,
    /// Decides by roles and bindings.
    Rbac,
    /// Decides about nodes by the objects that their pods refer to.
    Node,
}

impl AuthorizationMode {
    /// All modes, in upstream's order.
    pub const ALL: [Self; 6] = [Self::AlwaysAllow, Self::AlwaysDeny, Self::Abac, Self::Webhook, Self::Rbac, Self::Node];

    /// The name in flags and configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AlwaysAllow => "AlwaysAllow",
            Self::AlwaysDeny => "AlwaysDeny",
            Self::Abac => "ABAC",
            Self::Webhook => "Webhook",
            Self::Rbac => "RBAC",
            Self::Node => "Node",
        }
    }
}

impl fmt::Display for AuthorizationMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AuthorizationMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| format!("authorization-mode {text:?} is not a valid mode"))
    }
}

/// The files and the webhook of authorizers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationOptions {
    /// The file with the chain, instead of modes (`--authorization-config`).
    pub config_file: Option<PathBuf>,
    /// The file with ABAC policies (`--authorization-policy-file`).
    pub policy_file: Option<PathBuf>,
    /// The kubeconfig of the webhook (`--authorization-webhook-config-file`).
    pub webhook_config_file: Option<PathBuf>,
    /// The version of reviews that the webhook gets (`--authorization-webhook-version`).
    pub webhook_version: String,
    /// How long the webhook's answers that allow a request are cached (`--authorization-webhook-cache-authorized-ttl`).
    pub webhook_authorized_ttl: Duration,
    /// How long the webhook's other answers are cached (`--authorization-webhook-cache-unauthorized-ttl`).
    pub webhook_unauthorized_ttl: Duration,
}

impl Default for AuthorizationOptions {
    /// kube-apiserver's defaults.
    fn default() -> Self {
        Self {
            config_file: None,
            policy_file: None,
            webhook_config_file: None,
            webhook_version: "v1beta1".to_owned(),
            webhook_authorized_ttl: Duration::from_secs(300),
            webhook_unauthorized_ttl: Duration::from_secs(30),
        }
    }
}

impl AuthorizationOptions {
    /// Checks the modes and files, with upstream's messages.
    fn validate(&self, modes: &[AuthorizationMode]) -> Result<(), String> {
        let mut errors = Vec::new();
        if modes.is_empty() {
            errors.push("at least one authorization-mode must be passed".to_owned());
        }
        let has = |mode: AuthorizationMode| modes.contains(&mode);
        for mode in modes {
            if *mode == AuthorizationMode::Abac && self.policy_file.is_none() {
                errors.push("authorization-mode ABAC's authorization policy file not passed".to_owned());
            }
            if *mode == AuthorizationMode::Webhook && self.webhook_config_file.is_none() {
                errors.push("authorization-mode Webhook's authorization config file not passed".to_owned());
            }
        }
        if self.policy_file.is_some() && !has(AuthorizationMode::Abac) {
            errors.push("cannot specify --authorization-policy-file without mode ABAC".to_owned());
        }
        if self.webhook_config_file.is_some() && !has(AuthorizationMode::Webhook) {
            errors.push("cannot specify --authorization-webhook-config-file without mode Webhook".to_owned());
        }
        if modes.iter().collect::<HashSet<_>>().len() != modes.len() {
            let modes: Vec<_> = modes.iter().map(|mode| format!("{:?}", mode.name())).collect();
            errors.push(format!("authorization-mode [{}] has mode specified more than once", modes.join(" ")));
        }
        match &*errors {
            [] => Ok(()),
            [error] => Err(error.clone()),
            errors => Err(format!("[{}]", errors.join(", "))),
        }
    }

    /// The chain that the flags describe.
    fn configuration(&self, modes: &[AuthorizationMode]) -> AuthorizationConfiguration {
        let authorizer = |mode: &AuthorizationMode| match mode {
            AuthorizationMode::Webhook => AuthorizerConfig {
                kind: mode.name().into(),
                name: WEBHOOK_NAME.into(),
                webhook: self.webhook_config_file.as_ref().map(|file| self.webhook(file)),
            },
            mode => {
                AuthorizerConfig { kind: mode.name().into(), name: built_in_name(mode.name()).into(), webhook: None }
            }
        };
        AuthorizationConfiguration { authorizers: modes.iter().map(authorizer).collect() }
    }

    fn webhook(&self, file: &Path) -> AuthorizationWebhook {
        let duration =
            |duration: Duration| pintle_value::time::Duration(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX));
        AuthorizationWebhook {
            authorized_ttl: duration(self.webhook_authorized_ttl),
            cache_authorized: !self.webhook_authorized_ttl.is_zero(),
            unauthorized_ttl: duration(self.webhook_unauthorized_ttl),
            cache_unauthorized: !self.webhook_unauthorized_ttl.is_zero(),
            timeout: pintle_value::time::Duration::from_seconds(WEBHOOK_TIMEOUT),
            review_version: self.webhook_version.as_str().into(),
            match_condition_version: Str::default(),
            failure_policy: "NoOpinion".into(),
            connection_type: "KubeConfigFile".into(),
            kubeconfig_file: Some(file.to_string_lossy().into()),
            match_conditions: Vec::new(),
        }
    }

    /// Reads the files, and checks everything that can be checked without a cluster.
    ///
    /// # Errors
    /// Returns upstream's message.
    pub(crate) fn load(&self, modes: &[AuthorizationMode]) -> Result<AuthorizerChain, String> {
        let (configuration, file) = match &self.config_file {
            Some(path) => {
                let file = FollowedFile::open(path)?;
                let configuration = authorization_config::load(file.text(), &[], &is_regular_file)?;
                (configuration, Some(file))
            }
            None => {
                self.validate(modes)?;
                (self.configuration(modes), None)
            }
        };
        let has_abac = configuration.authorizers.iter().any(|authorizer| authorizer.kind == "ABAC");
        let abac = has_abac.then(|| {
            let path = self.policy_file.as_deref().unwrap_or(Path::new(""));
            let text = String::from_utf8_lossy(&read(path)?).into_owned();
            AbacAuthorizer::parse(&path.to_string_lossy(), &text).map_err(|error| error.to_string())
        });
        Ok(AuthorizerChain { configuration, abac: abac.transpose()?, file })
    }
}

/// A chain of authorizers, before the cluster exists.
#[derive(Debug)]
pub(crate) struct AuthorizerChain {
    configuration: AuthorizationConfiguration,
    abac: Option<AbacAuthorizer>,
    /// The configuration file.
    file: Option<FollowedFile>,
}

impl AuthorizerChain {
    /// True if the chain has an authorizer of this mode.
    pub(crate) fn contains(&self, mode: AuthorizationMode) -> bool {
        self.configuration.authorizers.iter().any(|authorizer| authorizer.kind == mode.name())
    }

    /// Prepares the chain, for the server with this identity. A chain from a file can be reloaded.
    pub(crate) fn prepare(self, server: String) -> Arc<AuthorizationReload> {
        let kinds = self.configuration.authorizers.iter().map(|authorizer| authorizer.kind.clone());
        let kinds = kinds.filter(|kind| kind != AuthorizationMode::Webhook.name()).collect();
        Arc::new(AuthorizationReload {
            server,
            abac: self.abac,
            kinds,
            last: Mutex::new(LastRead { file: self.file, configuration: self.configuration }),
            running: OnceLock::new(),
        })
    }
}

/// A chain of authorizers that follows its configuration file.
pub(crate) struct AuthorizationReload {
    /// The server's identity. Metrics show its hash.
    server: String,
    abac: Option<AbacAuthorizer>,
    /// The types of the authorizers at the start, without `Webhook`. A reload can neither add nor remove one of them.
    kinds: Vec<Str>,
    last: Mutex<LastRead>,
    running: OnceLock<(Arc<Cluster>, ReloadableAuthorizer)>,
}

/// The configuration that was read last.
struct LastRead {
    file: Option<FollowedFile>,
    configuration: AuthorizationConfiguration,
}

impl AuthorizationReload {
    /// True if the chain has the RBAC authorizer.
    pub(crate) fn uses_rbac(&self) -> bool {
        self.kinds.iter().any(|kind| kind == AuthorizationMode::Rbac.name())
    }

    /// Builds the authorizers of a running cluster.
    ///
    /// # Errors
    /// An authorizer cannot be built.
    pub(crate) fn start(&self, cluster: &Arc<Cluster>) -> Result<Box<dyn Authorizer>, String> {
        let last = self.last.lock();
        let union = self.union(cluster, &last.configuration)?;
        let Some(file) = &last.file else { return Ok(Box::new(union)) };
        let authorizer = ReloadableAuthorizer::new(Arc::new(union), last.configuration.asks_webhooks());
        // A chain is started once.
        let _ = self.running.set((cluster.clone(), authorizer.clone()));
        record_authorization_reload(cluster, &self.server, Some(file.text()));
        Ok(Box::new(authorizer))
    }

    /// Builds the authorizers of a configuration. Members of `system:masters` are always allowed.
    fn union(
        &self,
        cluster: &Arc<Cluster>,
        configuration: &AuthorizationConfiguration,
    ) -> Result<UnionAuthorizer, String> {
        let mut authorizers: Vec<(Str, Box<dyn Authorizer>)> =
            vec![(PRIVILEGED_GROUP_NAME.into(), Box::new(PrivilegedGroup(SYSTEM_PRIVILEGED_GROUP)))];
        for AuthorizerConfig { kind, name, webhook } in &configuration.authorizers {
            let authorizer = match webhook {
                Some(webhook) => Box::new(WebhookAuthorizer::new(cluster, name, webhook)?),
                None => self.built_in(cluster, kind)?,
            };
            let counted = CountedAuthorizer::new(cluster, kind, name, authorizer);
            authorizers.push((name.clone(), Box::new(counted)));
        }
        Ok(UnionAuthorizer::new(cluster.gates(), authorizers))
    }

    fn built_in(&self, cluster: &Arc<Cluster>, kind: &Str) -> Result<Box<dyn Authorizer>, String> {
        let was_enabled = || match self.kinds.contains(kind) {
            true => Ok(()),
            false => {
                Err(format!("authorizer type {kind} is not allowed if it was not enabled at initial server startup"))
            }
        };
        Ok(match (&**kind, &self.abac) {
            // The server decided at its start whether clients may be anonymous. So a reload must not add this
            // authorizer either.
            ("AlwaysAllow", _) => was_enabled().map(|()| Box::new(AlwaysAllow))?,
            ("AlwaysDeny", _) => was_enabled().map(|()| Box::new(AlwaysDeny))?,
            ("Node", _) => was_enabled().map(|()| Box::new(NodeAuthorizer::new(cluster)))?,
            ("RBAC", _) => {
                was_enabled()?;
                Box::new(RbacAuthorizer::new(cluster).map_err(|error| error.to_string())?)
            }
            ("ABAC", Some(abac)) => Box::new(abac.clone()),
            ("ABAC", None) => {
                was_enabled()?;
                return Err("the policies of ABAC are missing".to_owned());
            }
            (kind, _) => return Err(format!("unknown authorization mode {kind} specified")),
        })
    }

    /// True if there is a file to follow.
    pub(crate) fn has_file(&self) -> bool {
        self.last.lock().file.is_some()
    }
}

impl FollowedConfiguration for AuthorizationReload {
    const NAME: &'static str = "authorization";

    async fn check(&self) -> Result<Option<Vec<u8>>, String> {
        let Some((cluster, authorizer)) = self.running.get() else { return Ok(None) };
        let mut last = self.last.lock();
        let Some(file) = &mut last.file else { return Ok(None) };
        let Some(text) = file.changed()?.map(<[u8]>::to_vec) else { return Ok(None) };
        let configuration = authorization_config::load(&text, &self.kinds, &is_regular_file)?;
        if configuration == last.configuration {
            return Ok(None);
        }
        last.configuration = configuration;
        authorizer.replace(Arc::new(self.union(cluster, &last.configuration)?), last.configuration.asks_webhooks());
        Ok(Some(text))
    }

    fn record(&self, text: Option<&[u8]>) {
        if let Some((cluster, _)) = self.running.get() {
            record_authorization_reload(cluster, &self.server, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn modes_and_files_are_checked_as_upstream_does() {
        let validate = |modes: &str, policy: &str, webhook: &str| -> Result<(), String> {
            let modes: Result<Vec<AuthorizationMode>, String> =
                modes.split(',').filter(|mode| !mode.is_empty()).map(str::parse).collect();
            let file = |path: &str| Some(PathBuf::from(path)).filter(|_| !path.is_empty());
            let (policy_file, webhook_config_file) = (file(policy), file(webhook));
            AuthorizationOptions { policy_file, webhook_config_file, ..AuthorizationOptions::default() }
                .validate(&modes?)
        };
        for (modes, policy, webhook, expect) in [
            ("RBAC", "", "", Ok(())),
            ("AlwaysDeny,RBAC", "", "", Ok(())),
            ("Node,RBAC", "", "", Ok(())),
            ("ABAC,Webhook", "p", "w", Ok(())),
            ("", "", "", Err("at least one authorization-mode must be passed")),
            ("RBAC,rbac", "", "", Err("authorization-mode \"rbac\" is not a valid mode")),
            ("RBAC,RBAC", "", "", Err("authorization-mode [\"RBAC\" \"RBAC\"] has mode specified more than once")),
            ("ABAC", "", "", Err("authorization-mode ABAC's authorization policy file not passed")),
            ("Webhook", "", "", Err("authorization-mode Webhook's authorization config file not passed")),
            (
                "RBAC",
                "p",
                "w",
                Err("[cannot specify --authorization-policy-file without mode ABAC, cannot specify \
                     --authorization-webhook-config-file without mode Webhook]"),
            ),
        ] {
            assert_eq!(validate(modes, policy, webhook), expect.map_err(str::to_owned), "{modes}");
        }
    }

    #[test]
    fn flags_and_files_make_the_same_chain() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("policy"), "{\"user\":\"a\"}").expect("a file");
        fs::write(path("kubeconfig"), "").expect("a file");
        let options = AuthorizationOptions {
            policy_file: Some(path("policy")),
            webhook_config_file: Some(path("kubeconfig")),
            ..AuthorizationOptions::default()
        };
        let modes = [AuthorizationMode::Node, AuthorizationMode::Abac, AuthorizationMode::Webhook];
        let from_flags = options.load(&modes).expect("a chain");
        assert!(from_flags.contains(AuthorizationMode::Node) && !from_flags.contains(AuthorizationMode::Rbac));
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n\
             - {{type: Node, name: node}}\n- {{type: ABAC, name: abac}}\n- type: Webhook\n  name: default\n  webhook: \
             {{timeout: 30s, subjectAccessReviewVersion: v1beta1, failurePolicy: NoOpinion, connectionInfo: \
             {{type: KubeConfigFile, kubeConfigFile: '{}'}}}}\n",
            path("kubeconfig").display()
        );
        fs::write(path("config"), text).expect("a file");
        let options = AuthorizationOptions { config_file: Some(path("config")), ..options };
        let from_file = options.load(&[]).expect("a chain");
        assert_eq!(from_file.configuration, from_flags.configuration);
        assert_eq!(from_file.abac, from_flags.abac);
        let missing = AuthorizationOptions { config_file: Some("/nowhere".into()), ..AuthorizationOptions::default() };
        assert_eq!(missing.load(&[]).map(drop), Err("open /nowhere: no such file or directory".to_owned()));
    }
}
