//! Writing: a body or patch becomes a tree at the request's version, is normalised, defaulted, admitted, prepared by
//! the kind's rules, validated, and committed under a compare on the object's revision. Create and the guaranteed update
//! are the only ways to the store; every verb ends in one of them.

mod action;
mod cbor;
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

use pintle_registry::CostBudget;

pub(crate) use create::create;
pub(crate) use delete::{delete, delete_all, delete_collection, delete_kind};
pub(crate) use metadata::check_key;
pub(crate) use objects::InternalClient;
pub(crate) use patch::{check_patch_type, patch};
pub(crate) use subresource::subresource;
pub(crate) use update::update;

/// What is judged quickly is judged at once; what takes longer keeps nobody waiting whom this thread serves as well.
/// Returns what the client is told although it may stay.
fn run_expensive_validation(mut judge: impl FnMut(CostBudget) -> Option<Vec<String>>) -> Vec<String> {
    judge(CostBudget::Limited)
        .or_else(|| tokio::task::block_in_place(|| judge(CostBudget::Unlimited)))
        .unwrap_or_default()
}
