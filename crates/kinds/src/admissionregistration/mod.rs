//! Strategies of the group `admissionregistration.k8s.io`. CEL expressions are validated by compiling them.

mod expressions;
mod field_ref;
mod match_resources;
pub(crate) mod match_rules;
pub(crate) mod policy;
pub(crate) mod policy_binding;
mod policy_validation;
mod reserved_names;
pub(crate) mod webhook;
