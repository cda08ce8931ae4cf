//! Server-side apply as it is served (KEP-555): who owns what after which request, who is refused and in which words. What
//! owning means, over hundreds of scenarios without a server, is tested in `crates/apply`.

mod conflicts;
mod kubectl;
mod managers;
mod objects;
mod recorded;
mod refusals;
mod scene;
mod subresources;
