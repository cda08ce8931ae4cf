//! The usage of resource quotas by objects. An input chooses the limits, and then a sequence of writes. Each write has
//! a byte for its operation, a byte for the object, and two bytes from which the object is generated.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use pintle_codec::json::{self, Projection};
use pintle_quota::resource_list::{add, equal, mask, print};
use pintle_quota::{
    MeasuredWrite, ObjectScopes, QuotaContext, QuotaFeatures, QuotaRefusal, QuotaWrite, ResourceQuota, check_write,
    evaluator_of,
};
use pintle_value::quantity::Quantity;
use pintle_value::time::Time;
use pintle_value::{Value, object};

use super::plugin_write::parse;
use crate::Random;

/// Quantities by the names of resources, as quotas count them.
type Usage = BTreeMap<String, Quantity>;

/// The kinds by group and name.
const KINDS: [(&str, &str); 4] =
    [("", "pods"), ("", "services"), ("", "persistentvolumeclaims"), ("resource.k8s.io", "resourceclaims")];

/// The maximum number of objects at a time.
const OBJECTS: usize = 4;

/// The maximum number of writes of an input. The rest of the input is ignored.
const MAX_WRITES: usize = 24;

/// The indices of quotas with opposite scopes.
const TERMINATING: usize = 1;
const NOT_TERMINATING: usize = 2;
const BEST_EFFORT: usize = 3;
const NOT_BEST_EFFORT: usize = 4;
const HIGH: usize = 6;
const NOT_HIGH: usize = 7;
const CLASS: usize = 8;
const NO_CLASS: usize = 9;

const RESOURCES: [&str; 7] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "hugepages-2Mi",
    "example.com/gpu",
    "deviceclass.resource.kubernetes.io/tpu",
    "requests.example.com/x",
];

const QUANTITIES: [&str; 16] = [
    "0",
    "1",
    "2",
    "100m",
    "1500m",
    "1Gi",
    "0.5",
    "1e3",
    "1n",
    "3.14M",
    "9Ei",
    "12345678901234567890",
    "1u",
    "7Ki",
    "999999999999999999999999n",
    "8E",
];

/// The limits that quotas may have, with their values.
const LIMITS: [(&str, &str); 24] = [
    ("pods", "3"),
    ("count/pods", "4"),
    ("cpu", "4"),
    ("requests.cpu", "1e6"),
    ("limits.cpu", "3500m"),
    ("memory", "9Ei"),
    ("requests.memory", "20Ei"),
    ("limits.memory", "2Gi"),
    ("requests.ephemeral-storage", "100"),
    ("limits.ephemeral-storage", "1e30"),
    ("requests.hugepages-2Mi", "1Gi"),
    ("requests.example.com/gpu", "5"),
    ("requests.deviceclass.resource.kubernetes.io/tpu", "40"),
    ("services", "2"),
    ("count/services", "9"),
    ("services.nodeports", "4"),
    ("services.loadbalancers", "1"),
    ("persistentvolumeclaims", "2"),
    ("count/persistentvolumeclaims", "9"),
    ("requests.storage", "1e20"),
    ("gold.storageclass.storage.k8s.io/requests.storage", "3"),
    ("gold.storageclass.storage.k8s.io/persistentvolumeclaims", "1"),
    ("tpu.deviceclass.resource.k8s.io/devices", "33"),
    ("count/resourceclaims.resource.k8s.io", "3"),
];

/// The specifications of the quotas, without their limits.
const QUOTAS: [&str; 12] = [
    "{}",
    r#"{"scopes":["Terminating"]}"#,
    r#"{"scopes":["NotTerminating"]}"#,
    r#"{"scopes":["BestEffort"]}"#,
    r#"{"scopes":["NotBestEffort"]}"#,
    r#"{"scopes":["CrossNamespacePodAffinity"]}"#,
    r#"{"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"In","values":["high"]}]}}"#,
    r#"{"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"NotIn","values":["high"]}]}}"#,
    r#"{"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"Exists"}]}}"#,
    r#"{"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"DoesNotExist"}]}}"#,
    r#"{"scopeSelector":{"matchExpressions":[{"scopeName":"VolumeAttributesClass","operator":"In","values":["a","b"]}]}}"#,
    r#"{"scopes":["NotBestEffort","Terminating"]}"#,
];

