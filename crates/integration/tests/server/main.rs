//! The operation of a server: representations, limits, health, logs, metrics, restarts and failures.

mod api_services;
mod audit;
mod cbor;
mod deep_objects;
mod encryption;
mod fairness;
mod flow_control;
mod headers;
mod health;
mod limits;
mod logging;
mod lost_feed;
mod metrics;
mod negotiation;
mod request_log;
mod request_observers;
mod restart;
mod runtime_config;
mod storage_versions;
mod watch_compression;
mod zpages;
