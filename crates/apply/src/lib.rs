//! Server-side apply: field ownership, merging, pruning of fields that are no longer applied, and conflicts. Behaves as
//! sigs.k8s.io/structured-merge-diff does (KEP-555). Three layers, each readable without the next: [`typed`],
//! [`merge`], [`managed_fields`]. Pure: no I/O, and the time is an argument.
//!
//! ```
//! use pintle_apply::typed::TypeRef;
//! use pintle_value::{Value, object};
//!
//! let catalog = pintle_catalog::shared();
//! let service = TypeRef::new(catalog.types(), catalog.kind_type("", "v1", "Service").expect("a kind"));
//! let port = |number: i64, name: &str| object! { "port": number, "protocol": "TCP", "name": name };
//! let with_ports = |ports: Vec<Value>| object! { "spec": object! { "ports": ports } };
//! let (live, applied) = (with_ports(vec![port(80, "http")]), with_ports(vec![port(443, "https")]));
//!
//! // The ports are a list with keys, so the applied port is added.
//! let merged = service.merge(&live, &applied).expect("valid lists");
//! assert_eq!(*merged, with_ports(vec![port(80, "http"), port(443, "https")]));
//! // The applier owns the fields of its port.
//! let owned: Vec<String> = service.field_set(&applied).paths().iter().map(ToString::to_string).collect();
//! assert!(owned.contains(&".spec.ports[port=443,protocol=\"TCP\"].name".to_owned()), "{owned:?}");
//! ```

pub mod managed_fields;
pub mod merge;
pub mod typed;
