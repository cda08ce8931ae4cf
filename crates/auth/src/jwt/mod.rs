//! JSON Web Tokens (RFC 7515, 7517, 7518, 7519): tokens in the compact serialization with one signature, public keys that
//! verify them, and keys that sign them. Nothing here knows who issues a token or what its claims mean.
//!
//! The key decides which algorithms verify a token; the header of a token only selects one of them. Keys are asymmetric,
//! so there is neither `none` nor an HMAC that a public key could be taken for. Headers that name a key or a place of
//! keys (`jwk`, `jku`, `x5c`, `x5u`) are not read.

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
