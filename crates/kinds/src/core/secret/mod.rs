//! The strategy for Secret: types and their required keys, `stringData`, size and immutability (upstream:
//! `ValidateSecret`, `ValidateSecretUpdate`, `Convert_v1_Secret_To_core_Secret`).

mod key_pair;

use pintle_codec::json;
use pintle_registry::{Strategy, StrategyContext};
use pintle_schema::base64;
use pintle_value::{Errors, FieldError, FieldPath, Value};

use super::configmap::{MAX_DATA_BYTES, validate_key, validate_unchanged_if_immutable};
use crate::generic::validate_immutable_at;
use crate::pem;

const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// The strategy for Secret.
pub(crate) struct SecretStrategy;

impl Strategy for SecretStrategy {
    fn defaults(&self, object: &mut Value) {
        if object.str_at(&["type"]).is_empty() {
            object.set("type", "Opaque");
        }
        // `stringData` is stored base64-encoded in `data`, where it overwrites equal keys.
        if let Some(Value::Object(texts)) = object.remove("stringData") {
            for (key, text) in texts {
                let bytes = text.as_str().unwrap_or_default().as_bytes();
                object.set_at(&["data", &key], base64::encode(bytes));
            }
        }
    }

    fn prepare_for_update(&self, _: &StrategyContext, object: &mut Value, old: &Value) {
        if object.str_at(&["type"]).is_empty() {
            object.set("type", old.str_at(&["type"]));
        }
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        validate_immutable_at(&mut errors, object, old, &["type"]);
        if let Some(old) = old {
            validate_unchanged_if_immutable(&mut errors, object, old, &["data"]);
        }
        let path = FieldPath::new("data");
        let mut size = 0;
        for (key, value) in object.entries_at(&["data"]) {
            validate_key(&mut errors, &path, key);
            size += decoded_length(value);
        }
        if size > MAX_DATA_BYTES {
            errors.push(FieldError::too_long(&path, MAX_DATA_BYTES));
        }
        validate_type(&mut errors, object, &path);
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, _: Option<&Value>) -> Vec<String> {
        if object.str_at(&["type"]) == "kubernetes.io/tls" {
            tls_warning(object).into_iter().collect()
        } else {
            Vec::new()
        }
    }

    fn selectable_field_names(&self) -> &[&'static str] {
        &["type"]
    }
}

/// Returns the number of bytes that a base64 text encodes.
pub(super) fn decoded_length(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    (text.len() / 4 * 3).saturating_sub(text.bytes().rev().take_while(|b| *b == b'=').count())
}

fn bytes(object: &Value, key: &str) -> Option<Vec<u8>> {
    object.at(&["data", key]).and_then(Value::as_str).map(|text| base64::decode(text.as_bytes()).unwrap_or_default())
}

/// Validates the keys that the type requires. Unknown types are custom types of users.
fn validate_type(errors: &mut Errors, object: &Value, path: &FieldPath<'_>) {
    let has = |key: &str| object.at(&["data", key]).is_some();
    match object.str_at(&["type"]) {
        "kubernetes.io/service-account-token"
            if object.annotation(SERVICE_ACCOUNT_NAME).unwrap_or_default().is_empty() =>
        {
            let path = FieldPath::new("metadata.annotations");
            errors.required(&path.key(SERVICE_ACCOUNT_NAME), "");
        }
        "kubernetes.io/dockercfg" => validate_docker_config(errors, object, ".dockercfg", path),
        "kubernetes.io/dockerconfigjson" => validate_docker_config(errors, object, ".dockerconfigjson", path),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            errors.required(&path.key("username"), "");
            errors.required(&path.key("password"), "");
        }
        "kubernetes.io/ssh-auth" if object.str_at(&["data", "ssh-privatekey"]).is_empty() => {
            errors.required(&path.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !has(key) {
                    errors.required(&path.key(key), "");
                }
            }
        }
        _ => {}
    }
}

/// Validates that a Docker client configuration is a JSON object. The error does not contain its value.
fn validate_docker_config(errors: &mut Errors, object: &Value, key: &str, path: &FieldPath<'_>) {
    let Some(config) = bytes(object, key) else {
        errors.required(&path.key(key), "");
        return;
    };
    let kind = match json::decode(&config, json::DecodeOptions::default()) {
        Ok(decoded) => match decoded.value {
            Value::Object(_) | Value::Null => return,
            other => other.json_type(),
        },
        Err(error) => {
            errors.invalid(&path.key(key), "<secret contents redacted>", error.to_string());
            return;
        }
    };
    let detail = format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}");
    errors.invalid(&path.key(key), "<secret contents redacted>", detail);
}

