//! The facts of the built-in kinds and the code that loads them: types with all that codecs, merging and publishing
//! need, and what resources there are. Facts only: how a kind behaves is the business of `kinds`.

mod build;
mod catalog;
mod descriptions;
pub mod facts;
mod resources;

pub use catalog::{Catalog, GatedField, UnionFacts, load, shared};
pub use descriptions::{Descriptions, descriptions};
pub use resources::{
    BackingFacts, GroupFacts, ResourceFacts, ScaleFacts, StorageFacts, SubresourceFacts, VersionFacts,
};
