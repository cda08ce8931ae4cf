//! Compares the node authorizer with an evaluator that reads all pods and volumes one after the other, for random objects
//! that change between random requests. `PINTLE_NODE_DECISIONS` sets the number of decisions, `PINTLE_NODE_SEED` the seed.

use std::collections::BTreeMap;

use pintle_auth::node::{NodeAuthorizer, NodeObject};
use pintle_auth::{AuthorizationAttributes, UserInfo};
use pintle_value::{Value, object};

const NAMESPACES: [&str; 3] = ["a", "b", "c"];

/// An object: the kind, the namespace and the number of the name, of which there are few.
type Reference = (&'static str, &'static str, usize);

struct Pod {
    node: usize,
    references: Vec<Reference>,
}

struct Volume {
    claim: (&'static str, usize),
    secret: Option<(&'static str, usize)>,
}

/// The straightforward evaluator: all objects by namespace and name. Node 0 stands for a pod without a node.
#[derive(Default)]
struct Model {
    pods: BTreeMap<(&'static str, usize), Pod>,
    volumes: BTreeMap<usize, Volume>,
    attachments: BTreeMap<usize, usize>,
}

impl Model {
    fn refers(&self, node: usize, reference: Reference) -> bool {
        self.pods.values().any(|pod| pod.node == node && pod.references.contains(&reference))
    }

    fn allows(&self, node: usize, (kind, namespace, number): Reference) -> bool {
        let leads = |volume: &Volume| self.refers(node, ("persistentvolumeclaims", volume.claim.0, volume.claim.1));
        match kind {
            "pods" => self.pods.get(&(namespace, number)).is_some_and(|pod| pod.node == node),
            "persistentvolumes" => self.volumes.get(&number).is_some_and(leads),
            "volumeattachments" => self.attachments.get(&number) == Some(&node),
            "secrets" => {
                let of_volume = |volume: &&Volume| volume.secret == Some((namespace, number));
                self.refers(node, (kind, namespace, number)) || self.volumes.values().filter(of_volume).any(leads)
            }
            _ => self.refers(node, (kind, namespace, number)),
        }
    }
}

/// A seeded xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).map_or(0, |value| value % bound)
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

/// The name with a number. Nodes, pods and objects with the same number have the same name.
fn name(number: usize) -> String {
    if number.is_multiple_of(2) { format!("o{number}") } else { format!("object-with-a-rather-long-name-{number}") }
}

fn pod_value(pod: &Pod) -> Value {
    let (mut volumes, mut claims, mut pull, mut account) = (Vec::new(), Vec::new(), Vec::new(), String::new());
    for &(kind, _, number) in &pod.references {
        let name = name(number);
        match kind {
            "secrets" if number.is_multiple_of(3) => pull.push(object! {"name": name}),
            "secrets" => volumes.push(object! {"secret": object! {"secretName": name}}),
            "configmaps" => volumes.push(object! {"configMap": object! {"name": name}}),
            "persistentvolumeclaims" => volumes.push(object! {"persistentVolumeClaim": object! {"claimName": name}}),
            "resourceclaims" => claims.push(object! {"name": "c", "resourceClaimName": name}),
            _ => account = name,
        }
    }
    let node = if pod.node == 0 { String::new() } else { name(pod.node) };
    object! {"spec": object! {
        "nodeName": node, "serviceAccountName": account, "imagePullSecrets": Value::Array(pull),
        "volumes": Value::Array(volumes), "resourceClaims": Value::Array(claims),
    }}
}

fn volume_value(volume: &Volume) -> Value {
    let (namespace, number) = volume.claim;
    let mut spec = object! {"claimRef": object! {"namespace": namespace, "name": name(number)}};
    if let Some((namespace, number)) = volume.secret {
        let secret = object! {"namespace": namespace, "name": name(number)};
        spec.set("csi", object! {"nodeStageSecretRef": secret});
    }
    object! {"spec": spec}
}

/// Sets or removes one object in both.
fn change(random: &mut Random, model: &mut Model, authorizer: &NodeAuthorizer) {
    let remove = random.below(3) == 0;
    match random.below(6) {
        0 => {
            let number = random.below(6);
            if remove {
                model.attachments.remove(&number);
                return authorizer.remove(NodeObject::VolumeAttachment, "", &name(number));
            }
            let node = 1 + random.below(4);
            model.attachments.insert(number, node);
            let object = object! {"spec": object! {"nodeName": name(node)}};
            authorizer.set(NodeObject::VolumeAttachment, "", &name(number), &object);
        }
        1 | 2 => {
            let number = random.below(8);
            if remove {
                model.volumes.remove(&number);
                return authorizer.remove(NodeObject::PersistentVolume, "", &name(number));
            }
            let secret = (random.below(3) != 0).then(|| (random.pick(&NAMESPACES), random.below(8)));
            let volume = Volume { claim: (random.pick(&NAMESPACES), random.below(8)), secret };
            authorizer.set(NodeObject::PersistentVolume, "", &name(number), &volume_value(&volume));
            model.volumes.insert(number, volume);
        }
        _ => {
            let key = (random.pick(&NAMESPACES), random.below(10));
            if remove {
                model.pods.remove(&key);
                return authorizer.remove(NodeObject::Pod, key.0, &name(key.1));
            }
            let kinds = ["secrets", "configmaps", "persistentvolumeclaims", "persistentvolumeclaims", "resourceclaims"];
            let mut references: Vec<_> =
                (0..random.below(6)).map(|_| (random.pick(&kinds), key.0, random.below(8))).collect();
            references.push(("serviceaccounts", key.0, random.below(8)));
            let pod = Pod { node: random.below(5), references };
            authorizer.set(NodeObject::Pod, key.0, &name(key.1), &pod_value(&pod));
            model.pods.insert(key, pod);
        }
    }
}

/// Removes all objects in both.
fn clear(model: &mut Model, authorizer: &NodeAuthorizer) {
    for (namespace, number) in std::mem::take(&mut model.pods).into_keys() {
        authorizer.remove(NodeObject::Pod, namespace, &name(number));
    }
    for number in std::mem::take(&mut model.volumes).into_keys() {
        authorizer.remove(NodeObject::PersistentVolume, "", &name(number));
    }
    for number in std::mem::take(&mut model.attachments).into_keys() {
        authorizer.remove(NodeObject::VolumeAttachment, "", &name(number));
    }
}

#[test]
fn the_graph_decides_as_an_evaluator_of_all_objects() {
    let variable = |name: &str, default: u64| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let (decisions, seed) = (variable("PINTLE_NODE_DECISIONS", 100_000), variable("PINTLE_NODE_SEED", 0x5eed));
    let mut random = Random(seed.max(1));
    let (mut model, authorizer) = (Model::default(), NodeAuthorizer::default());
    let mut allowed = 0;
    let kinds = [
        ("", "get", "secrets", ""),
        ("", "get", "configmaps", ""),
        ("", "get", "persistentvolumeclaims", ""),
        ("", "get", "persistentvolumes", ""),
        ("", "get", "pods", ""),
        ("", "create", "serviceaccounts", "token"),
        ("resource.k8s.io", "get", "resourceclaims", ""),
        ("storage.k8s.io", "get", "volumeattachments", ""),
    ];
    for decision in 0..decisions {
        if decision % 10_000 == 9_999 {
            clear(&mut model, &authorizer);
            assert!(authorizer.is_empty(), "seed {seed}, decision {decision}");
        }
        if decision.is_multiple_of(20) {
            (0..5).for_each(|_| change(&mut random, &mut model, &authorizer));
        }
        let (group, verb, resource, subresource) = random.pick(&kinds);
        let is_cluster_wide = matches!(resource, "persistentvolumes" | "volumeattachments");
        let namespace = if is_cluster_wide { "" } else { random.pick(&NAMESPACES) };
        let (node, number) = (1 + random.below(4), random.below(10));
        let object = name(number);
        let request = AuthorizationAttributes {
            verb,
            group,
            resource,
            subresource,
            namespace,
            name: &object,
            ..AuthorizationAttributes::default()
        };
        let user = UserInfo {
            name: format!("system:node:{}", name(node)).into(),
            groups: vec!["system:nodes".into()],
            ..UserInfo::default()
        };
        let expect = model.allows(node, (resource, namespace, number));
        let found = authorizer.decide(&user, &request).is_allowed();
        assert_eq!(found, expect, "seed {seed}, decision {decision}: node {node}, {request:?}");
        allowed += u64::from(expect);
    }
    // The comparison is meaningful only if there are enough decisions of each result.
    assert!(allowed > decisions / 20 && allowed < decisions * 19 / 20, "{allowed} allowed of {decisions}");
}
