//! The metadata of the built-in kinds and the code that loads it: types with all facts that codecs, patching and
//! OpenAPI need, and the resources. This crate does not know how a kind behaves; that is in `kinds`.

mod build;
mod catalog;
mod descriptions;
pub mod facts;
mod resources;
pub mod rules;

pub use catalog::{Catalog, GatedField, StoredTypes, UnionFacts, complete, load, shared};
pub use descriptions::{Descriptions, descriptions};
pub use resources::{
    BackingFacts, GroupFacts, ResourceFacts, ScaleFacts, StorageFacts, SubresourceFacts, VersionFacts,
    registered_versions,
};
