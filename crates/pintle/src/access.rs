//! Who may do what: the authenticators and authorizers of a server, made from its options.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use pintle_auth::user::SYSTEM_PRIVILEGED_GROUP;
use pintle_auth::{
    AlwaysAllow, AlwaysDeny, AnonymousAuthenticator, AudienceAgnosticAuthenticator, Authenticator, Authorizer,
    BearerTokenAuthenticator, CachedTokenAuthenticator, ClientCertificateAuthenticator, Impersonator, PrivilegedGroup,
    RequestHeaderAuthenticator, RequestHeaders, TokenAuthenticator, TokenFileAuthenticator, UnionAuthenticator,
    UnionAuthorizer, UnionTokenAuthenticator, VerifyCertificate,
};
use pintle_gates::{Feature, Gates};
use pintle_registry::ApiError;
use pintle_server::{AccessBuilder, AccessControl, Cluster, NodeAuthorizer, RbacAuthorizer, token_cache_observer};

use crate::StartError;
use crate::service_accounts::ServiceAccountAuthentication;
use crate::serving::ServingTls;

/// The options of authentication and authorization.
#[derive(Clone, Debug)]
pub struct AccessOptions {
    /// The content of a static token file (`--token-auth-file`).
    pub tokens: Option<String>,
    /// Whether requests without credentials are of the user `system:anonymous` (`--anonymous-auth`). Not observed if
    /// everything is allowed.
    pub anonymous: bool,
    /// The headers in which front proxies name users (`--requestheader-username-headers` and others). They count if
    /// there is an authority of front proxies, see [`TlsOptions`](crate::TlsOptions).
    pub request_headers: RequestHeaders,
    /// The common names of front proxies; empty for all (`--requestheader-allowed-names`).
    pub request_header_allowed_names: Vec<String>,
    /// The authorizers, in order (`--authorization-mode`).
    pub authorization_modes: Vec<AuthorizationMode>,
}

impl Default for AccessOptions {
    /// The options for tests: every authenticated user may do everything.
    fn default() -> Self {
        Self {
            tokens: None,
            anonymous: true,
            request_headers: RequestHeaders::default(),
            request_header_allowed_names: Vec::new(),
            authorization_modes: vec![AuthorizationMode::AlwaysAllow],
        }
    }
}

/// An authorizer (`--authorization-mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthorizationMode {
    /// Allows everything.
    AlwaysAllow,
    /// Allows nothing.
    AlwaysDeny,
    /// Decides by roles and bindings.
    Rbac,
    /// Decides about nodes by the objects that their pods refer to.
    Node,
}

impl AuthorizationMode {
    /// All modes, in upstream's order.
    pub const ALL: [Self; 4] = [Self::AlwaysAllow, Self::AlwaysDeny, Self::Rbac, Self::Node];

