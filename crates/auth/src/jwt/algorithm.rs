//! Signature algorithms (RFC 7518, section 3.1). `ES512` is missing: `ring` has no P-521.

use ring::signature::{
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
};

/// A signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// ECDSA with P-384 and SHA-384.
    Es384,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
}

impl Algorithm {
    /// All algorithms, ordered by name.
    pub const ALL: [Algorithm; 8] = [
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::Ps256,
        Algorithm::Ps384,
        Algorithm::Ps512,
        Algorithm::Rs256,
        Algorithm::Rs384,
        Algorithm::Rs512,
    ];

    /// The name in the header `alg`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::Ps256 => "PS256",
            Algorithm::Ps384 => "PS384",
            Algorithm::Ps512 => "PS512",
            Algorithm::Rs256 => "RS256",
            Algorithm::Rs384 => "RS384",
            Algorithm::Rs512 => "RS512",
        }
    }

    /// The algorithm of a name, which is case-sensitive.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// How an RSA key verifies signatures of this algorithm; `None` for algorithms of other keys.
    pub(super) fn rsa_parameters(self) -> Option<&'static RsaParameters> {
        match self {
            Algorithm::Es256 | Algorithm::Es384 => None,
            Algorithm::Ps256 => Some(&RSA_PSS_2048_8192_SHA256),
            Algorithm::Ps384 => Some(&RSA_PSS_2048_8192_SHA384),
            Algorithm::Ps512 => Some(&RSA_PSS_2048_8192_SHA512),
            Algorithm::Rs256 => Some(&RSA_PKCS1_2048_8192_SHA256),
            Algorithm::Rs384 => Some(&RSA_PKCS1_2048_8192_SHA384),
            Algorithm::Rs512 => Some(&RSA_PKCS1_2048_8192_SHA512),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_case_sensitive() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::from_name(algorithm.name()), Some(algorithm));
            assert_eq!(Algorithm::from_name(&algorithm.name().to_lowercase()), None);
        }
        for name in ["", "none", "None", "HS256", "ES512", "ES256K", "EdDSA"] {
            assert_eq!(Algorithm::from_name(name), None, "{name}");
        }
    }
}
