//! Rules in CEL (`x-kubernetes-validations`): what definitions may say, and what their objects are held to. Behaves as
//! kube-apiserver 1.36 does (apiextensions-apiserver's `pkg/apiserver/schema/cel`).
//!
//! A schema's rules are compiled once, into a tree beside the schema ([`Rules`]); what the types of a schema are is worked
//! out for that alone ([`declare`]). Objects are then read in place ([`place`]); one [`walk`] goes over them and applies the
//! rules of each node ([`apply`]).

mod apply;
mod compile;
mod correlate;
mod declare;
mod definitions;
mod escape;
mod lazy;
mod message;
mod place;
mod texts;
mod tree;
mod walk;

pub(crate) use definitions::compile_nodes;
pub(crate) use lazy::LazyRules;
pub(crate) use tree::Rules;
pub(crate) use walk::{Limits, Subject, Verdict};
