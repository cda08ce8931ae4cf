//! Validates an `AuthenticationConfiguration` (upstream: `apis/apiserver/validation`).

use std::collections::HashSet;

use pintle_value::names::domain_prefixed_path;
use pintle_value::url::parse_reference;
use pintle_value::{Errors, FieldError, FieldPath, Str, Value, object};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::expressions::{ClaimsExpression, JwtExpressions};
use super::{
    AuthenticationConfiguration, ClaimMappings, ClaimRule, IssuerConfig, JwtConfig, PrefixedMapping, UserRule,
};

/// Upstream's limit of the number of issuers.
const MAX_ISSUERS: usize = 64;
const MATCH_ANY: &str = "MatchAny";
const BOTH: &str = "claim and expression can't both be set";

/// Validates a configuration. The disallowed issuers are the issuers of service account tokens. The flag allows issuers
/// to name the network in which they are.
#[must_use]
pub fn validate(
    configuration: &AuthenticationConfiguration,
    disallowed_issuers: &[Str],
    allows_egress_selectors: bool,
) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("jwt");
    if configuration.jwt.len() > MAX_ISSUERS {
        errors.push(FieldError::too_many(&path, configuration.jwt.len(), MAX_ISSUERS));
        return errors;
    }
    let (mut urls, mut discovery_urls) = (HashSet::new(), HashSet::new());
    for (i, jwt) in configuration.jwt.iter().enumerate() {
        let path = path.index(i);
        errors.append(check_jwt(&path, jwt, disallowed_issuers).1);
        if !allows_egress_selectors {
            refuse_egress_selector(&path.child("issuer"), &jwt.issuer, &mut errors);
        }
        let issuer_path = path.child("issuer");
        if !urls.insert(&jwt.issuer.url) {
            errors.duplicate(&issuer_path.child("url"), jwt.issuer.url.as_str());
        }
        if !jwt.issuer.discovery_url.is_empty() && !discovery_urls.insert(&jwt.issuer.discovery_url) {
            errors.duplicate(&issuer_path.child("discoveryURL"), jwt.issuer.discovery_url.as_str());
        }
    }
    if let Some(anonymous) = &configuration.anonymous
        && !anonymous.enabled
        && !anonymous.paths.is_empty()
    {
        // Upstream shows the structs, which have no JSON names.
        let conditions = anonymous.paths.iter().map(|path| object! {"Path": path.clone()}).collect();
        let detail = "enabled should be set to true when conditions are defined";
        errors.invalid(&FieldPath::new("anonymous").child("conditions"), Value::Array(conditions), detail);
    }
    errors
}

/// Compiles the expressions of an issuer.
///
/// # Errors
/// The configuration of the issuer is not valid.
pub fn compile_jwt(jwt: &JwtConfig) -> Result<JwtExpressions, String> {
    let (expressions, errors) = check_jwt(&FieldPath::new("jwt"), jwt, &[]);
    if errors.is_empty() { Ok(expressions) } else { Err(errors.message()) }
}

fn check_jwt(path: &FieldPath<'_>, jwt: &JwtConfig, disallowed: &[Str]) -> (JwtExpressions, Errors) {
    let (mut expressions, mut errors) = (JwtExpressions::default(), Errors::new());
    check_issuer(&path.child("issuer"), &jwt.issuer, disallowed, &mut errors);
    check_claim_rules(&path.child("claimValidationRules"), &jwt.claim_rules, &mut expressions, &mut errors);
    check_mappings(&path.child("claimMappings"), &jwt.mappings, &mut expressions, &mut errors);
    check_user_rules(&path.child("userValidationRules"), &jwt.user_rules, &mut expressions, &mut errors);
    (expressions, errors)
}

fn check_issuer(path: &FieldPath<'_>, issuer: &IssuerConfig, disallowed: &[Str], errors: &mut Errors) {
    let url_path = path.child("url");
    if issuer.url.is_empty() {
        errors.required(&url_path, "");
    } else {
        check_url(&url_path, &issuer.url, disallowed, errors);
    }
    if !issuer.discovery_url.is_empty() {
        let (url, discovery) = (issuer.url.trim_end_matches('/'), issuer.discovery_url.trim_end_matches('/'));
        let path = path.child("discoveryURL");
        if !issuer.url.is_empty() && url == discovery {
            errors.invalid(&path, issuer.discovery_url.as_str(), "discoveryURL must be different from URL");
        }
        check_url(&path, &issuer.discovery_url, &[], errors);
    }
    check_audiences(path, issuer, errors);
    if !issuer.certificate_authority.is_empty()
        && let Err(error) = check_certificates(&issuer.certificate_authority)
    {
        errors.invalid(&path.child("certificateAuthority"), "<omitted>", error);
    }
    if !matches!(&*issuer.egress_selector_type, "" | "controlplane" | "cluster") {
        let detail = "egress selector must be either controlplane or cluster";
        errors.invalid(&path.child("egressSelectorType"), issuer.egress_selector_type.as_str(), detail);
    }
}

