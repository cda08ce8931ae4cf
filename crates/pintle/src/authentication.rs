//! The issuers of tokens and the rules for anonymous requests, and the webhook that reviews tokens. The first two come
//! from flags or from a configuration file, which is read again when it changes (upstream:
//! `pkg/kubeapiserver/options/authentication.go`, `pkg/kubeapiserver/authenticator`).

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pintle_auth::TokenCacheTtl;
use pintle_auth::authentication_config::{
    self, AnonymousConfig, AuthenticationConfiguration, ClaimMappings, ClaimRule, IssuerConfig, JwtConfig,
    PrefixedMapping, validate,
};
use pintle_auth::oidc::ALL_SIGNING_ALGORITHMS;
use pintle_locks::Mutex;
use pintle_server::{Cluster, JwtAuthenticators, ReloadableJwtAuthenticators, TokenWebhookAuthenticator};
use pintle_value::{FieldError, FieldPath, Str, print};

use crate::config_file::{FollowedConfiguration, FollowedFile, read};

/// How long a reload waits for new issuers, and how often it checks them.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(60);
const HEALTH_INTERVAL: Duration = Duration::from_millis(100);

/// The issuer of the flags `--oidc-*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcOptions {
    /// The URL (`--oidc-issuer-url`).
    pub issuer_url: String,
    /// The audience (`--oidc-client-id`).
    pub client_id: String,
    /// The certificate authorities that verify the issuer's server; `None` for the system's authorities
    /// (`--oidc-ca-file`).
    pub ca_file: Option<PathBuf>,
    /// The claim that is the user name (`--oidc-username-claim`).
    pub username_claim: String,
    /// The prefix of user names (`--oidc-username-prefix`). Empty selects the issuer's URL, or no prefix if the claim
    /// is `email`; `-` selects no prefix.
    pub username_prefix: String,
    /// The claim with the groups; empty for none (`--oidc-groups-claim`).
    pub groups_claim: String,
    /// The prefix of groups (`--oidc-groups-prefix`).
    pub groups_prefix: String,
    /// The accepted signature algorithms (`--oidc-signing-algs`).
    pub signing_algorithms: Vec<String>,
    /// The required claims and their values (`--oidc-required-claim`).
    pub required_claims: Vec<(String, String)>,
}

impl Default for OidcOptions {
    /// kube-apiserver's defaults.
    fn default() -> Self {
        Self {
            issuer_url: String::new(),
            client_id: String::new(),
            ca_file: None,
            username_claim: "sub".to_owned(),
            username_prefix: String::new(),
            groups_claim: String::new(),
            groups_prefix: String::new(),
            signing_algorithms: vec!["RS256".to_owned()],
            required_claims: Vec::new(),
        }
    }
}

impl OidcOptions {
    /// The issuer in the form of a configuration file.
    fn configuration(&self) -> Result<JwtConfig, String> {
        let prefix = match &*self.username_prefix {
            "" if self.username_claim != "email" => format!("{}#", self.issuer_url),
            "-" => String::new(),
            prefix => prefix.to_owned(),
        };
        let authority = self.ca_file.as_deref().map(read).transpose()?.unwrap_or_default();
        let mapping = |claim: &str, prefix: &str| PrefixedMapping {
            claim: claim.into(),
            prefix: Some(prefix.into()),
            expression: Str::default(),
        };
        let groups = match &*self.groups_claim {
            "" => PrefixedMapping::default(),
            claim => mapping(claim, &self.groups_prefix),
        };
        let required = |(claim, value): &(String, String)| ClaimRule {
            claim: claim.as_str().into(),
            required_value: value.as_str().into(),
            ..ClaimRule::default()
        };
        Ok(JwtConfig {
            issuer: IssuerConfig {
                url: self.issuer_url.as_str().into(),
                certificate_authority: String::from_utf8_lossy(&authority).into(),
                audiences: vec![self.client_id.as_str().into()],
                ..IssuerConfig::default()
            },
            claim_rules: self.required_claims.iter().map(required).collect(),
            mappings: ClaimMappings {
                username: mapping(&self.username_claim, &prefix),
                groups,
                ..ClaimMappings::default()
            },
            user_rules: Vec::new(),
        })
    }
}

/// The webhook that reviews tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenWebhookOptions {
    /// The kubeconfig of the webhook; `None` for no webhook (`--authentication-token-webhook-config-file`).
    pub config_file: Option<PathBuf>,
    /// The version of the reviews that the webhook gets (`--authentication-token-webhook-version`).
    pub version: String,
    /// How long the webhook's answers are cached (`--authentication-token-webhook-cache-ttl`).
    pub cache_ttl: Duration,
}

