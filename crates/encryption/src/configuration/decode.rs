//! Reads an `EncryptionConfiguration` strictly.

use std::sync::LazyLock;

use pintle_auth::config_file::{ConfigFileError, ConfigScheme, ConfigTypes};
use pintle_schema::Scalar;
use pintle_value::Value;
use pintle_value::print::quote;

const VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";
/// The other kinds of the version.
const OTHER_KINDS: [&str; 4] =
    ["AdmissionConfiguration", "AuthenticationConfiguration", "AuthorizationConfiguration", "TracingConfiguration"];

static SCHEME: LazyLock<ConfigScheme> = LazyLock::new(|| {
    let mut types = ConfigTypes::default();
    let (text, number) = (types.scalar(Scalar::String), types.scalar(Scalar::Int32));
    let (duration, any) = (types.scalar(Scalar::Duration), types.any());
    let texts = types.list(text);
    let key = types.object("v1.Key", &[("name", text), ("secret", text)]);
    let keys = types.list(key);
    let aes = types.object("v1.AESConfiguration", &[("keys", keys)]);
    let secretbox = types.object("v1.SecretboxConfiguration", &[("keys", keys)]);
    let identity = types.object("v1.IdentityConfiguration", &[]);
    let kms =
        [("apiVersion", text), ("name", text), ("*cachesize", number), ("endpoint", text), ("*timeout", duration)];
    let kms = types.object("v1.KMSConfiguration", &kms);
    let provider =
        [("*aesgcm", aes), ("*aescbc", aes), ("*secretbox", secretbox), ("*identity", identity), ("*kms", kms)];
    let provider = types.object("v1.ProviderConfiguration", &provider);
    let providers = types.list(provider);
    let entry = types.object("v1.ResourceConfiguration", &[("resources", texts), ("providers", providers)]);
    let entries = types.list(entry);
    let fields = [("kind", text), ("apiVersion", text), ("resources", entries)];
    let configuration = types.object("v1.EncryptionConfiguration", &fields);
    // An old name of the kind.
    let mut kinds = vec![(VERSION, KIND, configuration), ("v1", "EncryptionConfig", configuration)];
    kinds.extend(OTHER_KINDS.map(|kind| (VERSION, kind, any)));
    let name = "k8s.io/apiserver/pkg/server/options/encryptionconfig/config.go:142";
    ConfigScheme { name, strict: true, types, kinds }
});

/// Decodes the content of a file. The error does not repeat the content.
pub(super) fn decode(text: &[u8], file: &str) -> Result<Value, String> {
    let decoded = SCHEME.decode(text).map_err(|error| {
        let error = match error {
            ConfigFileError::MissingType { field, .. } => {
                ConfigFileError::MissingType { field, text: "REDACTED".to_owned() }
            }
            error => error,
        };
        format!("error decoding encryption provider configuration file {}: {error}", quote(file))
    })?;
    match decoded.value.str_at(&["kind"]) {
        kind if OTHER_KINDS.contains(&kind) => Err(format!("got unexpected config type: {VERSION}, Kind={kind}")),
        _ => Ok(decoded.value),
    }
}
