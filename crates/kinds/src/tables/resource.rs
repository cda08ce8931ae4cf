//! Tables of the group `resource.k8s.io` (dynamic resource allocation).

use pintle_registry::Column;
use pintle_value::Value;
use pintle_value::time::age;

use super::{NAME_AND_AGE, StaticTable, row};

pub(super) fn table(plural: &str) -> Option<StaticTable> {
    Some(match plural {
        "deviceclasses" | "devicetaintrules" | "resourceclaimtemplates" | "resourcepoolstatusrequests" => NAME_AND_AGE,
        "resourceclaims" => RESOURCE_CLAIMS,
        "resourceslices" => RESOURCE_SLICES,
        _ => return None,
    })
}

const RESOURCE_CLAIMS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("State", "How far the claim is: pending, allocated, reserved, deleted."),
        Column::AGE,
    ],
    cells: |o, now| row![o.name(), claim_state(o), age(o, now)],
};

fn claim_state(o: &Value) -> String {
    let allocated = o.at(&["status", "allocation"]).is_some();
    let mut states = Vec::new();
    if o.is_terminating() {
        states.push("deleted");
    } else if !allocated {
        states.push("pending");
    }
    if allocated {
        states.push("allocated");
        if !o.items_at(&["status", "reservedFor"]).is_empty() {
            states.push("reserved");
        }
    }
    states.join(",")
}

const RESOURCE_SLICES: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Node", "=resource/v1.ResourceSliceSpec.nodeName"),
        Column::string("Driver", "=resource/v1.ResourceSliceSpec.driver"),
        Column::string("Pool", "=resource/v1.ResourcePool.name"),
        Column::AGE,
    ],
    cells: |o, now| {
        row![
            o.name(),
            o.str_at(&["spec", "nodeName"]),
            o.str_at(&["spec", "driver"]),
            o.str_at(&["spec", "pool", "name"]),
            age(o, now),
        ]
    },
};