impl Default for TokenWebhookOptions {
    /// kube-apiserver's defaults.
    fn default() -> Self {
        Self { config_file: None, version: "v1beta1".to_owned(), cache_ttl: Duration::from_secs(120) }
    }
}

impl TokenWebhookOptions {
    /// The authenticator of a running cluster, for a server with these audiences; `None` if there is no webhook.
    ///
    /// # Errors
    /// The webhook cannot be used.
    pub(crate) fn authenticator(
        &self,
        cluster: &Arc<Cluster>,
        audiences: &[Str],
    ) -> Result<Option<TokenWebhookAuthenticator>, String> {
        let Some(file) = &self.config_file else { return Ok(None) };
        TokenWebhookAuthenticator::new(cluster, file, &self.version, audiences).map(Some)
    }

    /// How long the webhook's answers are cached, behind the cache of all tokens. As upstream, errors are not cached.
    pub(crate) fn ttl(&self, of_all: &TokenCacheTtl) -> TokenCacheTtl {
        let ttl = self.cache_ttl;
        if !ttl.is_zero() && ttl < of_all.success {
            tracing::warn!(
                target: "pintle::start",
                cache_ttl = ?ttl,
                overall_cache_ttl = ?of_all.success,
                "The webhook cache ttl is shorter than the overall cache ttl for successful token authentication attempts"
            );
        }
        TokenCacheTtl { success: ttl, failure: ttl, error: Duration::ZERO }
    }
}

/// The issuers of tokens, the rules for anonymous requests, and the webhook that reviews tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationOptions {
    /// The file with the issuers and the rules for anonymous requests (`--authentication-config`).
    pub config_file: Option<PathBuf>,
    /// Whether requests without credentials are requests of the user `system:anonymous` (`--anonymous-auth`). `None`
    /// selects the default, which is true and which the file may change.
    pub anonymous: Option<bool>,
    /// The issuer of the flags, if one of these flags is given.
    pub oidc: Option<OidcOptions>,
    /// The webhook that reviews tokens.
    pub webhook: TokenWebhookOptions,
}

impl AuthenticationOptions {
    /// Reads the file, and checks everything that can be checked without a cluster. As upstream, the flags allow no
    /// anonymous requests if the authorizer allows everything. The disallowed issuers are the issuers of service
    /// account tokens. The last flag allows issuers to name the network in which they are.
    ///
    /// # Errors
    /// Returns upstream's message.
    pub(crate) fn load(
        &self,
        everything_allowed: bool,
        disallowed_issuers: &[Str],
        allows_egress_selectors: bool,
    ) -> Result<AuthenticatorConfig, String> {
        let is_incomplete = |oidc: &OidcOptions| oidc.issuer_url.is_empty() || oidc.client_id.is_empty();
        if self.config_file.is_none() && self.oidc.as_ref().is_some_and(is_incomplete) {
            let flags = "oidc-issuer-url and oidc-client-id";
            return Err(format!("{flags} must be specified together when any oidc-* flags are set"));
        }
        if self.config_file.is_some() && self.oidc.is_some() {
            return Err("authentication-config file and oidc-* flags are mutually exclusive".to_owned());
        }
        let (mut configuration, mut file) = (AuthenticationConfiguration::default(), None);
        let mut algorithms: Vec<Str> = ALL_SIGNING_ALGORITHMS.map(Str::from).to_vec();
        if let Some(path) = &self.config_file {
            let load = || {
                let file = FollowedFile::open(path)?;
                Ok((authentication_config::load(file.text())?, file))
            };
            let failed = |error: String| {
                let path = print::quote(&path.to_string_lossy());
                format!("failed to load authentication configuration from file {path}: {error}")
            };
            let (loaded, opened) = load().map_err(failed)?;
            (configuration, file) = (loaded, Some(opened));
        } else if let Some(oidc) = &self.oidc {
            configuration.jwt.push(oidc.configuration()?);
            algorithms = oidc.signing_algorithms.iter().map(|name| name.as_str().into()).collect();
        }
        if configuration.anonymous.is_some() && self.anonymous.is_some() {
            let detail = "--anonymous-auth flag cannot be set when anonymous field is configured in authentication \
                          configuration file";
            return Err(FieldError::forbidden(&FieldPath::new("anonymous"), detail).to_string());
        }
        let anonymous = configuration.anonymous.clone().unwrap_or_else(|| {
            let is_allowed = self.anonymous.unwrap_or(true);
            if is_allowed && everything_allowed {
                tracing::warn!(
                    target: "pintle::start",
                    "Requests without credentials are rejected, because the authorization mode AlwaysAllow would allow \
                     them everything"
                );
            }
            AnonymousConfig { enabled: is_allowed && !everything_allowed, paths: Vec::new() }
        });
        let errors = validate(&configuration, disallowed_issuers, allows_egress_selectors);
        if !errors.is_empty() {
            return Err(format!("invalid authentication configuration: {}", errors.message()));
        }
        if let Some(unknown) = algorithms.iter().find(|name| !ALL_SIGNING_ALGORITHMS.contains(&name.as_str())) {
            return Err(format!("oidc: unsupported signing alg: {}", print::quote(unknown)));
        }
        let disallowed_issuers = disallowed_issuers.to_vec();
        Ok(AuthenticatorConfig {
            configuration,
            anonymous,
            algorithms,
            disallowed_issuers,
            allows_egress_selectors,
            file,
        })
    }
}

