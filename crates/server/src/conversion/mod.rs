//! Objects of custom resources with several versions: conversion between the request's version and the versions at
//! which objects are stored. An object stored at the request's version is served as it is. Any other object is read at
//! its own version and converted, by changing its `apiVersion` or by a webhook. Built-in kinds are always served as
//! they are stored.
//!
//! [`hub`] converts objects of built-in kinds, [`stored_form`] converts to and from the values in etcd, and
//! [`encrypted_form`] encrypts the values in a store.

mod convert;
mod encrypted_form;
mod hub;
mod memoized;
mod selection;
mod shard_selector;
mod shared;
mod store_keys;
mod stored_form;
mod view;
mod webhook_batch;

pub(crate) use convert::convert;
pub use encrypted_form::EncryptedForm;
pub(crate) use hub::{from_hub, to_hub};
pub(crate) use memoized::MemoizedConversions;
pub(crate) use selection::{Selection, WatchEventType};
pub(crate) use shard_selector::ShardSelector;
pub(crate) use store_keys::StoredResources;
pub use stored_form::StoredForm;
pub(crate) use view::VersionView;