/// A cluster with a device class that stands for an extended resource.
struct Cluster;

impl QuotaContext for Cluster {
    fn features(&self) -> QuotaFeatures {
        QuotaFeatures::default()
    }

    fn now(&self) -> Time {
        Time::from_seconds(1_700_000_000)
    }

    fn extended_resource_of(&self, device_class: &str) -> Option<String> {
        (device_class == "gpu").then(|| "example.com/gpu".to_owned())
    }
}

/// Makes objects. A few objects have negative quantities, but objects of validated writes have none.
struct Generator {
    random: Random,
    has_negative: bool,
}

impl Generator {
    fn quantity(&mut self) -> Value {
        let quantity = *self.random.pick(&QUANTITIES);
        match self.has_negative && self.random.once_in(4) {
            true => Value::from(format!("-{quantity}")),
            false => Value::from(quantity),
        }
    }

    fn pick<'a>(&mut self, from: &'a [&'a str]) -> &'a str {
        self.random.pick::<&str>(from)
    }

    fn list(&mut self) -> Value {
        let mut list = Value::object();
        for name in RESOURCES {
            if self.random.once_in(4) {
                list.set(name, self.quantity());
            }
        }
        list
    }

    fn requirements(&mut self) -> Value {
        let mut requirements = Value::object();
        for field in ["requests", "limits"] {
            if !self.random.once_in(3) {
                requirements.set(field, self.list());
            }
        }
        requirements
    }

    fn container(&mut self) -> Value {
        let mut container = object! {"name": self.pick(&["a", "b", "c"]), "resources": self.requirements()};
        if self.random.once_in(3) {
            container.set("restartPolicy", "Always");
        }
        container
    }

    fn container_status(&mut self) -> Value {
        let mut status = object! {"name": self.pick(&["a", "b", "c"])};
        if self.random.once_in(2) {
            status.set("resources", self.requirements());
        }
        if self.random.once_in(2) {
            status.set("allocatedResources", self.list());
        }
        status
    }

    fn several(&mut self, make: impl Fn(&mut Self) -> Value) -> Value {
        Value::Array((0..self.random.below(3)).map(|_| make(self)).collect())
    }

    fn pod(&mut self) -> Value {
        let containers = self.several(Self::container);
        let mut pod = object! {"metadata": object! {"name": "o"}, "spec": object! {"containers": containers}};
        let mut set = |pod: &mut Value, path: &[&str], rarity: usize, value: &dyn Fn(&mut Self) -> Value| {
            if self.random.once_in(rarity) {
                let value = value(self);
                pod.set_at(path, value);
            }
        };
        set(&mut pod, &["spec", "initContainers"], 2, &|this| this.several(Self::container));
        set(&mut pod, &["spec", "overhead"], 3, &Self::list);
        set(&mut pod, &["spec", "resources"], 3, &Self::requirements);
        set(&mut pod, &["spec", "priorityClassName"], 2, &|this| Value::from(this.pick(&["high", "low"])));
        set(&mut pod, &["spec", "activeDeadlineSeconds"], 3, &|this| Value::from(*this.random.pick(&[-1, 0, 60])));
        set(&mut pod, &["spec", "affinity"], 4, &|this| {
            parse(this.pick(&[
                r#"{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"namespaces":["x"]}]}}"#,
                r#"{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"podAffinityTerm":{"namespaceSelector":{}}}]}}"#,
                r#"{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{}]}}"#,
            ]))
        });
        set(&mut pod, &["status", "phase"], 2, &|this| Value::from(this.pick(&["Running", "Failed", "Succeeded"])));
        set(&mut pod, &["status", "qosClass"], 4, &|this| Value::from(this.pick(&["BestEffort", "Burstable"])));
        set(&mut pod, &["status", "containerStatuses"], 2, &|this| this.several(Self::container_status));
        set(&mut pod, &["status", "initContainerStatuses"], 3, &|this| this.several(Self::container_status));
        set(&mut pod, &["status", "resources"], 4, &Self::requirements);
        set(&mut pod, &["status", "allocatedResources"], 4, &Self::list);
        set(&mut pod, &["status", "conditions"], 4, &|this| {
            parse(this.pick(&[
                r#"[{"type":"PodResizePending","reason":"Infeasible"}]"#,
                r#"[{"type":"PodResizePending","reason":"Deferred"}]"#,
            ]))
        });
        set(&mut pod, &["metadata", "deletionTimestamp"], 6, &|this| {
            Value::from(this.pick(&["2001-01-01T00:00:00Z", "2023-11-14T22:13:10Z", "9999-12-31T23:59:59Z"]))
        });
        set(&mut pod, &["metadata", "deletionGracePeriodSeconds"], 4, &|this| {
            Value::from(*this.random.pick(&[0, 30, i64::MAX, i64::MIN]))
        });
        pod
    }

    fn service(&mut self) -> Value {
        let ports = self.several(|this| object! {"port": 80, "nodePort": *this.random.pick(&[0, 30_000])});
        let kind = self.pick(&["", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]);
        let mut service = object! {"metadata": object! {"name": "o"}, "spec": object! {"type": kind, "ports": ports}};
        if self.random.once_in(2) {
            service.set_at(&["spec", "allocateLoadBalancerNodePorts"], self.random.once_in(2));
        }
        service
    }

    fn claim(&mut self) -> Value {
        let mut claim = object! {"metadata": object! {"name": "o"}, "spec": Value::object()};
        if !self.random.once_in(4) {
            claim.set_at(&["spec", "resources", "requests", "storage"], self.quantity());
        }
        if self.random.once_in(3) {
            claim.set_at(&["status", "allocatedResources", "storage"], self.quantity());
        }
        if self.random.once_in(2) {
            claim.set_at(&["spec", "storageClassName"], self.pick(&["gold", "", "silver"]));
        }
        if self.random.once_in(4) {
            let annotation = "volume.beta.kubernetes.io/storage-class";
            claim.set_at(&["metadata", "annotations", annotation], self.pick(&["gold", ""]));
        }
        for path in [
            &["spec", "volumeAttributesClassName"][..],
            &["status", "currentVolumeAttributesClassName"],
            &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
        ] {
            if self.random.once_in(3) {
                claim.set_at(path, self.pick(&["a", "b", "c"]));
            }
        }
        claim
    }

    fn device_request(&mut self) -> Value {
        let mut request = object! {
            "name": self.pick(&["r", "container-0-request-0-i"]),
            "deviceClassName": self.pick(&["tpu", "gpu", ""]),
            "allocationMode": self.pick(&["ExactCount", "All", "Future"]),
        };
        if !self.random.once_in(4) {
            let negative = if self.has_negative { i64::MIN } else { 3 };
            request.set("count", *self.random.pick(&[0, 1, 2, 32, i64::MAX, negative]));
        }
        request
    }

    fn resource_claim(&mut self) -> Value {
        let requests = self.several(|this| match this.random.below(3) {
            0 => this.device_request(),
            1 => object! {"name": "r", "exactly": this.device_request()},
            _ => object! {"name": "r", "firstAvailable": this.several(Self::device_request)},
        });
        let mut claim = object! {"metadata": object! {"name": "o"}, "spec": Value::object()};
        claim.set_at(&["spec", "devices", "requests"], requests);
        if self.random.once_in(4) {
            claim.set_at(&["metadata", "annotations", "resource.kubernetes.io/extended-resource-claim"], "true");
        }
        claim
    }

    fn object(&mut self, kind: usize) -> Value {
        match kind {
            0 => self.pod(),
            1 => self.service(),
            2 => self.claim(),
            _ => self.resource_claim(),
        }
    }
}

/// An object with its usage and its scopes.
#[derive(Clone)]
struct Measured {
    kind: usize,
    object: Value,
    usage: Usage,
    scopes: ObjectScopes,
}

impl Measured {
    /// Measures an object. The result depends only on the fields that the evaluator names.
    fn of(kind: usize, object: Value) -> Self {
        let evaluator = evaluator_of(KINDS[kind].0, KINDS[kind].1);
        let (usage, scopes) = (evaluator.usage(&object, &Cluster), evaluator.scopes(&object));
        let fields = Projection::of(evaluator.fields().iter().copied()).read(&json::encode(&object));
        let fields = fields.expect("an object");
        assert_eq!(print(&evaluator.usage(&fields, &Cluster)), print(&usage), "{fields:?}");
        assert_eq!(evaluator.scopes(&fields), scopes, "{fields:?}");
        for name in usage.keys() {
            assert!(evaluator.counts(name, Cluster.features()), "{name} is used, but not counted");
        }
        let measured = Self { kind, object, usage, scopes };
        if kind == 0 {
            measured.check_scopes();
        }
        measured
    }