fn refuse_egress_selector(path: &FieldPath<'_>, issuer: &IssuerConfig, errors: &mut Errors) {
    if !issuer.egress_selector_type.is_empty() {
        let detail = "egress selector is not supported when StructuredAuthenticationConfigurationEgressSelector feature \
                      gate is disabled";
        errors.invalid(&path.child("egressSelectorType"), issuer.egress_selector_type.as_str(), detail);
    }
}

fn check_url(path: &FieldPath<'_>, text: &str, disallowed: &[Str], errors: &mut Errors) {
    if disallowed.iter().any(|issuer| issuer == text) {
        let mut issuers: Vec<&str> = disallowed.iter().map(Str::as_str).collect();
        issuers.sort_unstable();
        issuers.dedup();
        let detail = format!("URL must not overlap with disallowed issuers: [{}]", issuers.join(" "));
        errors.invalid(path, text, detail);
    }
    let (url, fragment) = match parse_reference(text) {
        Ok(parsed) => parsed,
        Err(error) => return errors.invalid(path, text, error),
    };
    let authority = url.rest.strip_prefix("//").and_then(|rest| rest.split(['/', '?', '#']).next());
    for (is_wrong, detail) in [
        (url.scheme != "https", "URL scheme must be https"),
        (authority.is_some_and(|it| it.contains('@')), "URL must not contain a username or password"),
        (!url.query.is_empty(), "URL must not contain a query"),
        (!fragment.is_empty(), "URL must not contain a fragment"),
    ] {
        if is_wrong {
            errors.invalid(path, text, detail);
        }
    }
}

fn check_audiences(path: &FieldPath<'_>, issuer: &IssuerConfig, errors: &mut Errors) {
    let (audiences_path, policy_path) = (path.child("audiences"), path.child("audienceMatchPolicy"));
    let audiences = &issuer.audiences;
    if audiences.is_empty() {
        return errors.required(&audiences_path, format!("at least one {audiences_path} is required"));
    }
    let mut seen = HashSet::new();
    for (i, audience) in audiences.iter().enumerate() {
        let path = audiences_path.index(i);
        if audience.is_empty() {
            errors.required(&path, "");
        }
        if !seen.insert(audience) {
            errors.duplicate(&path, audience.as_str());
        }
    }
    let policy = issuer.audience_match_policy.as_str();
    if audiences.len() > 1 && policy != MATCH_ANY {
        errors.invalid(&policy_path, policy, "audienceMatchPolicy must be MatchAny for multiple audiences");
    }
    if audiences.len() == 1 && !matches!(policy, "" | MATCH_ANY) {
        errors.invalid(&policy_path, policy, "audienceMatchPolicy must be empty or MatchAny for single audience");
    }
}

/// Checks that there are certificates (upstream: `cert.NewPoolFromBytes`).
fn check_certificates(pem: &str) -> Result<(), String> {
    let none = || "data does not contain any valid RSA or ECDSA certificates".to_owned();
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|_| none())?;
        x509_parser::parse_x509_certificate(&certificate).map_err(|_| "x509: malformed certificate".to_owned())?;
        count += 1;
    }
    if count == 0 { Err(none()) } else { Ok(()) }
}

fn check_claim_rules(path: &FieldPath<'_>, rules: &[ClaimRule], expressions: &mut JwtExpressions, errors: &mut Errors) {
    let (mut claims, mut texts) = (HashSet::new(), HashSet::new());
    for (i, rule) in rules.iter().enumerate() {
        let path = path.index(i);
        let ClaimRule { claim, required_value, expression, message } = rule;
        match (claim.is_empty(), expression.is_empty()) {
            (false, false) => errors.invalid(&path, claim.as_str(), BOTH),
            (true, true) => errors.required(&path, "claim or expression is required"),
            (false, true) => {
                if !message.is_empty() {
                    let detail = "may not be specified when claim is set";
                    errors.invalid(&path.child("message"), message.as_str(), detail);
                }
                if !claims.insert(claim) {
                    errors.duplicate(&path.child("claim"), claim.as_str());
                }
            }
            (true, false) => {
                if !required_value.is_empty() {
                    let detail = "may not be specified when expression is set";
                    errors.invalid(&path.child("requiredValue"), required_value.as_str(), detail);
                }
                let path = path.child("expression");
                if !texts.insert(expression) {
                    errors.duplicate(&path, expression.as_str());
                } else if let Some(compiled) = keep(ClaimsExpression::claim_rule(expression), &path, expression, errors)
                {
                    expressions.claim_rules.push((compiled, message.clone()));
                }
            }
        }
    }
}

