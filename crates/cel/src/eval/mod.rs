//! The evaluator: the planner turns a checked expression into a tree of interpretable nodes, which the interpreter
//! evaluates.
//!
//! The planner replaces names by slots, resolves functions, folds constants and attaches a cost tracker to each call.
//! Costs match cel-go's interpreter as Kubernetes configures it, deviations included. An attribute costs one for its
//! root and one per qualifier. But the root is free where cel-go resolves it without evaluating it: as a branch of `?:`
//! and as an index. Constant aggregates are free.

mod attribute;
mod fold;
mod interpreter;
mod node;
mod plan;

pub(crate) use fold::{insert_all, insert_entry};
pub(crate) use interpreter::Interpreter;
pub(crate) use node::Plan;
pub(crate) use plan::plan;
