//! Admission of writes: the chain, built-in plugins, webhooks and policies.

mod chain;
mod manifests;
mod objects;
mod pod_security;
mod pods;
mod policies;
mod resource_quota;
mod webhooks;
