//! Verbs, kinds and the rules of objects: reads, writes, watches, deletion.

mod apply;
mod autoscalers;
mod components;
mod concurrent_writes;
mod converted;
mod core_since_1_37;
mod create_on_update;
mod declarative_validation;
mod deletion;
mod dry_run;
mod every_kind;
mod eviction;
mod expiry;
mod features;
mod garbage_collection;
mod gated_behaviour;
mod job_scheduling;
mod lists;
mod namespaces;
mod patches;
mod privileged;
mod quantities;
mod resource_claims;
mod service_allocation;
mod service_ranges;
mod watches;
