//! Server-side apply: who owns which field of an object, what changes when someone applies a configuration, and with
//! whom that conflicts. Behaves as sigs.k8s.io/structured-merge-diff does (KEP-555). Five layers, each readable without
//! the next: [`path`], [`set`], [`typed`], [`managers`], [`managed_fields`]. Pure: no I/O, and the time is an argument.

pub mod managed_fields;
pub mod managers;
pub mod path;
pub mod set;
pub mod typed;