fn check_user_rules(path: &FieldPath<'_>, rules: &[UserRule], expressions: &mut JwtExpressions, errors: &mut Errors) {
    let mut texts = HashSet::new();
    for (i, UserRule { expression, message }) in rules.iter().enumerate() {
        let path = path.index(i);
        let path = path.child("expression");
        if expression.is_empty() {
            errors.required(&path, "");
        } else if !texts.insert(expression) {
            errors.duplicate(&path, expression.as_str());
        } else if let Some(compiled) = keep(ClaimsExpression::user_rule(expression), &path, expression, errors) {
            expressions.user_rules.push((compiled, message.clone()));
        }
    }
}

fn check_mappings(
    path: &FieldPath<'_>,
    mappings: &ClaimMappings,
    expressions: &mut JwtExpressions,
    errors: &mut Errors,
) {
    expressions.username = check_prefixed(&path.child("username"), &mappings.username, true, errors);
    expressions.groups = check_prefixed(&path.child("groups"), &mappings.groups, false, errors);
    let uid_path = path.child("uid");
    match (mappings.uid.claim.is_empty(), mappings.uid.expression.is_empty()) {
        (false, false) => errors.invalid(&uid_path, "", BOTH),
        (true, false) => {
            let expression = &mappings.uid.expression;
            let compiled = ClaimsExpression::mapping(expression);
            expressions.uid = keep(compiled, &uid_path.child("expression"), expression, errors);
        }
        (_, true) => {}
    }
    let mut keys = HashSet::new();
    let extra_path = path.child("extra");
    for (i, mapping) in mappings.extra.iter().enumerate() {
        let path = extra_path.index(i);
        let (key, key_path) = (mapping.key.as_str(), path.child("key"));
        errors.append(domain_prefixed_path(&key_path, key));
        if key != key.to_lowercase() {
            errors.invalid(&key_path, key, "must be lowercase");
        }
        if is_reserved_key(key) {
            let detail = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
            errors.invalid(&key_path, key, detail);
        }
        if !keys.insert(key) {
            errors.duplicate(&key_path, key);
            continue;
        }
        let (expression, path) = (&mapping.expression, path.child("valueExpression"));
        if expression.is_empty() {
            errors.required(&path, "");
        } else if let Some(compiled) = keep(ClaimsExpression::mapping(expression), &path, expression, errors) {
            expressions.extra.push((mapping.key.clone(), compiled));
        }
    }
    let username = expressions.username.as_ref();
    let mut others = expressions.extra.iter().map(|(_, expression)| expression);
    let mut rules = expressions.claim_rules.iter().map(|(rule, _)| rule);
    let is_verified = username.is_some_and(|username| username.uses_email_verified)
        || others.any(|expression| expression.uses_email_verified)
        || rules.any(|rule| rule.uses_email_verified);
    if username.is_some_and(|username| username.uses_email) && !is_verified {
        let detail = "claims.email_verified must be used in claimMappings.username.expression or \
                      claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email \
                      is used in claimMappings.username.expression";
        let path = path.child("username");
        errors.invalid(&path.child("expression"), mappings.username.expression.as_str(), detail);
    }
}

/// True for keys of extra attributes that only Kubernetes sets.
fn is_reserved_key(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return false };
    ["kubernetes.io", "k8s.io"]
        .iter()
        .any(|reserved| domain.strip_suffix(reserved).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn check_prefixed(
    path: &FieldPath<'_>,
    mapping: &PrefixedMapping,
    is_required: bool,
    errors: &mut Errors,
) -> Option<ClaimsExpression> {
    let PrefixedMapping { claim, prefix, expression } = mapping;
    match (claim.is_empty(), expression.is_empty()) {
        (false, false) => errors.invalid(path, "", BOTH),
        (true, true) if is_required => errors.required(path, "claim or expression is required"),
        (true, true) => {}
        (true, false) => {
            let compiled = ClaimsExpression::mapping(expression);
            if let Some(prefix) = prefix {
                let detail = "may not be specified when expression is set";
                errors.invalid(&path.child("prefix"), prefix.as_str(), detail);
            }
            let compiled = keep(compiled, &path.child("expression"), expression, errors);
            return compiled.filter(|_| prefix.is_none());
        }
        (false, true) => {
            if prefix.is_none() {
                let detail =
                    "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                errors.required(&path.child("prefix"), detail);
            }
        }
    }
    None
}

/// Returns the compiled expression, or records its error.
fn keep(
    compiled: Result<ClaimsExpression, String>,
    path: &FieldPath<'_>,
    text: &Str,
    errors: &mut Errors,
) -> Option<ClaimsExpression> {
    compiled.map_err(|error| errors.invalid(path, text.as_str(), error)).ok()
}
