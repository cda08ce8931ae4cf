//! Tables of the group `apps`.

use pintle_registry::Column;
use pintle_value::Value;
use pintle_value::time::{Time, age};

use super::{CONTAINERS, IMAGES, StaticTable, cells, row};

pub(super) fn table(plural: &str) -> Option<StaticTable> {
    Some(match plural {
        "deployments" => DEPLOYMENTS,
        "replicasets" => REPLICA_SETS,
        "statefulsets" => STATEFUL_SETS,
        "daemonsets" => DAEMON_SETS,
        "controllerrevisions" => CONTROLLER_REVISIONS,
        _ => return None,
    })
}

fn container_names_and_images(o: &Value) -> (String, String) {
    cells::container_names_and_images(o.at(&["spec", "template", "spec"]))
}

fn ready_of_desired(o: &Value) -> String {
    format!("{}/{}", cells::int(o, &["status", "readyReplicas"]), cells::int(o, &["spec", "replicas"]))
}

const DEPLOYMENTS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Ready", "How many of the wanted pods are ready."),
        Column::string("Up-to-date", "=apps/v1.DeploymentStatus.updatedReplicas"),
        Column::string("Available", "=apps/v1.DeploymentStatus.availableReplicas"),
        Column::AGE,
        CONTAINERS,
        IMAGES,
        Column::string("Selector", "=apps/v1.DeploymentSpec.selector").wide(),
    ],
    cells: |o, now| {
        let (names, images) = container_names_and_images(o);
        row![
            o.name(),
            ready_of_desired(o),
            cells::int(o, &["status", "updatedReplicas"]),
            cells::int(o, &["status", "availableReplicas"]),
            age(o, now),
            names,
            images,
            // Unlike in other kinds, an empty selector prints as an empty string and an invalid one as `<invalid>`.
            cells::selector(o.at(&["spec", "selector"])).unwrap_or_else(|| "<invalid>".to_owned()),
        ]
    },
};

const REPLICA_SETS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::integer("Desired", "=apps/v1.ReplicaSetSpec.replicas"),
        Column::integer("Current", "=apps/v1.ReplicaSetStatus.replicas"),
        Column::integer("Ready", "=apps/v1.ReplicaSetStatus.readyReplicas"),
        Column::AGE,
        CONTAINERS,
        IMAGES,
        Column::string("Selector", "=apps/v1.ReplicaSetSpec.selector").wide(),
    ],
    cells: |o, now| {
        let (names, images) = container_names_and_images(o);
        row![
            o.name(),
            cells::int(o, &["spec", "replicas"]),
            cells::int(o, &["status", "replicas"]),
            cells::int(o, &["status", "readyReplicas"]),
            age(o, now),
            names,
            images,
            cells::format_selector(o, &["spec", "selector"]),
        ]
    },
};

const STATEFUL_SETS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Ready", "How many of the wanted pods are ready."),
        Column::AGE,
        CONTAINERS,
        IMAGES,
    ],
    cells: |o, now| {
        let (names, images) = container_names_and_images(o);
        row![o.name(), ready_of_desired(o), age(o, now), names, images]
    },
};

const DAEMON_SETS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::integer("Desired", "=apps/v1.DaemonSetStatus.desiredNumberScheduled"),
        Column::integer("Current", "=apps/v1.DaemonSetStatus.currentNumberScheduled"),
        Column::integer("Ready", "=apps/v1.DaemonSetStatus.numberReady"),
        Column::integer("Up-to-date", "=apps/v1.DaemonSetStatus.updatedNumberScheduled"),
        Column::integer("Available", "=apps/v1.DaemonSetStatus.numberAvailable"),
        Column::string("Node Selector", "=core/v1.PodSpec.nodeSelector"),
        Column::AGE,
        CONTAINERS,
        IMAGES,
        Column::string("Selector", "=apps/v1.DaemonSetSpec.selector").wide(),
    ],
    cells: |o, now| {
        let (names, images) = container_names_and_images(o);
        let status = |field: &str| cells::int(o, &["status", field]);
        row![
            o.name(),
            status("desiredNumberScheduled"),
            status("currentNumberScheduled"),
            status("numberReady"),
            status("updatedNumberScheduled"),
            status("numberAvailable"),
            cells::labels(o, &["spec", "template", "spec", "nodeSelector"]),
            age(o, now),
            names,
            images,
            cells::format_selector(o, &["spec", "selector"]),
        ]
    },
};

const CONTROLLER_REVISIONS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Controller", "The object that this is a revision of."),
        Column::string("Revision", "=apps/v1.ControllerRevision.revision"),
        Column::AGE,
    ],
    cells: controller_revision,
};

fn controller_revision(o: &Value, now: Time) -> Vec<Value> {
    let owners = o.items_at(&["metadata", "ownerReferences"]);
    let controller = owners.iter().find(|r| r.bool_at(&["controller"])).map(|owner| {
        let (kind, name) = (owner.str_at(&["kind"]).to_lowercase(), owner.str_at(&["name"]));
        match owner.str_at(&["apiVersion"]).split_once('/') {
            Some((group, _)) => format!("{kind}.{}/{name}", group.to_lowercase()),
            None => format!("{kind}/{name}"),
        }
    });
    row![o.name(), controller.as_deref().unwrap_or("<none>"), cells::int(o, &["revision"]), age(o, now)]
}
