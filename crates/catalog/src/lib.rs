//! The metadata of the built-in kinds and the code that loads it: types with all facts that codecs, patching and
//! OpenAPI need, and the resources. This crate does not know how a kind behaves; that is in `kinds`.
//!
//! ```
//! let catalog = pintle_catalog::shared();
//! let deployments = catalog.resource("apps", "v1", "deployments").expect("a built-in resource");
//! assert_eq!(deployments.kind, "Deployment");
//!
//! let pod = catalog.kind_type("", "v1", "Pod").expect("a built-in kind");
//! assert_eq!(catalog.types().go_name(pod), "v1.Pod");
//!
//! let descriptions = pintle_catalog::descriptions(pintle_versions::Minor::DEFAULT);
//! let text = descriptions.type_description("io.k8s.api.core.v1.Pod").expect("a description");
//! assert!(text.starts_with("Pod is a collection of containers"));
//! ```

mod build;
mod catalog;
mod descriptions;
pub mod facts;
mod resources;
pub mod rules;

pub use catalog::{
    Catalog, GatedField, StoredTypes, UnionFacts, complete, complete_of, load, resources_of, shared, shared_of,
};
pub use descriptions::{Descriptions, descriptions};
pub use resources::{
    BackingFacts, GroupFacts, RegisteredGroup, ResourceFacts, ScaleFacts, StorageFacts, SubresourceFacts, VersionFacts,
    release_lines,
};
