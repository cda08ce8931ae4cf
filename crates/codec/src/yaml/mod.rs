//! YAML as `sigs.k8s.io/yaml` reads and writes it: YAML 1.1 scalars as goyaml v2 resolves them, keys converted to
//! strings, and the output format of `kubectl get -o yaml`. Decoding has five layers. Each uses only the layer before
//! it:
//!
//! 1. characters (`reader`)
//! 2. tokens (`scanner`, with `scalars` and `tags`)
//! 3. events (`parser`)
//! 4. nodes and values (`decode`)
//! 5. the types of plain scalars (`resolve`)

mod decode;
mod emit;
mod encode;
mod encode_json;
mod key;
mod number;
mod parser;
mod reader;
mod resolve;
mod scalars;
mod scanner;
mod tags;

pub use decode::{DecodeError, Decoded, convert_json_numbers, decode, may_be_json};
pub use encode::encode;
pub use encode_json::encode_json;