/// The issuers, before the cluster exists.
#[derive(Debug)]
pub(crate) struct AuthenticatorConfig {
    configuration: AuthenticationConfiguration,
    /// The rules for anonymous requests.
    pub(crate) anonymous: AnonymousConfig,
    algorithms: Vec<Str>,
    disallowed_issuers: Vec<Str>,
    allows_egress_selectors: bool,
    file: Option<FollowedFile>,
}

impl AuthenticatorConfig {
    /// Prepares the issuers, for the server with this identity. Issuers from a file can be reloaded.
    pub(crate) fn prepare(self, server: String) -> Arc<AuthenticationReload> {
        let has_file = self.file.is_some();
        Arc::new(AuthenticationReload { server, has_file, config: Mutex::new(self), running: OnceLock::new() })
    }
}

/// The issuers, which follow their configuration file.
pub(crate) struct AuthenticationReload {
    /// The server's identity. Metrics show its hash.
    server: String,
    has_file: bool,
    config: Mutex<AuthenticatorConfig>,
    running: OnceLock<ReloadableJwtAuthenticators>,
}

impl AuthenticationReload {
    /// Builds the authenticators of a running cluster; `None` if there are no issuers and a reload cannot add any.
    ///
    /// # Errors
    /// An issuer cannot be used.
    pub(crate) fn start(&self, cluster: &Arc<Cluster>) -> Result<Option<ReloadableJwtAuthenticators>, String> {
        let config = self.config.lock();
        if !self.has_file && config.configuration.jwt.is_empty() {
            return Ok(None);
        }
        let first = JwtAuthenticators::start(cluster, &config.configuration.jwt, &config.algorithms, &self.server)?;
        let text = config.file.as_ref().map(FollowedFile::text);
        let authenticators = ReloadableJwtAuthenticators::new(cluster, &self.server, first, text);
        // The authenticators are started once.
        let _ = self.running.set(authenticators.clone());
        Ok(Some(authenticators))
    }

    /// True if there is a file to follow.
    pub(crate) fn has_file(&self) -> bool {
        self.has_file
    }

    /// Reads the file. Returns the configuration and its text if it has changed.
    fn changed(&self) -> Result<Option<(AuthenticationConfiguration, Vec<u8>)>, String> {
        let mut config = self.config.lock();
        let Some(file) = &mut config.file else { return Ok(None) };
        let Some(text) = file.changed()?.map(<[u8]>::to_vec) else { return Ok(None) };
        let configuration = authentication_config::load(&text)?;
        let mut errors = validate(&configuration, &config.disallowed_issuers, config.allows_egress_selectors);
        if configuration.anonymous != config.configuration.anonymous {
            errors.forbidden(&FieldPath::new("anonymous"), "changed from initial configuration file");
        }
        if errors.is_empty() { Ok(Some((configuration, text))) } else { Err(errors.message()) }
    }

    /// Applies a configuration as soon as the discovery documents of all its issuers have been read.
    async fn apply(
        &self,
        authenticators: &ReloadableJwtAuthenticators,
        configuration: AuthenticationConfiguration,
    ) -> Result<(), String> {
        let algorithms = self.config.lock().algorithms.clone();
        let new = authenticators.prepare(&configuration.jwt, &algorithms)?;
        let healthy = async {
            while new.check_health().is_err() {
                tokio::time::sleep(HEALTH_INTERVAL).await;
            }
        };
        if tokio::time::timeout(HEALTH_TIMEOUT, healthy).await.is_err()
            && let Err(error) = new.check_health()
        {
            // The issuer may be available later.
            self.config.lock().file.iter_mut().for_each(FollowedFile::retry);
            return Err(error);
        }
        authenticators.replace(new);
        self.config.lock().configuration = configuration;
        Ok(())
    }
}

impl FollowedConfiguration for AuthenticationReload {
    const NAME: &'static str = "authentication";

    async fn check(&self) -> Result<Option<Vec<u8>>, String> {
        let Some(authenticators) = self.running.get() else { return Ok(None) };
        let Some((configuration, text)) = self.changed()? else { return Ok(None) };
        self.apply(authenticators, configuration).await?;
        Ok(Some(text))
    }

