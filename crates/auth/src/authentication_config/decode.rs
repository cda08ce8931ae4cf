//! Reads an `AuthenticationConfiguration` of any version (upstream: `loadAuthenticationConfigFromData`). The
//! configuration has no defaults.

use std::sync::LazyLock;

use pintle_schema::Scalar;
use pintle_value::{Str, Value};

use super::{
    AnonymousConfig, AuthenticationConfiguration, ClaimMappings, ClaimRule, ExtraMapping, IssuerConfig, JwtConfig,
    Mapping, PrefixedMapping, UserRule,
};
use crate::config_file::{ConfigScheme, ConfigTypes};

const KIND: &str = "AuthenticationConfiguration";

static SCHEME: LazyLock<ConfigScheme> = LazyLock::new(|| {
    let mut types = ConfigTypes::default();
    let (text, flag) = (types.scalar(Scalar::String), types.scalar(Scalar::Bool));
    let texts = types.list(text);
    let mut kinds = Vec::new();
    for (version, package) in [
        ("apiserver.config.k8s.io/v1alpha1", "v1alpha1"),
        ("apiserver.config.k8s.io/v1beta1", "v1beta1"),
        ("apiserver.config.k8s.io/v1", "v1"),
    ] {
        let policy = types.named_text(&format!("{package}.AudienceMatchPolicyType"));
        let egress = types.named_text(&format!("{package}.EgressSelectorType"));
        let mut object = |name: &str, fields: &[(&str, _)]| types.object(&format!("{package}.{name}"), fields);
        let issuer = object(
            "Issuer",
            &[
                ("url", text),
                ("*discoveryURL", text),
                ("certificateAuthority", text),
                ("audiences", texts),
                ("audienceMatchPolicy", policy),
                ("egressSelectorType", egress),
            ],
        );
        let claim_rule = [("claim", text), ("requiredValue", text), ("expression", text), ("message", text)];
        let claim_rule = object("ClaimValidationRule", &claim_rule);
        let user_rule = object("UserValidationRule", &[("expression", text), ("message", text)]);
        let prefixed = [("claim", text), ("*prefix", text), ("expression", text)];
        let prefixed = object("PrefixedClaimOrExpression", &prefixed);
        let mapping = object("ClaimOrExpression", &[("claim", text), ("expression", text)]);
        let extra = object("ExtraMapping", &[("key", text), ("valueExpression", text)]);
        let condition = object("AnonymousAuthCondition", &[("path", text)]);
        let [claim_rules, user_rules, extra, conditions] =
            [claim_rule, user_rule, extra, condition].map(|item| types.list(item));
        let mut object = |name: &str, fields: &[(&str, _)]| types.object(&format!("{package}.{name}"), fields);
        let mappings = [("username", prefixed), ("groups", prefixed), ("uid", mapping), ("extra", extra)];
        let mappings = object("ClaimMappings", &mappings);
        let authenticator = [
            ("issuer", issuer),
            ("claimValidationRules", claim_rules),
            ("claimMappings", mappings),
            ("userValidationRules", user_rules),
        ];
        let authenticator = object("JWTAuthenticator", &authenticator);
        let anonymous = object("AnonymousAuthConfig", &[("enabled", flag), ("conditions", conditions)]);
        let authenticators = types.list(authenticator);
        let fields = [("kind", text), ("apiVersion", text), ("jwt", authenticators), ("*anonymous", anonymous)];
        kinds.push((version, KIND, types.object(&format!("{package}.{KIND}"), &fields)));
    }
    ConfigScheme { name: "pkg/kubeapiserver/options/authentication.go", strict: true, types, kinds }
});

/// Decodes the content of a file. The content is not validated.
///
/// # Errors
/// Returns upstream's message.
pub fn load(text: &[u8]) -> Result<AuthenticationConfiguration, String> {
    if text.is_empty() {
        return Err("empty config data".to_owned());
    }
    let value = SCHEME.decode(text).map_err(|error| error.to_string())?.value;
    Ok(AuthenticationConfiguration {
        jwt: value.items_at(&["jwt"]).iter().map(jwt).collect(),
        anonymous: value.get("anonymous").map(|anonymous| AnonymousConfig {
            enabled: anonymous.bool_at(&["enabled"]),
            paths: anonymous.items_at(&["conditions"]).iter().map(|condition| text_at(condition, "path")).collect(),
        }),
    })
}

fn text_at(value: &Value, field: &str) -> Str {
    value.str_at(&[field]).into()
}

fn jwt(value: &Value) -> JwtConfig {
    static NOTHING: Value = Value::Null;
    let part = |path: &[&str]| value.at(path).unwrap_or(&NOTHING);
    let issuer = part(&["issuer"]);
    let uid = part(&["claimMappings", "uid"]);
    JwtConfig {
        issuer: IssuerConfig {
            url: text_at(issuer, "url"),
            discovery_url: text_at(issuer, "discoveryURL"),
            certificate_authority: text_at(issuer, "certificateAuthority"),
            // Null counts as an empty text, as in Go.
            audiences: issuer.items_at(&["audiences"]).iter().map(|text| text.as_str().unwrap_or("").into()).collect(),
            audience_match_policy: text_at(issuer, "audienceMatchPolicy"),
            egress_selector_type: text_at(issuer, "egressSelectorType"),
        },
        claim_rules: value.items_at(&["claimValidationRules"]).iter().map(claim_rule).collect(),
        mappings: ClaimMappings {
            username: prefixed(part(&["claimMappings", "username"])),
            groups: prefixed(part(&["claimMappings", "groups"])),
            uid: Mapping { claim: text_at(uid, "claim"), expression: text_at(uid, "expression") },
            extra: value.items_at(&["claimMappings", "extra"]).iter().map(extra).collect(),
        },
        user_rules: value.items_at(&["userValidationRules"]).iter().map(user_rule).collect(),
    }
}

fn claim_rule(value: &Value) -> ClaimRule {
    ClaimRule {
        claim: text_at(value, "claim"),
        required_value: text_at(value, "requiredValue"),
        expression: text_at(value, "expression"),
        message: text_at(value, "message"),
    }
}

fn user_rule(value: &Value) -> UserRule {
    UserRule { expression: text_at(value, "expression"), message: text_at(value, "message") }
}

fn prefixed(value: &Value) -> PrefixedMapping {
    PrefixedMapping {
        claim: text_at(value, "claim"),
        prefix: value.get("prefix").and_then(Value::as_str).map(Str::from),
        expression: text_at(value, "expression"),
    }
}

fn extra(value: &Value) -> ExtraMapping {
    ExtraMapping { key: text_at(value, "key"), expression: text_at(value, "valueExpression") }
}
