//! pintle-registry
