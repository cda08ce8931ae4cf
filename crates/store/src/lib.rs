//! Storage contract and engines.
