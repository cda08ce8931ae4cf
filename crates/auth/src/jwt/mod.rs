//! JSON Web Tokens (RFC 7515, 7517, 7518, 7519). A token is in the compact serialization and has one signature. Private
//! keys sign tokens, and public keys verify them. This module does not know the issuers of tokens or the meaning of
//! their claims.
//!
//! The key decides which algorithms verify a token; the header of a token only selects one of them. Keys are
//! asymmetric. So the algorithm `none` does not exist, and a public key cannot be misused as the secret of an HMAC.
//! Headers that contain or locate a key (`jwk`, `jku`, `x5c`, `x5u`) are not read.

mod algorithm;
mod claims;
mod compact;
mod der;
mod jwks;
mod key;
mod signing;

pub use algorithm::Algorithm;
pub use claims::{Audiences, ClaimsTimeError, MalformedClaims, NumericDate, RegisteredClaims, parse_claims};
pub use compact::{CompactJws, JwsHeader, MAX_TOKEN_BYTES, MalformedJws};
pub use jwks::{JwksError, parse_jwks, write_jwks};
pub use key::{KeyError, PublicKey, SignatureError, public_keys_from_pem};
pub use signing::{SigningError, SigningKey};
