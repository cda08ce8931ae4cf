//! Server-side apply over HTTP (KEP-555): the managed fields after each request, conflicts, and error messages. Tests
//! in `crates/apply` cover field ownership itself, with hundreds of scenarios and without a server.

mod conflicts;
mod kubectl;
mod managers;
mod objects;
mod recorded;
mod rejected_requests;
mod scenario;
mod subresources;
