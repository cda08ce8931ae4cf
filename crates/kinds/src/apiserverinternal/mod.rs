//! Strategies of the group `internal.apiserver.k8s.io`.

mod recorded;
pub(crate) mod storage_version;

pub use self::recorded::{RecordedStorageVersion, recorded_storage_versions, storage_versions_resource};