/// Returns the error of a certificate and its key, in the words of Go's `tls.X509KeyPair`.
fn tls_warning(object: &Value) -> Option<String> {
    let text = |key: &str| String::from_utf8_lossy(&bytes(object, key).unwrap_or_default()).into_owned();
    let is_key = |kind: &str| kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY");

    let certificate = text("tls.crt");
    let blocks: Vec<_> = pem::blocks(&certificate).collect();
    let Some(first) = blocks.iter().find(|block| block.kind == "CERTIFICATE") else {
        let kinds: Vec<&str> = blocks.iter().map(|block| block.kind).collect();
        return Some(match kinds.as_slice() {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [kind] if is_key(kind) => "tls: failed to find certificate PEM data in certificate input, but did find a \
                                       private key; PEM inputs may have been switched"
                .to_owned(),
            kinds => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the \
                 following types: [{}]",
                kinds.join(" ")
            ),
        });
    };
    let key = text("tls.key");
    let blocks: Vec<_> = pem::blocks(&key).collect();
    if let Some(key) = blocks.iter().find(|block| is_key(block.kind)) {
        return key_pair::check(&first.bytes, &key.bytes).err().map(str::to_owned);
    }
    let kinds: Vec<&str> = blocks.iter().map(|block| block.kind).collect();
    Some(match kinds.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        ["CERTIFICATE"] => "tls: found a certificate rather than a key in the PEM for the private key".to_owned(),
        kinds => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks \
             of the following types: [{}]",
            kinds.join(" ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_validation, context, object};

    fn check(new: &str, old: Option<&str>, expect: &[&str]) {
        check_validation(&SecretStrategy, new, old, expect);
    }

    #[test]
    fn string_data_is_stored_as_base64() {
        let mut secret = object(r#"{"data":{"a":"MQ==","b":"Mg=="},"stringData":{"b":"two","c":""}}"#);
        SecretStrategy.defaults(&mut secret);
        assert_eq!(secret, object(r#"{"type":"Opaque","data":{"a":"MQ==","b":"dHdv","c":""}}"#));
    }

    #[test]
    fn types_require_keys() {
        let secret = |kind: &str, data: &str| format!(r#"{{"type":"kubernetes.io/{kind}","data":{{{data}}}}}"#);
        check(r#"{"type":"example.com/mine","data":{"a":""}}"#, None, &[]);
        check(&secret("tls", r#""tls.crt":"""#), None, &["data[tls.key]: Required value"]);
        check(&secret("basic-auth", r#""username":"""#), None, &[]);
        check(&secret("basic-auth", ""), None, &["data[username]: Required value", "data[password]: Required value"]);
        check(&secret("ssh-auth", r#""ssh-privatekey":"""#), None, &["data[ssh-privatekey]: Required value"]);
        check(&secret("dockercfg", ""), None, &["data[.dockercfg]: Required value"]);
        check(&secret("dockerconfigjson", r#"".dockerconfigjson":"e30=""#), None, &[]);
        check(
            &secret("dockerconfigjson", r#"".dockerconfigjson":"W10=""#),
            None,
            &[
                "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": json: cannot unmarshal array into Go value of type map[string]interface {}",
            ],
        );
        check(
            &secret("dockerconfigjson", r#"".dockerconfigjson":"eA==""#),
            None,
            &[
                "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": invalid character 'x' looking for beginning of value",
            ],
        );
        check(
            &secret("service-account-token", ""),
            None,
            &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        );
    }

    #[test]
    fn the_type_is_immutable() {
        check(
            r#"{"type":"a","data":{"x":"MQ=="}}"#,
            Some(r#"{"type":"b","immutable":true}"#),
            &[
                "type: Invalid value: \"a\": field is immutable",
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set",
            ],
        );
    }

    #[test]
    fn pem_of_key_pairs() {
        let pem = |kind: &str| format!("-----BEGIN {kind}-----\nMQ==\n-----END {kind}-----\n");
        let check = |certificate: &str, key: &str, expect: Option<&str>| {
            let encode = |text: &str| base64::encode(text.as_bytes());
            let secret = object(&format!(
                r#"{{"type":"kubernetes.io/tls","data":{{"tls.crt":"{}","tls.key":"{}"}}}}"#,
                encode(certificate),
                encode(key)
            ));
            let warnings = SecretStrategy.warnings(&context(), &secret, None);
            assert_eq!(warnings.first().map(String::as_str), expect);
        };
        check(&pem("CERTIFICATE"), &pem("EC PRIVATE KEY"), Some("x509: malformed certificate"));
        check("", "", Some("tls: failed to find any PEM data in certificate input"));
        check(&pem("CERTIFICATE"), "x", Some("tls: failed to find any PEM data in key input"));
        check(
            &pem("CERTIFICATE"),
            &pem("CERTIFICATE"),
            Some("tls: found a certificate rather than a key in the PEM for the private key"),
        );
    }
}
