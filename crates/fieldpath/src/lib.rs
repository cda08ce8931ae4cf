//! Paths to fields and sets of such paths (upstream: structured-merge-diff's `fieldpath`). [`path`] has the elements of
//! paths and their order, [`set`] has the sets and their serialization in managed fields, `fieldsV1`. A set has no
//! schema: crate `apply` connects sets to types.
//!
//! ```
//! use pintle_fieldpath::path::PathElement;
//! use pintle_fieldpath::set::FieldSet;
//!
//! let set = FieldSet::decode(r#"{"f:spec":{"f:replicas":{}}}"#).expect("a set");
//! assert!(set.has(&[PathElement::field("spec"), PathElement::field("replicas")]));
//! assert_eq!(set.to_string(), ".spec.replicas");
//! ```

pub mod path;
pub mod set;
