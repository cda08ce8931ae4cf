//! The differential test behind `cargo xtask compare`. It sends the same requests to Pintle and to a Go API server made
//! of upstream's libraries (`tools/apiserver`), and compares the whole answers.
//!
//! A `sequence` is a list of requests. `areas` has tables of them, and `random` makes them from a seed. `run` sends a
//! sequence to both servers and compares each answer as text (`exchange`, `dump`), with symbols in place of varying
//! values (`normal`). `shrink` shortens a sequence that shows a difference. `known_differences` has the accepted
//! differences. `audit` compares the audit events of each request. `aggregation` has other API servers, to which both servers pass requests on. `suite` runs it all.

mod aggregation;
mod areas;
mod audit;
mod dump;
mod exchange;
mod known_differences;
mod normal;
mod random;
mod run;
mod sequence;
mod server;
mod shrink;
mod suite;

pub use areas::{AREAS, Area};
pub use sequence::{RANDOM, RANDOM_AGGREGATION};
pub use suite::{Options, Outcome, compare};
