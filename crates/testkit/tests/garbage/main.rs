//! What has lost its owners goes, and nothing else does.

mod dice;
mod judge;
mod mirror;
mod model;
mod plan;
mod random;
mod scenarios;
mod thing;
