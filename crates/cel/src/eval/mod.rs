//! The third layer: a checked expression becomes a compact program, which a machine runs.
//!
//! Names are slots, functions are resolved, constants are folded, and each node knows what it costs. The costs are
//! those of cel-go's interpreter as Kubernetes sets it up, oddities included: a selection costs one for its root and
//! one for each step, except that the root is free where cel-go resolves it without looking (as a branch of `?:` and
//! as an index), and constant aggregates are free.

mod attribute;
mod fold;
mod machine;
mod node;
mod plan;

pub(crate) use fold::{insert_all, insert_entry};
pub(crate) use machine::Machine;
pub(crate) use node::{Bind, Node};
pub(crate) use plan::{Planned, plan};
