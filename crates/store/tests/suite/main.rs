//! Tests of the store from outside: the contract on every engine, and what only the durable engine promises.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod concurrency;
mod contract;
mod damage;
mod kill;
mod model;
mod power;
mod script;
mod transform;
