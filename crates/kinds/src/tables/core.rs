//! Tables of the core group, except pods, services and endpoints.

use std::collections::BTreeSet;

use pintle_registry::Column;
use pintle_value::Value;
use pintle_value::time::{Time, age, since};

use super::{CONTAINERS, IMAGES, NAME_AND_AGE, StaticTable, cells, row};

pub(super) fn table(plural: &str) -> Option<StaticTable> {
    Some(match plural {
        "configmaps" => CONFIG_MAPS,
        "secrets" => SECRETS,
        "namespaces" => NAMESPACES,
        "serviceaccounts" => NAME_AND_AGE,
        "nodes" => NODES,
        "persistentvolumes" => PERSISTENT_VOLUMES,
        "persistentvolumeclaims" => PERSISTENT_VOLUME_CLAIMS,
        "resourcequotas" => RESOURCE_QUOTAS,
        "componentstatuses" => COMPONENT_STATUSES,
        "events" => EVENTS,
        "podtemplates" => POD_TEMPLATES,
        "replicationcontrollers" => REPLICATION_CONTROLLERS,
        _ => return None,
    })
}

const CONFIG_MAPS: StaticTable = StaticTable {
    columns: &[Column::NAME, Column::string("Data", "=core/v1.ConfigMap.data"), Column::AGE],
    cells: |o, now| row![o.name(), cells::count(o, &["data"]) + cells::count(o, &["binaryData"]), age(o, now)],
};

const SECRETS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Type", "=core/v1.Secret.type"),
        Column::string("Data", "=core/v1.Secret.data"),
        Column::AGE,
    ],
    cells: |o, now| row![o.name(), o.str_at(&["type"]), cells::count(o, &["data"]), age(o, now)],
};

const NAMESPACES: StaticTable = StaticTable {
    columns: &[Column::NAME, Column::string("Status", "The phase that the namespace is in."), Column::AGE],
    cells: |o, now| row![o.name(), o.str_at(&["status", "phase"]), age(o, now)],
};

const NODES: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Status", "Whether the node is ready and takes pods."),
        Column::string("Roles", "The roles that the node's labels give it."),
        Column::AGE,
        Column::string("Version", "=core/v1.NodeSystemInfo.kubeletVersion"),
        Column::string("Internal-IP", "=core/v1.NodeStatus.addresses").wide(),
        Column::string("External-IP", "=core/v1.NodeStatus.addresses").wide(),
        Column::string("OS-Image", "=core/v1.NodeSystemInfo.osImage").wide(),
        Column::string("Kernel-Version", "=core/v1.NodeSystemInfo.kernelVersion").wide(),
        Column::string("Container-Runtime", "=core/v1.NodeSystemInfo.containerRuntimeVersion").wide(),
    ],
    cells: node,
};

fn node(o: &Value, now: Time) -> Vec<Value> {
    // If several conditions have the same type, the last one counts here.
    let ready = o.items_at(&["status", "conditions"]).iter().rfind(|c| c.str_at(&["type"]) == "Ready");
    let mut status = match ready.map(|c| c.str_at(&["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if o.bool_at(&["spec", "unschedulable"]) {
        status.push_str(",SchedulingDisabled");
    }

    let roles: BTreeSet<&str> = o
        .entries_at(&["metadata", "labels"])
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            None if key == "kubernetes.io/role" => value.as_str(),
            role => role,
        })
        .filter(|role| !role.is_empty())
        .collect();
    let roles = roles.into_iter().collect::<Vec<_>>().join(",");

    let system = |field: &str| o.str_at(&["status", "nodeInfo", field]);
    let mut kernel = cells::or_placeholder(system("kernelVersion"), "<unknown>").to_owned();
    if !system("architecture").is_empty() {
        kernel.push_str(&format!(" ({})", system("architecture")));
    }
    row![
        o.name(),
        status,
        cells::or_placeholder(&roles, "<none>"),
        age(o, now),
        system("kubeletVersion"),
        address(o, "InternalIP"),
        address(o, "ExternalIP"),
        cells::or_placeholder(system("osImage"), "<unknown>"),
        kernel,
        cells::or_placeholder(system("containerRuntimeVersion"), "<unknown>"),
    ]
}