    fn record(&self, text: Option<&[u8]>) {
        if let Some(authenticators) = self.running.get() {
            authenticators.record_reload(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn oidc() -> OidcOptions {
        OidcOptions { issuer_url: "https://i".to_owned(), client_id: "c".to_owned(), ..OidcOptions::default() }
    }

    fn load(options: &AuthenticationOptions) -> Result<AuthenticatorConfig, String> {
        options.load(false, &["https://accounts".into()], true)
    }

    #[track_caller]
    fn check_flags(change: impl FnOnce(&mut OidcOptions), expect: Result<(), &str>) {
        let mut oidc = oidc();
        change(&mut oidc);
        let options = AuthenticationOptions { oidc: Some(oidc), ..AuthenticationOptions::default() };
        assert_eq!(load(&options).map(drop), expect.map_err(str::to_owned));
    }

    #[test]
    fn flags_are_validated_as_kube_apiserver_does() {
        let together = "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set";
        check_flags(|_| {}, Ok(()));
        check_flags(|oidc| oidc.issuer_url.clear(), Err(together));
        check_flags(|oidc| oidc.client_id.clear(), Err(together));
        check_flags(
            |oidc| oidc.issuer_url = "http://i".to_owned(),
            Err(
                "invalid authentication configuration: jwt[0].issuer.url: Invalid value: \"http://i\": URL scheme must be https",
            ),
        );
        check_flags(
            |oidc| oidc.issuer_url = "https://accounts".to_owned(),
            Err(
                "invalid authentication configuration: jwt[0].issuer.url: Invalid value: \"https://accounts\": URL must not overlap with disallowed issuers: [https://accounts]",
            ),
        );
        check_flags(
            |oidc| oidc.signing_algorithms = vec!["HS256".to_owned()],
            Err("oidc: unsupported signing alg: \"HS256\""),
        );
        check_flags(|oidc| oidc.ca_file = Some("/nowhere".into()), Err("open /nowhere: no such file or directory"));
        check_flags(
            |oidc| oidc.username_claim.clear(),
            Err(
                "invalid authentication configuration: jwt[0].claimMappings.username: Required value: claim or expression is required",
            ),
        );
    }

    #[test]
    fn user_names_of_flags_have_the_issuer_as_prefix() {
        for (claim, prefix, expect) in [
            ("sub", "", "https://i#"),
            ("email", "", ""),
            ("email", "x:", "x:"),
            ("sub", "-", ""),
            ("email", "-", ""),
            ("sub", "x:", "x:"),
        ] {
            let (username_claim, username_prefix) = (claim.to_owned(), prefix.to_owned());
            let config = OidcOptions { username_claim, username_prefix, ..oidc() }.configuration();
            let found = config.map(|config| config.mappings.username.prefix);
            assert_eq!(found, Ok(Some(expect.into())), "{claim} {prefix}");
        }
    }

    #[test]
    fn a_configuration_file_excludes_flags() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config");
        let header = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
        fs::write(&path, format!("{header}anonymous: {{enabled: true, conditions: [{{path: /livez}}]}}"))
            .expect("a file");
        let options = AuthenticationOptions { config_file: Some(path.clone()), ..AuthenticationOptions::default() };
        let anonymous = AnonymousConfig { enabled: true, paths: vec!["/livez".into()] };
        assert_eq!(load(&options).map(|config| config.anonymous), Ok(anonymous));
        let with_flag = AuthenticationOptions { anonymous: Some(true), ..options.clone() };
        let error = "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in \
                     authentication configuration file";
        assert_eq!(load(&with_flag).map(drop), Err(error.to_owned()));
        let with_issuer = AuthenticationOptions { oidc: Some(oidc()), ..options.clone() };
        let error = "authentication-config file and oidc-* flags are mutually exclusive";
        assert_eq!(load(&with_issuer).map(drop), Err(error.to_owned()));
        fs::write(&path, "").expect("a file");
        let failed = format!("failed to load authentication configuration from file {:?}: ", path.to_string_lossy());
        assert_eq!(load(&options).map(drop), Err(format!("{failed}empty config data")));
        fs::remove_file(&path).expect("a file");
        let missing = format!("{failed}open {}: no such file or directory", path.display());
        assert_eq!(load(&options).map(drop), Err(missing));
    }

    #[test]
    fn nobody_is_anonymous_if_everything_is_allowed() {
        for (flag, everything_allowed, expect) in
            [(None, false, true), (None, true, false), (Some(true), true, false), (Some(false), false, false)]
        {
            let options = AuthenticationOptions { anonymous: flag, ..AuthenticationOptions::default() };
            let found = options.load(everything_allowed, &[], false).map(|config| config.anonymous.enabled);
            assert_eq!(found, Ok(expect), "{flag:?} {everything_allowed}");
        }
    }
}
