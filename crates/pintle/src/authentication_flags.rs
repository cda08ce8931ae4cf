//! The flags of authentication, except those of service accounts.

use std::path::PathBuf;

use clap::ArgAction;
use http::HeaderName;
use pintle::RequestHeaders;

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
    pub(crate) requestheader_allowed_names: Vec<String>,
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
    /// The headers in which front proxies name users.
    ///
    /// # Errors
    /// A header has no valid name.
    pub(crate) fn request_headers(&self) -> Result<RequestHeaders, String> {
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
        if self.requestheader_allowed_names.iter().any(|name| name.trim().is_empty()) {
            return Err("empty value in \"requestheader-allowed-names\"".to_owned());
        }
        let prefixes = &self.requestheader_extra_headers_prefix;
        header_names("requestheader-extra-headers-prefix", prefixes)?;
        Ok(RequestHeaders {
            names: header_names("requestheader-username-headers", &self.requestheader_username_headers)?,
            uids: header_names("requestheader-uid-headers", &self.requestheader_uid_headers)?,
            groups: header_names("requestheader-group-headers", &self.requestheader_group_headers)?,
            extra_prefixes: prefixes.iter().map(|prefix| prefix.trim().to_ascii_lowercase()).collect(),
        })
    }
}

fn header_names(flag: &str, names: &[String]) -> Result<Vec<HeaderName>, String> {
    let parse = |name: &String| match name.trim() {
        "" => Err(format!("empty value in {flag:?}")),
        name => HeaderName::try_from(name).map_err(|_| format!("--{flag}: {name:?} is not the name of a header")),
    };
    names.iter().map(parse).collect()
}
