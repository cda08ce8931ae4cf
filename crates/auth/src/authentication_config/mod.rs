//! The structured configuration of authenticators, `AuthenticationConfiguration` (upstream:
//! `apiserver/pkg/apis/apiserver`).
//!
//! - `decode`: reads a file strictly.
//! - `expressions`: compiles and evaluates the CEL expressions.
//! - `validate`: upstream's rules.

mod decode;
mod expressions;
#[cfg(test)]
mod tests;
mod validate;

use pintle_value::Str;

pub use decode::load;
pub use expressions::{ClaimsExpression, JwtExpressions, RuleError};
pub use validate::{compile_jwt, validate};

/// How requests are authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationConfiguration {
    /// The issuers of tokens.
    pub jwt: Vec<JwtConfig>,
    /// The requests that may be anonymous; `None` leaves that to flags.
    pub anonymous: Option<AnonymousConfig>,
}

/// The requests that may be anonymous (`AnonymousAuthConfig`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnonymousConfig {
    /// Whether requests without credentials are allowed.
    pub enabled: bool,
    /// The paths of such requests; empty for all.
    pub paths: Vec<Str>,
}

/// An issuer, and the meaning of its tokens (`JWTAuthenticator`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JwtConfig {
    /// The issuer.
    pub issuer: IssuerConfig,
    /// The rules for the claims.
    pub claim_rules: Vec<ClaimRule>,
    /// The mapping of claims to a user.
    pub mappings: ClaimMappings,
    /// The rules for the user.
    pub user_rules: Vec<UserRule>,
}

/// An issuer (`Issuer`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssuerConfig {
    /// The claim `iss`, and the base of the discovery document's URL.
    pub url: Str,
    /// The URL of the discovery document, if it is not below `url`; empty by default.
    pub discovery_url: Str,
    /// The authorities, in PEM, that the issuer's server is trusted by; empty for the authorities of the system.
    pub certificate_authority: Str,
    /// The accepted audiences. A token must be for at least one of them.
    pub audiences: Vec<Str>,
    /// How audiences are compared: `MatchAny` or empty.
    pub audience_match_policy: Str,
    /// The egress that reaches the issuer; empty for none.
    pub egress_selector_type: Str,
}

/// A rule for the claims (`ClaimValidationRule`): a claim with its value, or an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimRule {
    /// The claim.
    pub claim: Str,
    /// Its value.
    pub required_value: Str,
    /// An expression over `claims`.
    pub expression: Str,
    /// The message if the expression is false.
    pub message: Str,
}

/// A rule for the user (`UserValidationRule`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserRule {
    /// An expression over `user`.
    pub expression: Str,
    /// The message if the expression is false.
    pub message: Str,
}

/// The mapping of claims to a user (`ClaimMappings`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimMappings {
    /// The user name.
    pub username: PrefixedMapping,
    /// The groups.
    pub groups: PrefixedMapping,
    /// The uid.
    pub uid: Mapping,
    /// Extra attributes.
    pub extra: Vec<ExtraMapping>,
}

/// A claim with a prefix, or an expression (`PrefixedClaimOrExpression`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixedMapping {
    /// The claim.
    pub claim: Str,
    /// The prefix of its value.
    pub prefix: Option<Str>,
    /// An expression over `claims`.
    pub expression: Str,
}

/// A claim or an expression (`ClaimOrExpression`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// The claim.
    pub claim: Str,
    /// An expression over `claims`.
    pub expression: Str,
}

/// An extra attribute (`ExtraMapping`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraMapping {
    /// The attribute.
    pub key: Str,
    /// An expression over `claims`.
    pub expression: Str,
}
