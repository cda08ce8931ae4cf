//! The graph says which objects lead to which node. Pods, attachments, slices and certificate requests are bound to one
//! node. An object that a pod refers to leads to the pod's node. A volume leads to the nodes of its claim, and its
//! secrets lead to the volume.
//!
//! Every vertex has a number, and edges are numbers. An object that many pods refer to does not list the pods, but
//! counts them for each node. So a decision takes a few lookups, whatever the size of the cluster. Upstream walks the
//! pods and keeps such counts only for objects with many pods.

use std::hash::BuildHasher;
use std::time::Instant;

use hashbrown::{DefaultHashBuilder, HashTable};
use pintle_locks::RwLock;
use pintle_metrics::{Buckets, Histogram};
use pintle_value::{Str, Value};

use super::references;
use crate::table::Table;

/// The kinds of objects that the node authorizer follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeObject {
    /// A pod.
    Pod,
    /// A persistent volume.
    PersistentVolume,
    /// A volume attachment.
    VolumeAttachment,
    /// A resource slice.
    ResourceSlice,
    /// A pod certificate request.
    PodCertificateRequest,
}

impl NodeObject {
    /// All kinds.
    pub(super) const ALL: [Self; 5] =
        [Self::Pod, Self::PersistentVolume, Self::VolumeAttachment, Self::ResourceSlice, Self::PodCertificateRequest];

    /// The names of the operations that set and remove an object, in metrics.
    const fn operations(self) -> [&'static str; 2] {
        match self {
            Self::Pod => ["AddPod", "DeletePod"],
            Self::PersistentVolume => ["AddPV", "DeletePV"],
            Self::VolumeAttachment => ["AddVolumeAttachment", "DeleteVolumeAttachment"],
            Self::ResourceSlice => ["AddResourceSlice", "DeleteResourceSlice"],
            Self::PodCertificateRequest => ["AddPodCertificateRequest", "DeletePodCertificateRequest"],
        }
    }

    const fn vertex(self) -> VertexKind {
        match self {
            Self::Pod => VertexKind::Pod,
            Self::PersistentVolume => VertexKind::PersistentVolume,
            Self::VolumeAttachment => VertexKind::VolumeAttachment,
            Self::ResourceSlice => VertexKind::ResourceSlice,
            Self::PodCertificateRequest => VertexKind::PodCertificateRequest,
        }
    }

    /// The namespace of an object of this kind: `""` for cluster-wide kinds.
    const fn namespace(self, namespace: &str) -> &str {
        match self {
            Self::Pod | Self::PodCertificateRequest => namespace,
            Self::PersistentVolume | Self::VolumeAttachment | Self::ResourceSlice => "",
        }
    }
}

/// The kinds of vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum VertexKind {
    Node,
    Pod,
    PersistentVolume,
    VolumeAttachment,
    ResourceSlice,
    PodCertificateRequest,
    Secret,
    ConfigMap,
    Claim,
    ServiceAccount,
    ResourceClaim,
}

/// The buckets of the durations of changes.
const DURATIONS: Buckets =
    Buckets::seconds(&[0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048]);

/// The graph of all objects that lead to nodes.
#[derive(Debug)]
pub(super) struct Graph {
    state: RwLock<State>,
    /// The durations of changes. Each kind has a histogram for objects that are set, and one for objects that are
    /// removed.
    durations: [[Histogram; 2]; NodeObject::ALL.len()],
}

impl Default for Graph {
    fn default() -> Self {
        let durations = NodeObject::ALL.map(|_| [Histogram::new(DURATIONS), Histogram::new(DURATIONS)]);
        Self { state: RwLock::default(), durations }
    }
}

#[derive(Debug, Default)]
struct State {
    hasher: DefaultHashBuilder,
    /// The numbers of vertices, by kind, namespace and name.
    numbers: HashTable<u32>,
    vertices: Table<Vertex>,
}

#[derive(Debug)]
struct Vertex {
    kind: VertexKind,
    namespace: Str,
    name: Str,
    links: Links,
}

