//! Access control: authentication, authorization, service accounts, and the objects that the server creates for them.

mod authentication;
mod authorization;
mod bootstrap_policy;
mod bootstrapped;
mod client_certificates;
mod cluster_role_aggregation;
mod field_managers;
mod node_authorizer;
mod pod_certificates;
mod rbac;
mod reviews;
mod security;
mod service_accounts;
mod serving_certificates;
