//! The node authorizer. A kubelet may read the objects that belong to the pods of its node, and little else (upstream:
//! `plugin/pkg/auth/authorizer/node`).
//!
//! - `graph`: pods, volumes and attachments, and the objects that lead to nodes because of them.
//! - `references`: the objects that a pod or a volume refers to.
//! - `authorizer`: the decisions.

mod authorizer;
mod graph;
mod references;

pub use authorizer::{NodeAuthorizer, NodeFeatures};
pub use graph::NodeObject;
pub use references::{MIRROR_POD, is_mirror_pod, pod_config_map_names, pod_secret_names};
