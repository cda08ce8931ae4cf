//! What the Go peer takes for the same work: the generic Kubernetes API server library 0.36.4 over etcd 3.5 (fsync on),
//! without RBAC, admission, priority and fairness, audit, defaulting and validation, so that a whole kube-apiserver takes
//! more. Measured once with the same sizes (objects of 1 KiB, TLS, HTTP/1.1, 16 connections); microseconds of CPU per
//! operation travel best from machine to machine, and so they alone are compared with.

/// Microseconds of CPU, of the server and its etcd together, that one operation takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) f64);

pub(crate) const CREATE: Peer = Peer(852.0 + 422.0);
pub(crate) const GET: Peer = Peer(408.0 + 179.0);
pub(crate) const UPDATE: Peer = Peer(1045.0 + 474.0);
pub(crate) const MERGE_PATCH: Peer = Peer(1346.0 + 535.0);
pub(crate) const JSON_PATCH: Peer = Peer(1321.0 + 526.0);
pub(crate) const APPLY: Peer = Peer(1632.0 + 545.0);
/// The same of a pod of 2 KiB: schemas and sizes matter more to an apply than to any other request.
pub(crate) const APPLY_POD: Peer = Peer(4508.0 + 885.0);
/// The same of a deployment of 2 KiB, which was not measured as a whole. A deployment holds a pod: upstream's field manager
/// alone, which is most of an apply, takes 2.5 ms for one where it takes 1.9 ms for that pod and 0.33 ms for a ConfigMap.
pub(crate) const APPLY_DEPLOYMENT: Peer = APPLY_POD;
pub(crate) const DELETE: Peer = Peer(745.0 + 419.0);
/// A list of 10,000 objects in JSON.
pub(crate) const LIST: Peer = Peer(173_000.0);
/// The same in Protobuf.
pub(crate) const LIST_PROTOBUF: Peer = Peer(114_000.0);
/// The same in chunks of 500.
pub(crate) const LIST_CHUNKED: Peer = Peer(195_000.0);
/// A delivered event, 100 watchers, writers at full speed.
pub(crate) const EVENT_FULL_SPEED: Peer = Peer(28.0);
/// A delivered event, 1,000 watchers, 10 writes per second.
pub(crate) const EVENT_PACED: Peer = Peer(41.0);
