//! Writing: a body or patch becomes a tree at the request's version, is normalised, defaulted, admitted, prepared by
//! the kind's rules, validated, and committed under a compare on the object's revision. Create and the guaranteed update
//! are the only ways to the store; every verb ends in one of them.

mod action;
mod commit;
mod create;
mod custom;
mod decode;
mod delete;
mod metadata;
mod objects;
mod ownership;
mod patch;
mod review;
mod scale;
mod shown;
mod subresource;
mod update;

pub(crate) use create::create;
pub(crate) use delete::{delete, delete_all, delete_collection};
pub(crate) use metadata::check_key;
pub(crate) use objects::Access;
pub(crate) use patch::{check_patch_type, patch};
pub(crate) use subresource::subresource;
pub(crate) use update::update;
