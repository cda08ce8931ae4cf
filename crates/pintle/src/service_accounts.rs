//! Service accounts: the options of kube-apiserver, the keys, and the inputs for the server and its authenticators.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pintle_auth::jwt::{PublicKey, SigningKey, public_keys_from_pem};
use pintle_auth::service_account::{
    EXTENDED_EXPIRATION_SECONDS, OpenIdMetadata, PublicKeys, ServiceAccountAuthenticator, ServiceAccountTokens,
    TokenIssuer, WARN_ONLY_EXPIRATION_SECONDS,
};
use pintle_auth::{TokenAuthenticator, TokenCacheTtl};
use pintle_server::{Cluster, ServiceAccountConfig, service_account_lookup};
use pintle_value::url::parse_reference;
use pintle_value::{Str, print};

/// The issuer that kubeadm configures.
pub const DEFAULT_SERVICE_ACCOUNT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The least and the greatest value of `--service-account-max-token-expiration`.
const MAX_EXPIRATION_BOUNDS: (Duration, Duration) = (Duration::from_secs(60 * 60), Duration::from_secs(1 << 32));

/// How tokens of service accounts are issued and validated.
#[derive(Clone, Debug)]
pub struct ServiceAccountOptions {
    /// The issuers. The first issues tokens, all are accepted (`--service-account-issuer`).
    pub issuers: Vec<String>,
    /// The files with keys that verify tokens, in PEM (`--service-account-key-file`).
    pub key_files: Vec<PathBuf>,
    /// The file with the key that signs tokens, in PEM. `None` selects a key of the server's own
    /// (`--service-account-signing-key-file`).
    pub signing_key_file: Option<PathBuf>,
    /// The audiences of the server; an empty list selects the issuers (`--api-audiences`).
    pub api_audiences: Vec<String>,
    /// Whether the secret and the account of a legacy token have to exist (`--service-account-lookup`).
    pub look_up: bool,
    /// The longest validity of a token; zero for no limit (`--service-account-max-token-expiration`).
    pub max_token_expiration: Duration,
    /// Whether tokens of injected volumes are valid for a year, so that clients which do not refresh them go on working
    /// (`--service-account-extend-token-expiration`).
    pub extend_token_expiration: bool,
    /// The URL of the keys in the discovery document; `None` selects the server's URL (`--service-account-jwks-uri`).
    pub jwks_uri: Option<String>,
    /// How long authentications by tokens are cached.
    pub token_cache: TokenCacheTtl,
}

impl Default for ServiceAccountOptions {
    fn default() -> Self {
        Self {
            issuers: vec![DEFAULT_SERVICE_ACCOUNT_ISSUER.to_owned()],
            key_files: Vec::new(),
            signing_key_file: None,
            api_audiences: Vec::new(),
            look_up: true,
            max_token_expiration: Duration::ZERO,
            extend_token_expiration: true,
            jwks_uri: None,
            token_cache: TokenCacheTtl::DEFAULT,
        }
    }
}

impl ServiceAccountOptions {
    /// Checks the options without their files.
    ///
    /// # Errors
    /// All errors, as kube-apiserver words them.
    fn validate(&self) -> Result<(), String> {
        let mut errors = Vec::new();
        for (index, issuer) in self.issuers.iter().enumerate() {
            let quoted = print::quote(issuer);
            match parse_reference(issuer) {
                Err(error) if issuer.contains(':') => errors
                    .push(format!("service-account-issuer {quoted} contained a ':' but was not a valid URL: {error}")),
                _ if issuer.is_empty() => {
                    errors.push("service-account-issuer should not be an empty string".to_owned())
                }
                _ if self.issuers[..index].contains(issuer) => {
                    errors.push(format!("service-account-issuer {quoted} is already specified"));
                }
                _ => {}
            }
        }
        if self.issuers.is_empty() {
            errors.push("service-account-issuer is a required flag".to_owned());
        }
        if self.signing_key_file.is_some() && self.key_files.is_empty() {
            let flags = "`--service-account-key-file` or `--service-account-signing-endpoint`";
            errors.push(format!("either {flags} must be set"));
        }
        if let Some(uri) = &self.jwks_uri {
            match parse_reference(uri) {
                Err(error) => errors.push(format!("service-account-jwks-uri must be a valid URL: {error}")),
                Ok((url, _)) if url.scheme != "https" => {
                    errors.push(format!("service-account-jwks-uri requires https scheme, parsed as: {uri}"));
                }
                Ok(_) => {}
            }
        }
        let (least, greatest) = MAX_EXPIRATION_BOUNDS;
        if !self.max_token_expiration.is_zero() && !(least..=greatest).contains(&self.max_token_expiration) {
            let range = "between 1 hour and 2^32 seconds";
            errors.push(format!("the service-account-max-token-expiration must be {range}"));
        }
        match &*errors {
            [] => Ok(()),
            [error] => Err(error.clone()),
            errors => Err(format!("[{}]", errors.join(", "))),
        }
    }

