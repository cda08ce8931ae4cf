//! The scenarios, one file each.

pub(crate) mod access;
pub(crate) mod admission;
pub(crate) mod aggregation;
pub(crate) mod apply;
pub(crate) mod audit;
pub(crate) mod beside_large;
pub(crate) mod big_list;
pub(crate) mod cascading_delete;
pub(crate) mod clusters;
pub(crate) mod codecs;
pub(crate) mod contention;
pub(crate) mod conversion;
pub(crate) mod costly_requests;
pub(crate) mod crds;
pub(crate) mod create;
pub(crate) mod custom_objects;
pub(crate) mod delete;
pub(crate) mod encryption;
pub(crate) mod etcd;
pub(crate) mod fanout;
pub(crate) mod filtered_watches;
pub(crate) mod get;
pub(crate) mod growth;
pub(crate) mod hostile;
pub(crate) mod instructions;
pub(crate) mod lease_renewals;
pub(crate) mod list;
pub(crate) mod memory;
pub(crate) mod million;
pub(crate) mod mixed;
pub(crate) mod open_loop;
pub(crate) mod overload;
pub(crate) mod pods;
pub(crate) mod start;
pub(crate) mod start_loaded;
pub(crate) mod update;
pub(crate) mod update_cases;

/// Converts bytes to MB, the unit of reported memory.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The media type of Protobuf.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The media type of the table that `kubectl get` prints.
pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
