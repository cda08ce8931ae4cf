//! Server-side apply: field ownership, merging, pruning of fields that are no longer applied, and conflicts. Behaves as
//! sigs.k8s.io/structured-merge-diff does (KEP-555). Three layers, each readable without the next: [`typed`],
//! [`merge`], [`managed_fields`]. Pure: no I/O, and the time is an argument.

pub mod managed_fields;
pub mod merge;
pub mod typed;