    fn warn_about_expiration(&self) {
        let max = self.max_token_expiration.as_secs().cast_signed();
        if !self.extend_token_expiration || max == 0 {
            return;
        }
        if max < WARN_ONLY_EXPIRATION_SECONDS {
            tracing::warn!(
                target: "pintle::start",
                max_token_expiration = max,
                "service-account-extend-token-expiration is true, in order to correctly trigger safe transition logic, \
                 service-account-max-token-expiration must be set longer than {WARN_ONLY_EXPIRATION_SECONDS} seconds"
            );
        }
        if max < EXTENDED_EXPIRATION_SECONDS {
            tracing::warn!(
                target: "pintle::start",
                max_token_expiration = max,
                "service-account-extend-token-expiration is true, enabling tokens valid up to \
                 {EXTENDED_EXPIRATION_SECONDS} seconds, which is longer than service-account-max-token-expiration"
            );
        }
    }

    /// Reads the keys. `own_key` is the server's own key, in PEM. `external_address` is where clients reach the server.
    ///
    /// # Errors
    /// The options are invalid, or a file cannot be read.
    pub(crate) fn load(self, own_key: &str, external_address: &str) -> Result<ServiceAccountSetup, String> {
        self.validate()?;
        self.warn_about_expiration();
        let signing_key = match &self.signing_key_file {
            Some(path) => signing_key(path)
                .map_err(|error| format!("failed to parse service-account-issuer-key-file: {error}"))?,
            None => SigningKey::from_pem(own_key.as_bytes()).map_err(|error| format!("pki/sa.key: {error}"))?,
        };
        let mut keys = Vec::new();
        for path in &self.key_files {
            keys.extend(public_keys(path)?);
        }
        if self.signing_key_file.is_none() && !keys.contains(signing_key.public_key()) {
            keys.push(signing_key.public_key().clone());
        }
        let keys = PublicKeys(keys);
        let issuers: Vec<Str> = self.issuers.iter().map(|issuer| issuer.as_str().into()).collect();
        let issuer = issuers.first().cloned().unwrap_or_default();
        let audiences = match &*self.api_audiences {
            [] => issuers.clone(),
            audiences => audiences.iter().map(|audience| audience.as_str().into()).collect(),
        };
        let metadata = OpenIdMetadata::new(&issuer, self.jwks_uri.as_deref(), external_address, &keys);
        let metadata = metadata.inspect_err(|error| {
            tracing::error!(
                target: "pintle::start",
                %error,
                "Could not construct pre-rendered responses for ServiceAccountIssuerDiscovery endpoints. Endpoints will \
                 not be enabled"
            );
        });
        let max_expiration = self.max_token_expiration.as_secs().cast_signed();
        Ok(ServiceAccountSetup {
            config: ServiceAccountConfig {
                issuer: Arc::new(TokenIssuer::new(issuer, signing_key)),
                audiences: audiences.clone(),
                max_expiration_seconds: (max_expiration > 0).then_some(max_expiration),
                extends_expiration: self.extend_token_expiration,
                metadata: metadata.ok(),
            },
            authentication: ServiceAccountAuthentication {
                keys: Arc::new(keys),
                issuers,
                audiences,
                look_up: self.look_up,
                cache: self.token_cache,
            },
        })
    }
}

