//! YAML as `sigs.k8s.io/yaml` reads and writes it: YAML 1.1 scalars as goyaml v2 resolves them, keys made strings, and an
//! output that people know from `kubectl get -o yaml`. The events of a text come from a parser crate; what they mean, and
//! all of the writing, is here.

mod decode;
mod emit;
mod encode;
mod number;
mod resolve;

pub use decode::{DecodeError, Decoded, decode};
pub use encode::encode;