/// The edges of a vertex.
#[derive(Debug)]
enum Links {
    /// A node, and the number of objects that are bound to it.
    Node { bound: u32 },
    /// An object that is bound to a node, and the objects that lead to the node because of it, sorted.
    Bound { node: u32, objects: Box<[u32]> },
    /// A persistent volume: its claim, and the secrets that lead to it, sorted.
    Volume { claim: u32, secrets: Box<[u32]> },
    /// An object that pods or volumes refer to, with the nodes of the pods, sorted, and the volumes, sorted. The object
    /// itself need not exist.
    Referenced { nodes: Vec<NodePods>, volumes: Vec<u32> },
}

impl Links {
    const fn none() -> Self {
        Self::Referenced { nodes: Vec::new(), volumes: Vec::new() }
    }
}

/// The number of pods of a node that refer to an object.
#[derive(Clone, Copy, Debug)]
struct NodePods {
    node: u32,
    pods: u32,
}

/// The nodes or objects to which an object leads, by names.
enum Target<'a> {
    Node { name: &'a str, namespace: &'a str, objects: references::PodReferences<'a> },
    Volume { claim: (&'a str, &'a str), secrets: Vec<(&'a str, &'a str)> },
}

impl<'a> Target<'a> {
    /// The target of an object, if it leads anywhere.
    fn of(kind: NodeObject, namespace: &'a str, name: &str, object: &'a Value) -> Option<Self> {
        if kind == NodeObject::PersistentVolume {
            let secrets = references::secrets_of_volume(object);
            return references::claim_of_volume(object).map(|claim| Self::Volume { claim, secrets });
        }
        let node = object.str_at(&["spec", "nodeName"]);
        if node.is_empty() {
            return None;
        }
        let objects = if kind == NodeObject::Pod { references::of_pod(object, name) } else { Vec::new() };
        Some(Self::Node { name: node, namespace, objects })
    }
}

impl Graph {
    /// Adds or replaces an object.
    pub(super) fn set(&self, kind: NodeObject, namespace: &str, name: &str, object: &Value) {
        let namespace = kind.namespace(namespace);
        let target = Target::of(kind, namespace, name, object);
        // Most updates of pods change only their status.
        if self.state.read().leads_to(kind.vertex(), namespace, name, target.as_ref()) {
            return;
        }
        let started = Instant::now();
        let mut state = self.state.write();
        match target {
            Some(target) => state.set(kind.vertex(), namespace, name, target),
            None => state.remove(kind.vertex(), namespace, name),
        }
        drop(state);
        let [set, _] = &self.durations[kind as usize];
        set.observe(started.elapsed());
    }

    /// Removes an object.
    pub(super) fn remove(&self, kind: NodeObject, namespace: &str, name: &str) {
        let started = Instant::now();
        self.state.write().remove(kind.vertex(), kind.namespace(namespace), name);
        let [_, removed] = &self.durations[kind as usize];
        removed.observe(started.elapsed());
    }

    /// The durations of changes, by the name of the operation.
    pub(super) fn durations(&self) -> impl Iterator<Item = (&'static str, &Histogram)> {
        let names = NodeObject::ALL.into_iter().map(NodeObject::operations);
        names.zip(&self.durations).flat_map(|(names, durations)| names.into_iter().zip(durations))
    }

    /// The namespaces and names of the objects of a kind.
    pub(super) fn names(&self, kind: NodeObject) -> Vec<(Str, Str)> {
        let state = self.state.read();
        let vertices = state.numbers.iter().filter_map(|number| state.vertices.get(*number));
        let of_kind = vertices.filter(|vertex| vertex.kind == kind.vertex());
        of_kind.map(|vertex| (vertex.namespace.clone(), vertex.name.clone())).collect()
    }

    /// Returns whether there are no vertices.
    pub(super) fn is_empty(&self) -> bool {
        self.state.read().numbers.is_empty()
    }

    /// Returns whether an object leads to a node.
    pub(super) fn has_path(&self, kind: VertexKind, namespace: &str, name: &str, node: &str) -> bool {
        let state = self.state.read();
        let vertex = state.find(kind, namespace, name).and_then(|number| state.vertices.get(number));
        match (vertex, state.find(VertexKind::Node, "", node)) {
            (Some(vertex), Some(node)) => state.reaches(&vertex.links, node),
            _ => false,
        }
    }
}

/// Functions that read the graph.
impl State {
    fn hash(&self, kind: VertexKind, namespace: &str, name: &str) -> u64 {
        self.hasher.hash_one((kind, namespace, name))
    }

