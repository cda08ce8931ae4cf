//! JSON, YAML and Protobuf.
