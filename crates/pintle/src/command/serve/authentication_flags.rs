//! The flags of authentication, except the flags of service accounts.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgAction;
use pintle::{AuthenticationOptions, OidcOptions, RequestHeaderNames, TokenWebhookOptions};
use pintle_gates::{Feature, Gates};
use pintle_value::print::quote;

use super::parse_duration;
use crate::command::string_slice::StringSlice;

/// The flags of authentication.
#[derive(clap::Args)]
pub(crate) struct AuthenticationFlags {
    /// Enables anonymous requests to the secure port of the API server. Requests that are not rejected by another
    /// authentication method are treated as anonymous requests. Anonymous requests have a username of
    /// system:anonymous, and a group name of system:unauthenticated [default: true].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        action = ArgAction::Set)]
    anonymous_auth: Option<bool>,
    /// File with Authentication Configuration to configure the JWT Token authenticator or the anonymous authenticator.
    /// It is read again when it changes. This flag is mutually exclusive with the --oidc-* flags, and with
    /// --anonymous-auth if the file configures the Anonymous authenticator.
    #[arg(long, value_name = "FILE")]
    authentication_config: Option<PathBuf>,
    /// The URL of the OpenID issuer, only HTTPS scheme will be accepted. If set, it will be used to verify the OIDC
    /// JSON Web Token (JWT).
    #[arg(long, value_name = "URL")]
    oidc_issuer_url: Option<String>,
    /// The client ID for the OpenID Connect client, must be set if oidc-issuer-url is set.
    #[arg(long, value_name = "ID")]
    oidc_client_id: Option<String>,
    /// If set, the OpenID server's certificate will be verified by one of the authorities in the oidc-ca-file.
    /// Otherwise the host's root CA set will be used.
    #[arg(long, value_name = "FILE")]
    oidc_ca_file: Option<PathBuf>,
    /// The OpenID claim to use as the user name. Note that claims other than the default ('sub') is not guaranteed to
    /// be unique and immutable [default: sub].
    #[arg(long, value_name = "CLAIM")]
    oidc_username_claim: Option<String>,
    /// If provided, all usernames will be prefixed with this value. If not provided, username claims other than 'email'
    /// are prefixed by the issuer URL to avoid clashes. To skip any prefixing, provide the value '-'.
    #[arg(long, value_name = "PREFIX")]
    oidc_username_prefix: Option<String>,
    /// If provided, the name of a custom OpenID Connect claim for specifying user groups. The claim value is expected
    /// to be a string or array of strings.
    #[arg(long, value_name = "CLAIM")]
    oidc_groups_claim: Option<String>,
    /// If provided, all groups will be prefixed with this value to prevent conflicts with other authentication
    /// strategies.
    #[arg(long, value_name = "PREFIX")]
    oidc_groups_prefix: Option<String>,
    /// Comma-separated list of allowed JOSE asymmetric signing algorithms: RS256, RS384, RS512, ES256, ES384, ES512,
    /// PS256, PS384, PS512 [default: RS256].
    #[arg(long, value_name = "ALG,...")]
    oidc_signing_algs: Option<Vec<StringSlice>>,
    /// A key=value pair that describes a required claim in the ID Token. If set, the claim is verified to be present in
    /// the ID Token with a matching value. Repeat this flag to specify multiple claims.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_claim)]
    oidc_required_claim: Vec<(String, String)>,
    /// A CSV file with static bearer tokens for authentication, one per line: token,user,uid,"group1,group2".
    #[arg(long, value_name = "FILE")]
    pub(crate) token_auth_file: Option<PathBuf>,
    /// Enable to allow secrets of type 'bootstrap.kubernetes.io/token' in the 'kube-system' namespace to be used for
    /// TLS bootstrapping authentication.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = false, action = ArgAction::Set)]
    pub(crate) enable_bootstrap_token_auth: bool,
    /// File with webhook configuration for token authentication in kubeconfig format. The API server will query the
    /// remote service to determine authentication for bearer tokens.
    #[arg(long, value_name = "FILE")]
    authentication_token_webhook_config_file: Option<PathBuf>,
    /// The API version of the authentication.k8s.io TokenReview to send to and expect from the webhook.
    #[arg(long, value_name = "VERSION", default_value = "v1beta1")]
    authentication_token_webhook_version: String,
    /// The duration to cache responses from the webhook token authenticator.
    #[arg(long, value_name = "DURATION", default_value = "2m0s", value_parser = parse_duration)]
    authentication_token_webhook_cache_ttl: Duration,
    /// The file with certificate authorities, in PEM, whose client certificates authenticate users. The server's own
    /// authority is accepted, too. The common name is the user.
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca_file: Option<PathBuf>,
    /// Root certificate bundle to use to verify client certificates on incoming requests before trusting usernames in
    /// headers specified by --requestheader-username-headers.
    #[arg(long, value_name = "FILE")]
    pub(crate) requestheader_client_ca_file: Option<PathBuf>,
    /// List of client certificate common names to allow to provide usernames in headers specified by
    /// --requestheader-username-headers. If empty, any client certificate validated by the authorities in
    /// --requestheader-client-ca-file is allowed.
    #[arg(long, value_name = "NAME,...")]
    requestheader_allowed_names: Vec<StringSlice>,
    /// List of request headers to inspect for usernames. X-Remote-User is common.
    #[arg(long, value_name = "HEADER,...")]
    requestheader_username_headers: Vec<StringSlice>,
    /// List of request headers to inspect for UIDs. X-Remote-Uid is suggested.
    #[arg(long, value_name = "HEADER,...")]
    requestheader_uid_headers: Vec<StringSlice>,
    /// List of request headers to inspect for groups. X-Remote-Group is suggested.
    #[arg(long, value_name = "HEADER,...")]
    requestheader_group_headers: Vec<StringSlice>,
    /// List of request header prefixes to inspect. X-Remote-Extra- is suggested.
    #[arg(long, value_name = "PREFIX,...")]
    requestheader_extra_headers_prefix: Vec<StringSlice>,
}

