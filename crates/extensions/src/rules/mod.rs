//! CEL validation rules (`x-kubernetes-validations`): compilation, cost estimation and evaluation. They behave as in
//! kube-apiserver 1.36 (apiextensions-apiserver's `pkg/apiserver/schema/cel`).
//!
//! The rules of a schema are compiled once into a [`CelValidator`], a tree parallel to the schema. Its types, from
//! [`decl_type`], exist only during compilation. Evaluation reads objects in place through a [`value_adapter`]. The
//! [`walker`] visits an object and evaluates the rules of each node ([`apply`]).

mod apply;
mod compile;
mod correlation;
mod crds;
mod decl_type;
mod lazy_validator;
mod message;
mod string_values;
mod validator;
mod value_adapter;
mod walker;

pub(crate) use crds::compile_nodes;
pub(crate) use lazy_validator::LazyCelValidator;
pub(crate) use validator::CelValidator;
pub(crate) use walker::{CelResult, CostLimits, ValidationTarget};
