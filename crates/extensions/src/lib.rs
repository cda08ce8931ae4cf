//! CustomResourceDefinitions: what their schemas say about values. Pure: no I/O, no clock, no HTTP.

pub mod schema;