    /// The name in flags and configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AlwaysAllow => "AlwaysAllow",
            Self::AlwaysDeny => "AlwaysDeny",
            Self::Rbac => "RBAC",
            Self::Node => "Node",
        }
    }

    fn authorizer(self, cluster: &Arc<Cluster>) -> Result<Box<dyn Authorizer>, ApiError> {
        Ok(match self {
            Self::AlwaysAllow => Box::new(AlwaysAllow),
            Self::AlwaysDeny => Box::new(AlwaysDeny),
            Self::Rbac => Box::new(RbacAuthorizer::new(cluster)?),
            Self::Node => Box::new(NodeAuthorizer::new(cluster)),
        })
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

impl AccessOptions {
    /// True if roles and bindings decide.
    #[must_use]
    pub fn uses_rbac(&self) -> bool {
        self.authorization_modes.contains(&AuthorizationMode::Rbac)
    }

    /// Checks the options, with upstream's messages.
    fn validate(&self) -> Result<(), String> {
        let modes = &self.authorization_modes;
        if modes.is_empty() {
            return Err("at least one authorization-mode must be passed".to_owned());
        }
        if modes.iter().collect::<HashSet<_>>().len() != modes.len() {
            let modes: Vec<_> = modes.iter().map(|mode| format!("{:?}", mode.name())).collect();
            return Err(format!("authorization-mode [{}] has mode specified more than once", modes.join(" ")));
        }
        Ok(())
    }

    /// Returns what builds the authenticators and authorizers when the cluster is there.
    ///
    /// # Errors
    /// The options are invalid.
    pub(crate) fn build(
        self,
        tls: &Arc<ServingTls>,
        gates: &Gates,
        accounts: ServiceAccountAuthentication,
    ) -> Result<AccessBuilder, StartError> {
        self.validate().map_err(StartError::Options)?;
        let mut authenticators: Vec<Box<dyn Authenticator>> = Vec::new();
        if tls.has_front_proxies() {
            let tls = tls.clone();
            authenticators.push(Box::new(RequestHeaderAuthenticator {
                verify: Box::new(move |leaf, rest| tls.verify_front_proxy(leaf, rest)),
                allowed_names: self.request_header_allowed_names.clone(),
                headers: self.request_headers.clone(),
            }));
        }
        let reads_uid = gates.is_enabled(Feature::ALLOW_PARSING_USER_UID_FROM_CERT_AUTH);
        let user_tls = tls.clone();
        let verify: VerifyCertificate = Box::new(move |leaf, rest| user_tls.verify_user(leaf, rest));
        authenticators.push(Box::new(ClientCertificateAuthenticator::new(verify, reads_uid)));
        let token_file = self.tokens.as_deref().map(TokenFileAuthenticator::parse).transpose()?;
        let allows_anonymous = self.allows_anonymous();
        let impersonator = Impersonator::new(gates.is_enabled(Feature::CONSTRAINED_IMPERSONATION));
        Ok(Box::new(move |cluster| {
            let mut tokens: Vec<Box<dyn TokenAuthenticator>> = Vec::new();
            if let Some(authenticator) = token_file {
                let audiences = accounts.audiences.clone();
                tokens.push(Box::new(AudienceAgnosticAuthenticator { authenticator, audiences }));
            }
            tokens.extend(accounts.authenticators(cluster));
            let tokens = UnionTokenAuthenticator(tokens);
            let tokens = CachedTokenAuthenticator::new(tokens, accounts.cache, token_cache_observer(cluster));
            authenticators.push(Box::new(BearerTokenAuthenticator(tokens)));
            let authenticator = UnionAuthenticator(authenticators);
            let authenticator: Box<dyn Authenticator> = match allows_anonymous {
                true => Box::new(AnonymousAuthenticator { authenticator, paths: Vec::new() }),
                false => Box::new(authenticator),
            };
            let mut authorizers: Vec<Box<dyn Authorizer>> = vec![Box::new(PrivilegedGroup(SYSTEM_PRIVILEGED_GROUP))];
            for mode in self.authorization_modes {
                authorizers.push(mode.authorizer(cluster)?);
            }
            Ok(AccessControl { authenticator, authorizer: Box::new(UnionAuthorizer(authorizers)), impersonator })
        }))
    }

    /// As upstream, nobody is anonymous where everything is allowed.
    fn allows_anonymous(&self) -> bool {
        let everything_allowed = self.authorization_modes.contains(&AuthorizationMode::AlwaysAllow);
        if self.anonymous && everything_allowed {
            tracing::warn!(
                target: "pintle::start",
                "Requests without credentials are rejected, because the authorization mode AlwaysAllow would allow them \
                 everything"
            );
        }
        self.anonymous && !everything_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_checked_as_upstream_does() {
        let validate = |modes: &str| -> Result<(), String> {
            let modes: Result<Vec<AuthorizationMode>, String> =
                modes.split(',').filter(|mode| !mode.is_empty()).map(str::parse).collect();
            AccessOptions { authorization_modes: modes?, ..AccessOptions::default() }.validate()
        };
        for (modes, expect) in [
            ("RBAC", Ok(())),
            ("AlwaysDeny,RBAC", Ok(())),
            ("Node,RBAC", Ok(())),
            ("", Err("at least one authorization-mode must be passed")),
            ("RBAC,rbac", Err("authorization-mode \"rbac\" is not a valid mode")),
            ("RBAC,RBAC", Err("authorization-mode [\"RBAC\" \"RBAC\"] has mode specified more than once")),
        ] {
            assert_eq!(validate(modes), expect.map_err(str::to_owned), "{modes}");
        }
    }
}