    /// Checks that a pod is in exactly one of two opposite scopes.
    fn check_scopes(&self) {
        let opposites =
            [(TERMINATING, NOT_TERMINATING), (BEST_EFFORT, NOT_BEST_EFFORT), (HIGH, NOT_HIGH), (CLASS, NO_CLASS)];
        for (one, other) in opposites {
            let is_in = |index: usize| self.is_counted(&SCOPES[index]);
            assert!(is_in(one) != is_in(other), "{} or {}: {:?}", QUOTAS[one], QUOTAS[other], self.object);
        }
    }

    /// True if a quota with these requirements counts the object.
    fn is_counted(&self, quota: &ResourceQuota) -> bool {
        self.scopes.match_all(&quota.requirements).expect("valid scopes")
    }

    /// The usage of a quota's limits by the object.
    fn usage_of(&self, quota: &ResourceQuota) -> Usage {
        match self.is_counted(quota) {
            true => mask(&self.usage, |name| quota.hard.contains_key(name)),
            false => Usage::new(),
        }
    }
}

/// The quotas without limits.
static SCOPES: LazyLock<Vec<ResourceQuota>> =
    LazyLock::new(|| QUOTAS.iter().map(|spec| ResourceQuota::of(&object! {"spec": parse(spec)})).collect());

fn is_negative(usage: &Usage) -> bool {
    usage.values().any(|quantity| quantity.sign() < 0)
}

/// The objects of a namespace.
type Namespace = Vec<Option<Measured>>;

/// The usage of a quota's limits by the objects of a namespace.
fn used(namespace: &Namespace, quota: &ResourceQuota) -> Usage {
    let mut used: Usage = quota.hard.keys().map(|name| (name.clone(), Quantity::default())).collect();
    for object in namespace.iter().flatten() {
        add(&mut used, &object.usage_of(quota));
    }
    used
}

/// Usage is not negative. An accepted write is charged its added usage and fits the limits. Removed usage was added
/// before.
pub(super) fn writes(input: &[u8]) {
    let Some((limits, mut rest)) = input.split_first_chunk::<4>() else { return };
    let limits = u32::from_le_bytes(*limits);
    let chosen = LIMITS.iter().enumerate().filter(|(index, _)| limits >> index & 1 == 1);
    let hard: Usage =
        chosen.map(|(_, (name, limit))| ((*name).to_owned(), Quantity::parse(limit).expect("a quantity"))).collect();
    let mut quotas: Vec<ResourceQuota> =
        SCOPES.iter().map(|quota| ResourceQuota { hard: hard.clone(), ..quota.clone() }).collect();
    let mut namespace: Namespace = vec![None; OBJECTS];
    for _ in 0..MAX_WRITES {
        let Some(([action, slot, low, high], after)) = rest.split_first_chunk::<4>() else { return };
        rest = after;
        for quota in &mut quotas {
            quota.used = used(&namespace, quota);
        }
        let slot = usize::from(*slot) % OBJECTS;
        let seed = u64::from(u16::from_le_bytes([*low, *high]));
        let random = Random::new(seed << 8 | u64::from(*action));
        let mut generator = Generator { random, has_negative: action % 16 == 15 };
        match namespace[slot].take() {
            Some(old) if action % 4 == 0 => check_delete(&namespace, &quotas, &old),
            old => {
                let kind = old.as_ref().map_or(usize::from(*action) % KINDS.len(), |old| old.kind);
                let new = Measured::of(kind, generator.object(kind));
                let mut after = namespace.clone();
                after[slot] = Some(new.clone());
                let is_accepted = check_write_of(&quotas, old.as_ref(), &new, &after);
                namespace[slot] = if is_accepted { Some(new) } else { old };
            }
        }
    }
}

/// Checks that the usage after a delete plus the object's usage is the usage before.
fn check_delete(after: &Namespace, quotas: &[ResourceQuota], object: &Measured) {
    for quota in quotas {
        let (mut sum, usage) = (used(after, quota), object.usage_of(quota));
        add(&mut sum, &usage);
        assert_same(&sum, &quota.used);
        for (name, quantity) in &usage {
            if let Some(sum) = sum.get_mut(name) {
                sum.sub(quantity);
            }
        }
        assert_same(&sum, &used(after, quota));
    }
}

#[track_caller]
fn assert_same(one: &Usage, other: &Usage) {
    assert!(equal(one, other), "{} is not {}", print(one), print(other));
}

/// Returns whether a create or update is accepted. `after` has the objects after the write.
fn check_write_of(quotas: &[ResourceQuota], old: Option<&Measured>, new: &Measured, after: &Namespace) -> bool {
    let (group, plural) = KINDS[new.kind];
    let subresource = if new.kind == 0 && old.is_some() { "resize" } else { "" };
    let write = QuotaWrite { subresource, object: &new.object, old: old.map(|old| &old.object) };
    assert!(evaluator_of(group, plural).handles(write), "{subresource} of {plural}");
    let result = check_write(&MeasuredWrite::of(evaluator_of(group, plural), write, &Cluster), quotas, &[], |_| false);
    if is_negative(&new.usage) {
        assert!(matches!(result, Err(QuotaRefusal::Forbidden(_))), "{} is accepted", print(&new.usage));
        return false;
    }
    let Ok(charges) = result else { return false };
    for (index, quota) in quotas.iter().enumerate() {
        let mut charged = quota.used.clone();
        for charge in charges.iter().filter(|charge| charge.quota == index) {
            assert!(!is_negative(&charge.usage), "{} is charged", print(&charge.usage));
            add(&mut charged, &charge.usage);
            for name in charge.usage.keys() {
                assert!(charged.get(name) <= quota.hard.get(name), "{name} of {} exceeds its limit", print(&charged));
            }
        }
        let counted = used(after, quota);
        for (name, quantity) in &counted {
            let is_covered = charged.get(name).is_some_and(|charged| charged >= quantity);
            assert!(is_covered, "{name} of {} is not charged", print(&counted));
        }
        // Usage that an update gives back is not charged.
        let gives_back = old.is_some_and(|old| {
            let now = new.usage_of(quota);
            old.usage_of(quota).iter().any(|(name, before)| now.get(name).is_none_or(|now| now < before))
        });
        if !gives_back {
            assert_same(&charged, &counted);
        }
    }
    true
}

pub(super) fn writes_seeds() -> Vec<Vec<u8>> {
    let sequence = |limits: u32, kind: u8| {
        let writes = (0..10_u8).flat_map(|i| [kind + 4 * (i % 3 + 1), i % 4, i.wrapping_mul(37), i]);
        limits.to_le_bytes().into_iter().chain(writes).chain([0, 0, 0, 0, 0, 1, 0, 0]).collect()
    };
    let limits = [
        u32::MAX,
        0,
        1 << 0 | 1 << 3,
        1 << 6 | 1 << 9 | 1 << 11,
        1 << 13 | 1 << 15,
        1 << 19 | 1 << 20,
        1 << 22 | 1 << 23,
    ];
    limits.into_iter().flat_map(|limits| (0..4).map(move |kind| sequence(limits, kind))).collect()
}