impl AuthenticationFlags {
    /// The issuers of tokens, the rules for anonymous requests, and the webhook that reviews tokens.
    pub(crate) fn options(&self) -> AuthenticationOptions {
        AuthenticationOptions {
            config_file: self.authentication_config.clone(),
            anonymous: self.anonymous_auth,
            oidc: self.oidc(),
            webhook: TokenWebhookOptions {
                config_file: self.authentication_token_webhook_config_file.clone(),
                version: self.authentication_token_webhook_version.clone(),
                cache_ttl: self.authentication_token_webhook_cache_ttl,
            },
        }
    }

    /// The issuer of the flags; `None` if no such flag is given.
    fn oidc(&self) -> Option<OidcOptions> {
        let texts = [
            &self.oidc_issuer_url,
            &self.oidc_client_id,
            &self.oidc_username_claim,
            &self.oidc_username_prefix,
            &self.oidc_groups_claim,
            &self.oidc_groups_prefix,
        ];
        let is_set = texts.into_iter().any(Option::is_some)
            || self.oidc_ca_file.is_some()
            || self.oidc_signing_algs.is_some()
            || !self.oidc_required_claim.is_empty();
        let defaults = OidcOptions::default();
        let or = |flag: &Option<String>, default| flag.clone().unwrap_or(default);
        is_set.then(|| OidcOptions {
            issuer_url: or(&self.oidc_issuer_url, defaults.issuer_url),
            client_id: or(&self.oidc_client_id, defaults.client_id),
            ca_file: self.oidc_ca_file.clone(),
            username_claim: or(&self.oidc_username_claim, defaults.username_claim),
            username_prefix: or(&self.oidc_username_prefix, defaults.username_prefix),
            groups_claim: or(&self.oidc_groups_claim, defaults.groups_claim),
            groups_prefix: or(&self.oidc_groups_prefix, defaults.groups_prefix),
            signing_algorithms: self
                .oidc_signing_algs
                .as_deref()
                .map(StringSlice::concat)
                .unwrap_or(defaults.signing_algorithms),
            required_claims: self.oidc_required_claim.clone(),
        })
    }

    /// The headers in which front proxies name users. Warns if aggregated servers would expect other headers.
    ///
    /// # Errors
    /// Returns an error if a header has the UID although that feature is off.
    pub(crate) fn request_headers(&self, gates: &Gates) -> Result<RequestHeaderNames, String> {
        let has_uids = !StringSlice::concat(&self.requestheader_uid_headers).is_empty();
        if has_uids && !gates.is_enabled(Feature::REMOTE_REQUEST_HEADER_UID) {
            let feature = quote(Feature::REMOTE_REQUEST_HEADER_UID.name());
            return Err(format!("--requestheader-uid-headers requires the {feature} feature to be enabled"));
        }
        for (flag, headers, standard) in [
            ("username-headers", &StringSlice::concat(&self.requestheader_username_headers), "X-Remote-User"),
            ("uid-headers", &StringSlice::concat(&self.requestheader_uid_headers), "X-Remote-Uid"),
            ("group-headers", &StringSlice::concat(&self.requestheader_group_headers), "X-Remote-Group"),
            ("extra-headers-prefix", &StringSlice::concat(&self.requestheader_extra_headers_prefix), "X-Remote-Extra-"),
        ] {
            if !headers.is_empty() && !headers.iter().any(|header| header.trim().eq_ignore_ascii_case(standard)) {
                tracing::warn!(
                    target: "pintle::start",
                    "--requestheader-{flag} is set without the standard {standard}: API aggregation will not work"
                );
            }
        }
        Ok(RequestHeaderNames {
            username: StringSlice::concat(&self.requestheader_username_headers),
            uid: StringSlice::concat(&self.requestheader_uid_headers),
            group: StringSlice::concat(&self.requestheader_group_headers),
            extra_prefixes: StringSlice::concat(&self.requestheader_extra_headers_prefix),
            allowed_names: StringSlice::concat(&self.requestheader_allowed_names),
        })
    }
}

/// Parses a claim with its value (upstream: `MapStringString`).
fn parse_claim(text: &str) -> Result<(String, String), String> {
    let (claim, value) =
        text.split_once('=').ok_or_else(|| format!("malformed pair, expect string=string: {text:?}"))?;
    Ok((claim.trim().to_owned(), value.trim().to_owned()))
}
