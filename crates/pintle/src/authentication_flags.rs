//! The flags of authentication, except those of service accounts.

use std::path::PathBuf;

use clap::ArgAction;
use pintle::RequestHeaderNames;

/// The flags of authentication.
#[derive(clap::Args)]
pub(crate) struct AuthenticationFlags {
    /// Enables anonymous requests to the secure port of the API server. Requests that are not rejected by another
    /// authentication method are treated as anonymous requests. Anonymous requests have a username of
    /// system:anonymous, and a group name of system:unauthenticated.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = true, action = ArgAction::Set)]
    pub(crate) anonymous_auth: bool,
    /// A CSV file with static bearer tokens for authentication, one per line: token,user,uid,"group1,group2".
    #[arg(long, value_name = "FILE")]
    pub(crate) token_auth_file: Option<PathBuf>,
    /// Enable to allow secrets of type 'bootstrap.kubernetes.io/token' in the 'kube-system' namespace to be used for TLS
    /// bootstrapping authentication.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = false, action = ArgAction::Set)]
    pub(crate) enable_bootstrap_token_auth: bool,
    /// The file with certificate authorities, in PEM, whose client certificates authenticate users, beside those of the
    /// server's own authority. The common name is the user.
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca_file: Option<PathBuf>,
    /// Root certificate bundle to use to verify client certificates on incoming requests before trusting usernames in
    /// headers specified by --requestheader-username-headers.
    #[arg(long, value_name = "FILE")]
    pub(crate) requestheader_client_ca_file: Option<PathBuf>,
    /// List of client certificate common names to allow to provide usernames in headers specified by
    /// --requestheader-username-headers. If empty, any client certificate validated by the authorities in
    /// --requestheader-client-ca-file is allowed.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    requestheader_allowed_names: Vec<String>,
    /// List of request headers to inspect for usernames. X-Remote-User is common.
    #[arg(long, value_name = "HEADER,...", value_delimiter = ',')]
    requestheader_username_headers: Vec<String>,
    /// List of request headers to inspect for UIDs. X-Remote-Uid is suggested.
    #[arg(long, value_name = "HEADER,...", value_delimiter = ',')]
    requestheader_uid_headers: Vec<String>,
    /// List of request headers to inspect for groups. X-Remote-Group is suggested.
    #[arg(long, value_name = "HEADER,...", value_delimiter = ',')]
    requestheader_group_headers: Vec<String>,
    /// List of request header prefixes to inspect. X-Remote-Extra- is suggested.
    #[arg(long, value_name = "PREFIX,...", value_delimiter = ',')]
    requestheader_extra_headers_prefix: Vec<String>,
}

impl AuthenticationFlags {
    /// The headers in which front proxies name users. Warns if aggregated servers would expect others.
    pub(crate) fn request_headers(&self) -> RequestHeaderNames {
        for (flag, headers, standard) in [
            ("username-headers", &self.requestheader_username_headers, "X-Remote-User"),
            ("uid-headers", &self.requestheader_uid_headers, "X-Remote-Uid"),
            ("group-headers", &self.requestheader_group_headers, "X-Remote-Group"),
            ("extra-headers-prefix", &self.requestheader_extra_headers_prefix, "X-Remote-Extra-"),
        ] {
            if !headers.is_empty() && !headers.iter().any(|header| header.trim().eq_ignore_ascii_case(standard)) {
                tracing::warn!(
                    target: "pintle::start",
                    "--requestheader-{flag} is set without the standard {standard}: API aggregation will not work"
                );
            }
        }
        RequestHeaderNames {
            username: self.requestheader_username_headers.clone(),
            uid: self.requestheader_uid_headers.clone(),
            group: self.requestheader_group_headers.clone(),
            extra_prefixes: self.requestheader_extra_headers_prefix.clone(),
            allowed_names: self.requestheader_allowed_names.clone(),
        }
    }
}
