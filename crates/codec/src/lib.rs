//! Encoders and decoders for the API's wire formats: JSON, YAML, Protobuf and CBOR to trees and back. They follow the
//! rules and error messages of the Go libraries that kube-apiserver uses. This crate does not know what an object
//! means; types come from the schema.

pub mod cbor;
pub mod go;
pub mod json;
pub mod protobuf;
pub mod yaml;