    fn find(&self, kind: VertexKind, namespace: &str, name: &str) -> Option<u32> {
        let is_same = |number: &u32| {
            let vertex = self.vertices.get(*number);
            vertex.is_some_and(|vertex| vertex.kind == kind && vertex.name == name && vertex.namespace == namespace)
        };
        self.numbers.find(self.hash(kind, namespace, name), is_same).copied()
    }

    fn reaches(&self, links: &Links, node: u32) -> bool {
        match links {
            Links::Node { .. } => false,
            Links::Bound { node: own, .. } => *own == node,
            Links::Volume { claim, .. } => self.has_pods(*claim, node),
            // The volumes of a claim lead back to it, so they add nothing here.
            Links::Referenced { nodes, volumes } => {
                nodes.binary_search_by_key(&node, |entry| entry.node).is_ok()
                    || volumes.iter().any(|volume| match self.vertices.get(*volume).map(|vertex| &vertex.links) {
                        Some(Links::Volume { claim, .. }) => self.has_pods(*claim, node),
                        _ => false,
                    })
            }
        }
    }

    /// Returns whether a pod on a node refers to an object.
    fn has_pods(&self, object: u32, node: u32) -> bool {
        match self.vertices.get(object).map(|vertex| &vertex.links) {
            Some(Links::Referenced { nodes, .. }) => nodes.binary_search_by_key(&node, |entry| entry.node).is_ok(),
            _ => false,
        }
    }

    /// Returns whether an object already has these edges.
    fn leads_to(&self, kind: VertexKind, namespace: &str, name: &str, target: Option<&Target<'_>>) -> bool {
        let vertex = self.find(kind, namespace, name).and_then(|number| self.vertices.get(number));
        match (vertex.map(|vertex| &vertex.links), target) {
            (None, None) => true,
            (Some(Links::Bound { node, objects }), Some(Target::Node { name, namespace, objects: new })) => {
                let new: Option<Vec<_>> = new.iter().map(|(kind, name)| self.find(*kind, namespace, name)).collect();
                self.find(VertexKind::Node, "", name) == Some(*node) && new.map(sorted).as_ref() == Some(objects)
            }
            (
                Some(Links::Volume { claim, secrets }),
                Some(Target::Volume { claim: (namespace, name), secrets: new }),
            ) => {
                let new = new.iter().map(|(namespace, name)| self.find(VertexKind::Secret, namespace, name));
                let new: Option<Vec<_>> = new.collect();
                self.find(VertexKind::Claim, namespace, name) == Some(*claim)
                    && new.map(sorted).as_ref() == Some(secrets)
            }
            _ => false,
        }
    }
}

/// Functions that change the graph.
impl State {
    /// The number of a vertex. The vertex is added if it is missing.
    fn vertex(&mut self, kind: VertexKind, namespace: &str, name: &str) -> u32 {
        if let Some(number) = self.find(kind, namespace, name) {
            return number;
        }
        let links = if kind == VertexKind::Node { Links::Node { bound: 0 } } else { Links::none() };
        let hash = self.hash(kind, namespace, name);
        let number = self.vertices.insert(Vertex { kind, namespace: namespace.into(), name: name.into(), links });
        let Self { hasher, numbers, vertices } = self;
        numbers.insert_unique(hash, number, |number| {
            let vertex = vertices.get(*number);
            vertex.map_or(0, |Vertex { kind, namespace, name, .. }| hasher.hash_one((*kind, &**namespace, &**name)))
        });
        number
    }

    /// Removes a vertex, but not the edges to it.
    fn remove_vertex(&mut self, number: u32) -> Option<Vertex> {
        let vertex = self.vertices.remove(number)?;
        let hash = self.hash(vertex.kind, &vertex.namespace, &vertex.name);
        if let Ok(entry) = self.numbers.find_entry(hash, |other| *other == number) {
            entry.remove();
        }
        Some(vertex)
    }

