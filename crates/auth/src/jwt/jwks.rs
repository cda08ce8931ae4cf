//! Sets of JSON Web Keys (RFC 7517).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::der::trim_zeros;
use super::key::{Curve, Material};
use super::{Algorithm, PublicKey};

/// A text that is not a set of keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed JSON Web Key Set: {0}")]
pub struct JwksError(String);

/// A key, with its members in the order in which upstream writes them.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct JsonWebKey {
    #[serde(rename = "use", skip_serializing_if = "String::is_empty")]
    usage: String,
    kty: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    kid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    crv: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    alg: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    x: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    y: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    n: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    e: String,
}

#[derive(Serialize)]
struct WrittenSet {
    keys: Vec<JsonWebKey>,
}

#[derive(Deserialize)]
struct ReceivedSet {
    keys: Vec<serde_json::Value>,
}

impl JsonWebKey {
    fn of(key: &PublicKey) -> Self {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let common = Self {
            usage: "sig".to_owned(),
            kid: key.id().to_owned(),
            alg: key.algorithm().name().to_owned(),
            ..Self::default()
        };
        match &key.material {
            Material::Rsa { modulus, exponent } => {
                Self { kty: "RSA".to_owned(), n: encode(modulus), e: encode(exponent), ..common }
            }
            Material::Ec { curve, point } => {
                let (x, y) = point.get(1..).unwrap_or_default().split_at(curve.size());
                Self { kty: "EC".to_owned(), crv: curve.name().to_owned(), x: encode(x), y: encode(y), ..common }
            }
        }
    }

    /// The key; `None` if it is not for signatures or of an unsupported type.
    fn public_key(self) -> Option<PublicKey> {
        if !matches!(&*self.usage, "" | "sig") {
            return None;
        }
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let material = match &*self.kty {
            "RSA" => {
                let (modulus, exponent) = (decode(&self.n)?, decode(&self.e)?);
                Material::Rsa { modulus: trim_zeros(&modulus).to_vec(), exponent: trim_zeros(&exponent).to_vec() }
            }
            "EC" => {
                let curve = Curve::ALL.into_iter().find(|curve| curve.name() == self.crv)?;
                let point = [vec![4], decode(&self.x)?, decode(&self.y)?];
                let is_complete = point[1].len() == curve.size() && point[2].len() == curve.size();
                Material::ec(curve, &point.concat()).filter(|_| is_complete)?
            }
            _ => return None,
        };
        // A key that is bound to an unknown algorithm verifies nothing.
        let algorithm = match &*self.alg {
            "" => None,
            name => Some(Algorithm::from_name(name)?),
        };
        Some(PublicKey::published(material, self.kid, algorithm))
    }
}

/// Writes a set of keys, for signatures.
#[must_use]
pub fn write_jwks<'k>(keys: impl IntoIterator<Item = &'k PublicKey>) -> String {
    let set = WrittenSet { keys: keys.into_iter().map(JsonWebKey::of).collect() };
    // A structure of texts can always be written.
    serde_json::to_string(&set).unwrap_or_default()
}

/// Reads a set of keys. Keys that are not for signatures, or of an unsupported type, are skipped. A key is bound to the
/// algorithm that it names.
///
/// # Errors
/// The text is not a JSON object with a list of keys.
pub fn parse_jwks(json: &[u8]) -> Result<Vec<PublicKey>, JwksError> {
    let set: ReceivedSet = serde_json::from_slice(json).map_err(|error| JwksError(error.to_string()))?;
    let keys = set.keys.into_iter().filter_map(|key| serde_json::from_value::<JsonWebKey>(key).ok());
    Ok(keys.filter_map(JsonWebKey::public_key).collect())
}
