//! Real clients: kubectl, client-go, controller-runtime, kube-rs.

mod client_go;
mod controller_runtime;
mod informer_workload;
mod kube_rs;
mod kubectl;
