//! YAML as `sigs.k8s.io/yaml` reads and writes it: YAML 1.1 scalars as goyaml v2 resolves them, keys converted to
//! strings, and the output format of `kubectl get -o yaml`. Decoding has five layers, each of which uses only the one
//! before it: characters (`reader`), tokens (`scanner`, with `scalars` and `tags`), events (`parser`), nodes and values
//! (`decode`), and the types of plain scalars (`resolve`).

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
