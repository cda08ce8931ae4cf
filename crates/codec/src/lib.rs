//! The encodings of the API: JSON, YAML and Protobuf text to trees and back, with the rules and the words of the Go
//! libraries that clients know. What an object means is not known here; types come from the schema.

pub mod cbor;
pub mod go;
pub mod json;
pub mod protobuf;
pub mod yaml;
