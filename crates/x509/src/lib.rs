//! Public keys, signatures and chains of certificates, accepted and refused as Go's `crypto/x509` does (RFC 5280).

mod certificate;
mod chain;
mod keys;
mod names;
mod signature;

pub use certificate::Certificate;
pub use chain::{Authorities, VerifyError};
pub use keys::{Curve, EcdsaKey, PublicKey, RsaKey};
pub use signature::{Hash, SignatureAlgorithm};