fn address<'a>(node: &'a Value, kind: &str) -> &'a str {
    let addresses = node.items_at(&["status", "addresses"]);
    addresses.iter().find(|a| a.str_at(&["type"]) == kind).map_or("<none>", |a| a.str_at(&["address"]))
}

const PERSISTENT_VOLUMES: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Capacity", "=core/v1.PersistentVolumeSpec.capacity"),
        Column::string("Access Modes", "=core/v1.PersistentVolumeSpec.accessModes"),
        Column::string("Reclaim Policy", "=core/v1.PersistentVolumeSpec.persistentVolumeReclaimPolicy"),
        Column::string("Status", "=core/v1.PersistentVolumeStatus.phase"),
        Column::string("Claim", "=core/v1.PersistentVolumeSpec.claimRef"),
        Column::string("StorageClass", "The volume's storage class."),
        Column::string("VolumeAttributesClass", "The volume's attributes class."),
        Column::string("Reason", "=core/v1.PersistentVolumeStatus.reason"),
        Column::AGE,
        Column::string("VolumeMode", "=core/v1.PersistentVolumeSpec.volumeMode").wide(),
    ],
    cells: |o, now| {
        let claim = o
            .at(&["spec", "claimRef"])
            .map(|claim| format!("{}/{}", claim.str_at(&["namespace"]), claim.str_at(&["name"])));
        row![
            o.name(),
            cells::quantity(o, &["spec", "capacity", "storage"]),
            cells::access_modes(o, &["spec", "accessModes"]),
            o.str_at(&["spec", "persistentVolumeReclaimPolicy"]),
            volume_phase(o),
            claim.unwrap_or_default(),
            storage_class(o),
            cells::string_or(o, &["spec", "volumeAttributesClassName"], "<unset>"),
            o.str_at(&["status", "reason"]),
            age(o, now),
            cells::string_or(o, &["spec", "volumeMode"], "<unset>"),
        ]
    },
};

const PERSISTENT_VOLUME_CLAIMS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Status", "=core/v1.PersistentVolumeClaimStatus.phase"),
        Column::string("Volume", "=core/v1.PersistentVolumeClaimSpec.volumeName"),
        Column::string("Capacity", "=core/v1.PersistentVolumeClaimStatus.capacity"),
        Column::string("Access Modes", "=core/v1.PersistentVolumeClaimStatus.accessModes"),
        Column::string("StorageClass", "The claim's storage class."),
        Column::string("VolumeAttributesClass", "The claim's volume attributes class."),
        Column::AGE,
        Column::string("VolumeMode", "=core/v1.PersistentVolumeClaimSpec.volumeMode").wide(),
    ],
    cells: |o, now| {
        let volume = o.str_at(&["spec", "volumeName"]);
        // Upstream shows the actual capacity and access modes only if the claim names a volume.
        let (capacity, modes) = if volume.is_empty() {
            (String::new(), String::new())
        } else {
            let capacity = cells::quantity(o, &["status", "capacity", "storage"]);
            (capacity, cells::access_modes(o, &["status", "accessModes"]))
        };
        row![
            o.name(),
            volume_phase(o),
            volume,
            capacity,
            modes,
            storage_class(o),
            cells::string_or(o, &["spec", "volumeAttributesClassName"], "<unset>"),
            age(o, now),
            cells::string_or(o, &["spec", "volumeMode"], "<unset>"),
        ]
    },
};

fn volume_phase(o: &Value) -> &str {
    if o.is_terminating() { "Terminating" } else { o.str_at(&["status", "phase"]) }
}

/// Returns the storage class of a volume or a claim. The beta annotation takes precedence.
fn storage_class(o: &Value) -> &str {
    o.annotation("volume.beta.kubernetes.io/storage-class").unwrap_or_else(|| o.str_at(&["spec", "storageClassName"]))
}

const RESOURCE_QUOTAS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Request", "What is used of what may be requested, and the other quotas."),
        Column::string("Limit", "What is used of what containers may be limited to together."),
        Column::AGE,
    ],
    cells: |o, now| {
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (resource, hard) in o.entries_at(&["status", "hard"]) {
            let used = cells::quantity(o, &["status", "used", resource]);
            let text = format!("{resource}: {used}/{}", cells::scalar(hard));
            if resource.starts_with("limits.") { limits.push(text) } else { requests.push(text) }
        }
        row![o.name(), requests.join(", "), limits.join(", "), age(o, now)]
    },
};