fn signing_key(path: &Path) -> Result<SigningKey, String> {
    let pem = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    SigningKey::from_pem(&pem).map_err(|error| format!("error reading private key file {}: {error}", path.display()))
}

fn public_keys(path: &Path) -> Result<Vec<PublicKey>, String> {
    let pem = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    public_keys_from_pem(&pem).map_err(|error| format!("error reading public key file {}: {error}", path.display()))
}

/// The configuration of service accounts for the server, and the inputs of its authenticators.
pub(crate) struct ServiceAccountSetup {
    pub(crate) config: ServiceAccountConfig,
    pub(crate) authentication: ServiceAccountAuthentication,
}

/// The inputs of the authenticators of tokens.
pub(crate) struct ServiceAccountAuthentication {
    keys: Arc<PublicKeys>,
    issuers: Vec<Str>,
    /// The audiences of the server.
    pub(crate) audiences: Vec<Str>,
    look_up: bool,
    /// How long authentications by tokens are cached.
    pub(crate) cache: TokenCacheTtl,
}

impl ServiceAccountAuthentication {
    /// The keys that verify tokens of service accounts.
    pub(crate) fn keys(&self) -> &[PublicKey] {
        &self.keys.0
    }

    /// The issuers of tokens of service accounts.
    pub(crate) fn issuers(&self) -> &[Str] {
        &self.issuers
    }

    /// The authenticators of legacy tokens and of bound tokens, in upstream's order.
    pub(crate) fn authenticators(&self, cluster: &Arc<Cluster>) -> [Box<dyn TokenAuthenticator>; 2] {
        let lookup = service_account_lookup(cluster);
        let kinds = [
            ServiceAccountTokens::Legacy { look_up: self.look_up },
            ServiceAccountTokens::Bound { issuers: self.issuers.clone() },
        ];
        kinds.map(|tokens| -> Box<dyn TokenAuthenticator> {
            Box::new(ServiceAccountAuthenticator {
                tokens,
                keys: self.keys.clone(),
                audiences: self.audiences.clone(),
                lookup: lookup.clone(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_validated_as_kube_apiserver_does() {
        type Change = fn(&mut ServiceAccountOptions);
        let cases: [(Change, Result<(), &str>); 12] = [
            (|_| {}, Ok(())),
            (|options| options.issuers = vec!["a".into(), "https://b".into()], Ok(())),
            (|options| options.issuers.clear(), Err("service-account-issuer is a required flag")),
            (
                |options| options.issuers = vec!["a".into(), "a".into()],
                Err("service-account-issuer \"a\" is already specified"),
            ),
            (
                |options| options.issuers = vec![String::new(), ":a".into()],
                Err(
                    "[service-account-issuer should not be an empty string, service-account-issuer \":a\" contained a \
                     ':' but was not a valid URL: parse \":a\": missing protocol scheme]",
                ),
            ),
            (
                |options| options.signing_key_file = Some("sa.key".into()),
                Err("either `--service-account-key-file` or `--service-account-signing-endpoint` must be set"),
            ),
            (|options| options.jwks_uri = Some("https://keys".into()), Ok(())),
            (
                |options| options.jwks_uri = Some("http://keys".into()),
                Err("service-account-jwks-uri requires https scheme, parsed as: http://keys"),
            ),
            (
                |options| options.jwks_uri = Some(":".into()),
                Err("service-account-jwks-uri must be a valid URL: parse \":\": missing protocol scheme"),
            ),
            (|options| options.max_token_expiration = Duration::from_secs(3600), Ok(())),
            (
                |options| options.max_token_expiration = Duration::from_secs(3599),
                Err("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds"),
            ),
            (
                |options| options.max_token_expiration = Duration::from_secs((1 << 32) + 1),
                Err("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds"),
            ),
        ];
        for (change, expect) in cases {
            let mut options = ServiceAccountOptions::default();
            change(&mut options);
            assert_eq!(
                options.validate().as_ref().map_err(String::as_str),
                expect.as_ref().map(|()| &()).map_err(|e| *e)
            );
        }
    }
}
