//! What is measured, a file each.

pub(crate) mod apply;
pub(crate) mod big_list;
pub(crate) mod changes;
pub(crate) mod codecs;
pub(crate) mod conversion;
pub(crate) mod create;
pub(crate) mod custom;
pub(crate) mod definitions;
pub(crate) mod delete;
pub(crate) mod deletion;
pub(crate) mod fanout;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod memory;
pub(crate) mod mixed;
pub(crate) mod narrow;
pub(crate) mod open;
pub(crate) mod start;
pub(crate) mod stored;
pub(crate) mod update;

/// Bytes in millions, as memory is reported.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The media type that asks for Protobuf.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The media type that asks for what `kubectl get` prints.
pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