    fn set(&mut self, kind: VertexKind, namespace: &str, name: &str, target: Target<'_>) {
        let number = self.vertex(kind, namespace, name);
        let Some(vertex) = self.vertices.get_mut(number) else { return };
        let old = std::mem::replace(&mut vertex.links, Links::none());
        self.unlink(number, &old);
        let links = match target {
            Target::Node { name, namespace, objects } => {
                let node = self.vertex(VertexKind::Node, "", name);
                if let Some(Links::Node { bound }) = self.links_mut(node) {
                    *bound += 1;
                }
                let objects = objects.iter().map(|(kind, name)| self.vertex(*kind, namespace, name));
                let objects = sorted(objects.collect());
                objects.iter().for_each(|object| self.add_pod(*object, node));
                Links::Bound { node, objects }
            }
            Target::Volume { claim: (namespace, name), secrets } => {
                let claim = self.vertex(VertexKind::Claim, namespace, name);
                let secrets = secrets.iter().map(|(namespace, name)| self.vertex(VertexKind::Secret, namespace, name));
                let secrets = sorted(secrets.collect());
                secrets.iter().chain([&claim]).for_each(|object| self.add_volume(*object, number));
                Links::Volume { claim, secrets }
            }
        };
        if let Some(vertex) = self.vertices.get_mut(number) {
            vertex.links = links;
        }
    }

    fn remove(&mut self, kind: VertexKind, namespace: &str, name: &str) {
        let Some(number) = self.find(kind, namespace, name) else { return };
        if let Some(vertex) = self.remove_vertex(number) {
            self.unlink(number, &vertex.links);
        }
    }

    /// Removes the edges of a vertex at their other ends, and removes vertices without any edges.
    fn unlink(&mut self, number: u32, links: &Links) {
        match links {
            Links::Bound { node, objects } => {
                for object in objects {
                    self.remove_pod(*object, *node);
                }
                if let Some(Links::Node { bound }) = self.links_mut(*node) {
                    *bound = bound.saturating_sub(1);
                    if *bound == 0 {
                        self.remove_vertex(*node);
                    }
                }
            }
            Links::Volume { claim, secrets } => {
                for object in secrets.iter().chain([claim]) {
                    self.remove_volume(*object, number);
                }
            }
            Links::Node { .. } | Links::Referenced { .. } => {}
        }
    }

    fn links_mut(&mut self, number: u32) -> Option<&mut Links> {
        self.vertices.get_mut(number).map(|vertex| &mut vertex.links)
    }

    /// Counts a pod of a node that refers to an object.
    fn add_pod(&mut self, object: u32, node: u32) {
        let Some(Links::Referenced { nodes, .. }) = self.links_mut(object) else { return };
        match nodes.binary_search_by_key(&node, |entry| entry.node) {
            Ok(at) => nodes.iter_mut().skip(at).take(1).for_each(|entry| entry.pods += 1),
            Err(at) => {
                nodes.reserve_exact(usize::from(nodes.is_empty()));
                nodes.insert(at, NodePods { node, pods: 1 });
            }
        }
    }

    fn remove_pod(&mut self, object: u32, node: u32) {
        let Some(Links::Referenced { nodes, .. }) = self.links_mut(object) else { return };
        if let Ok(at) = nodes.binary_search_by_key(&node, |entry| entry.node)
            && let Some(entry) = nodes.get_mut(at)
        {
            entry.pods -= 1;
            if entry.pods == 0 {
                nodes.remove(at);
            }
        }
        self.drop_unused(object);
    }

    fn add_volume(&mut self, object: u32, volume: u32) {
        let Some(Links::Referenced { volumes, .. }) = self.links_mut(object) else { return };
        if let Err(at) = volumes.binary_search(&volume) {
            volumes.reserve_exact(usize::from(volumes.is_empty()));
            volumes.insert(at, volume);
        }
    }

    fn remove_volume(&mut self, object: u32, volume: u32) {
        let Some(Links::Referenced { volumes, .. }) = self.links_mut(object) else { return };
        if let Ok(at) = volumes.binary_search(&volume) {
            volumes.remove(at);
        }
        self.drop_unused(object);
    }

    /// Removes an object that nothing refers to.
    fn drop_unused(&mut self, number: u32) {
        if let Some(Links::Referenced { nodes, volumes }) = self.links_mut(number)
            && nodes.is_empty()
            && volumes.is_empty()
        {
            self.remove_vertex(number);
        }
    }
}

/// Sorted numbers, each once.
fn sorted(mut numbers: Vec<u32>) -> Box<[u32]> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into()
}
