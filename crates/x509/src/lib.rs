//! Public keys, signatures and chains of certificates, accepted and refused as Go's `crypto/x509` does (RFC 5280).
//!
//! ```
//! use pintle_x509::{Certificate, Curve, PublicKey, SignatureAlgorithm};
//!
//! // The key and the signature of an empty message in RFC 8032, section 7.1.
//! let decode = |hex: &str| -> Vec<u8> {
//!     (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal")).collect()
//! };
//! let key = "302a300506032b6570032100d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
//! let signature = "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b\
//!                  d25bf5f0595bbe24655141438e7a100b";
//! let key = PublicKey::parse(&decode(key)).expect("an Ed25519 key");
//! assert!(key.verify(SignatureAlgorithm::Ed25519, b"", &decode(signature)));
//! assert!(!key.verify(SignatureAlgorithm::Ed25519, b"other", &decode(signature)));
//!
//! assert!(Certificate::parse(b"no certificate").is_none());
//! ```

mod certificate;
mod chain;
mod keys;
mod names;
mod signature;

pub use certificate::Certificate;
pub use chain::{Authorities, VerifyError};
pub use keys::{Curve, EcdsaKey, PublicKey, RsaKey};
pub use signature::{Hash, SignatureAlgorithm};
