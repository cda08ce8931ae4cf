//! The measured cost of a Go API server for the same work: the generic Kubernetes API server library
//! (k8s.io/apiserver 0.36.4) over etcd 3.5 with fsync on. It ran without RBAC, admission, API priority and fairness,
//! audit, defaulting and validation, so a whole kube-apiserver costs more. It was measured once with the same sizes
//! (objects of 1 KiB, TLS, HTTP/1.1, 16 connections). Only CPU time per operation is compared, because throughput and
//! latency depend more on the machine.

/// Microseconds of CPU time per operation, of the API server and its etcd together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoCost(pub(crate) f64);

pub(crate) const CREATE: GoCost = GoCost(852.0 + 422.0);
pub(crate) const GET: GoCost = GoCost(408.0 + 179.0);
pub(crate) const UPDATE: GoCost = GoCost(1045.0 + 474.0);
pub(crate) const MERGE_PATCH: GoCost = GoCost(1346.0 + 535.0);
pub(crate) const JSON_PATCH: GoCost = GoCost(1321.0 + 526.0);
pub(crate) const APPLY: GoCost = GoCost(1632.0 + 545.0);
/// Server-side apply of a pod of 2 KiB. Schema and size matter more to an apply than to any other request.
pub(crate) const APPLY_POD: GoCost = GoCost(4508.0 + 885.0);
/// Server-side apply of a deployment of 2 KiB. It was not measured as a whole, so the value of a pod is used. A
/// deployment contains a pod template: upstream's field manager alone, which is most of an apply, takes 2.5 ms for a
/// deployment, 1.9 ms for that pod and 0.33 ms for a ConfigMap.
pub(crate) const APPLY_DEPLOYMENT: GoCost = APPLY_POD;
pub(crate) const DELETE: GoCost = GoCost(745.0 + 419.0);
/// A list of 10,000 objects in JSON.
pub(crate) const LIST: GoCost = GoCost(173_000.0);
/// A list of 10,000 objects in Protobuf.
pub(crate) const LIST_PROTOBUF: GoCost = GoCost(114_000.0);
/// A list of 10,000 objects in JSON in chunks of 500.
pub(crate) const LIST_CHUNKED: GoCost = GoCost(195_000.0);
/// One delivered watch event, with 100 watchers and writers at full speed.
pub(crate) const EVENT_FULL_SPEED: GoCost = GoCost(28.0);
/// One delivered watch event, with 1,000 watchers and 10 writes per second.
pub(crate) const EVENT_PACED: GoCost = GoCost(41.0);
