//! The flags of service accounts, with kube-apiserver's names.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgAction;
use pintle::{DEFAULT_SERVICE_ACCOUNT_ISSUER, ServiceAccountOptions, TokenCacheTtl};

use super::parse_duration;
use crate::command::string_slice::StringSlice;

#[derive(clap::Args)]
pub(crate) struct ServiceAccountFlags {
    /// Identifier of the service account token issuer, asserted in the "iss" claim of issued tokens. Only an https URL
    /// has OpenID Connect documents. May be given more than once: the first is used to generate tokens, and all are
    /// used to determine which issuers are accepted.
    #[arg(long, value_name = "ISSUER", default_value = DEFAULT_SERVICE_ACCOUNT_ISSUER)]
    service_account_issuer: Vec<String>,
    /// File with PEM-encoded RSA or ECDSA private or public keys, or certificates, used to verify service account
    /// tokens. May be given more than once. Required with --service-account-signing-key-file [default: the server's own
    /// key].
    #[arg(long, value_name = "FILE")]
    service_account_key_file: Vec<PathBuf>,
    /// File with the PEM-encoded private key that signs service account tokens [default: the server's own key,
    /// pki/sa.key in --data-dir].
    #[arg(long, value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,
    /// Identifiers of the API, comma separated. Service account tokens used against the API must be bound to at least
    /// one of them [default: the values of --service-account-issuer].
    #[arg(long, value_name = "AUDIENCE,...")]
    api_audiences: Vec<StringSlice>,
    /// If true, legacy service account tokens are valid only while their secret and their service account exist.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = true, action = ArgAction::Set)]
    service_account_lookup: bool,
    /// The maximum validity duration of a token created by the service account token issuer, such as 24h. Longer
    /// requests are shortened. 0 for no limit.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    service_account_max_token_expiration: Duration,
    /// If true, tokens of injected volumes are valid for a year, ignoring --service-account-max-token-expiration, and
    /// clients that do not refresh them are counted as stale.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = true, action = ArgAction::Set)]
    service_account_extend_token_expiration: bool,
    /// Overrides the URI of the JSON Web Key Set in the document served at /.well-known/openid-configuration.
    #[arg(long, value_name = "URL")]
    service_account_jwks_uri: Option<String>,
}

impl ServiceAccountFlags {
    pub(crate) fn options(self) -> ServiceAccountOptions {
        ServiceAccountOptions {
            issuers: self.service_account_issuer,
            key_files: self.service_account_key_file,
            signing_key_file: self.service_account_signing_key_file,
            api_audiences: StringSlice::concat(&self.api_audiences),
            look_up: self.service_account_lookup,
            max_token_expiration: self.service_account_max_token_expiration,
            extend_token_expiration: self.service_account_extend_token_expiration,
            jwks_uri: self.service_account_jwks_uri.filter(|uri| !uri.is_empty()),
            token_cache: TokenCacheTtl::DEFAULT,
        }
    }
}
