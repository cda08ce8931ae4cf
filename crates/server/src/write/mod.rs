//! Writes. A body or patch is decoded into a tree at the request's version, normalised, defaulted and admitted. The
//! kind's strategy prepares it, and it is validated. Then it is committed under a compare on the object's revision.
//!
//! **Invariant:** only [`create::CreateOperation`], [`update::GuaranteedUpdate`] and the deletes, which build on the
//! latter, call `commit`. Every verb ends in one of them.

mod action;
mod allocation;
mod commit;
mod connection;
mod create;
mod declarative;
mod delete;
mod escalation;
mod eviction;
mod internal_audit;
mod internal_client;
mod large_write;
mod managed_fields;
mod metadata;
mod object_interfaces;
mod param_access;
mod patch;
mod patched_text;
mod request_access;
mod reservations;
mod review;
mod scale;
mod subresource;
mod token_request;
mod update;
mod validate;
mod webhook_token;
mod writer;

pub(crate) use connection::admit_connection;
pub(crate) use create::create;
pub(crate) use delete::{delete, delete_all, delete_collection, delete_kind};
pub(crate) use internal_client::InternalClient;
pub(crate) use large_write::LargeWrite;
pub(crate) use object_interfaces::PluginObjects;
pub(crate) use patch::{check_patch_type, patch};
pub(crate) use subresource::subresource;
pub(crate) use update::update;
pub(crate) use validate::validate_manifest;
