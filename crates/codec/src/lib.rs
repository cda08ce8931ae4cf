//! Encoders and decoders for the API's wire formats: JSON, YAML, Protobuf and CBOR to trees and back. They follow the
//! rules and error messages of the Go libraries that kube-apiserver uses. This crate does not know what an object
//! means; types come from the schema.
//!
//! ```
//! use pintle_codec::{json, yaml};
//!
//! let text = br#"{"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}"#;
//! let map = json::decode(text, json::DecodeOptions::default()).expect("valid JSON").value;
//! assert_eq!(json::encode(&map), br#"{"data":{"k":"v"},"kind":"ConfigMap","metadata":{"name":"a"}}"#);
//! assert_eq!(yaml::encode(&map), b"data:\n  k: v\nkind: ConfigMap\nmetadata:\n  name: a\n");
//!
//! // With the type, the fields have the order of Go's struct.
//! let catalog = pintle_catalog::shared();
//! let config_map = catalog.kind_type("", "v1", "ConfigMap").expect("a kind");
//! let mut typed = Vec::new();
//! json::encode_typed(&map, catalog.types(), config_map, &mut typed);
//! assert!(typed.starts_with(br#"{"kind":"ConfigMap","#) && typed.ends_with(br#","data":{"k":"v"}}"#));
//! ```

pub mod cbor;
pub mod go;
pub mod json;
pub mod protobuf;
pub mod yaml;