const COMPONENT_STATUSES: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Status", "Whether the component is healthy."),
        Column::string("Message", "What the component's condition says."),
        Column::string("Error", "The error that the component's condition holds."),
    ],
    cells: |o, _| {
        let Some(healthy) = cells::find_condition(o.items_at(&["conditions"]), "Healthy") else {
            return row![o.name(), "Unknown", "", ""];
        };
        let status = if healthy.str_at(&["status"]) == "True" { "Healthy" } else { "Unhealthy" };
        row![o.name(), status, healthy.str_at(&["message"]), healthy.str_at(&["error"])]
    },
};

const EVENTS: StaticTable = StaticTable {
    columns: &[
        Column::string("Last Seen", "=core/v1.Event.lastTimestamp"),
        Column::string("Type", "=core/v1.Event.type"),
        Column::string("Reason", "=core/v1.Event.reason"),
        Column::string("Object", "=core/v1.Event.involvedObject"),
        Column::string("Subobject", "=core/v1.ObjectReference.fieldPath").wide(),
        Column::string("Source", "=core/v1.Event.source").wide(),
        Column::string("Message", "=core/v1.Event.message"),
        Column::string("First Seen", "=core/v1.Event.firstTimestamp").wide(),
        Column::string("Count", "=core/v1.Event.count").wide(),
        Column::NAME.wide(),
    ],
    cells: event,
};

fn event(o: &Value, now: Time) -> Vec<Value> {
    let first = o.time_at(&["firstTimestamp"]).or_else(|| o.time_at(&["eventTime"]));
    let mut last = o.time_at(&["lastTimestamp"]).or(first);
    let mut count = cells::int(o, &["count"]);
    if let Some(series) = o.at(&["series"]) {
        last = series.time_at(&["lastObservedTime"]);
        count = cells::int(series, &["count"]);
    } else if count == 0 {
        // Single events of `events.k8s.io/v1` have no count.
        count = 1;
    }

    let mut object = o.str_at(&["involvedObject", "kind"]).to_lowercase();
    let name = o.str_at(&["involvedObject", "name"]);
    if !name.is_empty() {
        object = format!("{object}/{name}");
    }
    let mut source =
        cells::or_placeholder(o.str_at(&["source", "component"]), o.str_at(&["reportingComponent"])).to_owned();
    let instance = cells::or_placeholder(o.str_at(&["source", "host"]), o.str_at(&["reportingInstance"]));
    if !instance.is_empty() {
        source = format!("{source}, {instance}");
    }
    row![
        since(last, now),
        o.str_at(&["type"]),
        o.str_at(&["reason"]),
        object,
        o.str_at(&["involvedObject", "fieldPath"]),
        source,
        o.str_at(&["message"]).trim(),
        since(first, now),
        count,
        o.name(),
    ]
}

const POD_TEMPLATES: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Containers", "The names of the containers in the template."),
        Column::string("Images", "The images of the containers in the template."),
        Column::string("Pod Labels", "The labels that pods get."),
    ],
    cells: |o, _| {
        let (names, images) = cells::container_names_and_images(o.at(&["template", "spec"]));
        row![o.name(), names, images, cells::labels(o, &["template", "metadata", "labels"])]
    },
};

const REPLICATION_CONTROLLERS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::integer("Desired", "=core/v1.ReplicationControllerSpec.replicas"),
        Column::integer("Current", "=core/v1.ReplicationControllerStatus.replicas"),
        Column::integer("Ready", "=core/v1.ReplicationControllerStatus.readyReplicas"),
        Column::AGE,
        CONTAINERS,
        IMAGES,
        Column::string("Selector", "=core/v1.ReplicationControllerSpec.selector").wide(),
    ],
    cells: |o, now| {
        let (names, images) = cells::container_names_and_images(o.at(&["spec", "template", "spec"]));
        row![
            o.name(),
            cells::int(o, &["spec", "replicas"]),
            cells::int(o, &["status", "replicas"]),
            cells::int(o, &["status", "readyReplicas"]),
            age(o, now),
            names,
            images,
            cells::labels(o, &["spec", "selector"]),
        ]
    },
};
