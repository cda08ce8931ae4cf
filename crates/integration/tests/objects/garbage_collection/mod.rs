//! The garbage collector deletes objects whose owners no longer exist, and no others.

mod generator;
mod invariant;
mod model;
mod object;
mod observer;
mod random;
mod random_workload;
mod scenarios;
