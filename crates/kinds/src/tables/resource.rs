//! Tables of the group `resource.k8s.io` (dynamic resource allocation).

use pintle_registry::Column;
use pintle_value::Value;
use pintle_value::time::{Time, age, since};

use super::{NAME_AND_AGE, StaticTable, cells, row};

pub(super) fn table(plural: &str) -> Option<StaticTable> {
    Some(match plural {
        "deviceclasses" | "resourceclaimtemplates" => NAME_AND_AGE,
        "devicetaintrules" => DEVICE_TAINT_RULES,
        "resourceclaims" => RESOURCE_CLAIMS,
        "resourcepoolstatusrequests" => POOL_STATUS_REQUESTS,
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

const DEVICE_TAINT_RULES: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Key", "=resource/v1beta2.DeviceTaint.key"),
        Column::string("Value", "=resource/v1beta2.DeviceTaint.value"),
        Column::string("Effect", "=resource/v1beta2.DeviceTaint.effect"),
        Column::string("TimeAdded", "=resource/v1beta2.DeviceTaint.timeAdded"),
        Column::AGE,
    ],
    cells: |o, now| {
        let taint = |field: &str| o.str_at(&["spec", "taint", field]);
        let added = o.time_at(&["spec", "taint", "timeAdded"]);
        let added = added.map_or_else(String::new, |added| since(Some(added), now));
        row![o.name(), taint("key"), taint("value"), taint("effect"), added, age(o, now)]
    },
};

const POOL_STATUS_REQUESTS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Driver", "The driver whose pools are counted."),
        Column::string("Total", "How many devices the pools have."),
        Column::string("Available", "How many of the devices are available."),
        Column::string("Allocated", "How many of the devices are allocated."),
        Column::string("Unavailable", "How many of the devices are unavailable."),
        Column::string("Errors", "How many of the pools are invalid."),
        Column::integer("Pools", "How many pools match the request."),
        Column::string("Status", "How far the request is: pending, complete, failed."),
        Column::string("Completed", "How long ago the pools were counted."),
    ],
    cells: |o, now| {
        let state = RequestState::of(o);
        let pools = o.items_at(&["status", "pools"]);
        let is_counted = o.at(&["status"]).is_some() && !matches!(state, RequestState::Failed);
        let count = |number: i64| if is_counted { number.to_string() } else { "-".to_owned() };
        let sum = |field: &str| count(pools.iter().map(|pool| cells::int(pool, &[field])).sum());
        let invalid = pools.iter().filter(|pool| pool.get("validationError").is_some()).count();
        let pool_count = cells::int(o, &["status", "poolCount"]);
        let (text, completed) = match state {
            RequestState::Pending => ("Pending".to_owned(), None),
            RequestState::Failed => ("Failed".to_owned(), None),
            RequestState::Complete(time) => {
                let listed = i64::try_from(pools.len()).unwrap_or(i64::MAX);
                let is_partial = pool_count > listed;
                let text =
                    if is_partial { format!("Complete ({listed}/{pool_count} pools)") } else { "Complete".to_owned() };
                (text, Some(since(time, now)))
            }
        };
        row![
            o.name(),
            o.str_at(&["spec", "driver"]),
            sum("totalDevices"),
            sum("availableDevices"),
            sum("allocatedDevices"),
            sum("unavailableDevices"),
            count(i64::try_from(invalid).unwrap_or(i64::MAX)),
            pool_count,
            text,
            completed.unwrap_or_else(|| "<none>".to_owned()),
        ]
    },
};

/// The state of a request for the status of pools, by the first condition that is true.
enum RequestState {
    Pending,
    Complete(Option<Time>),
    Failed,
}

impl RequestState {
    fn of(request: &Value) -> Self {
        let conditions = request.items_at(&["status", "conditions"]).iter();
        let mut known =
            conditions.filter(|condition| condition.str_at(&["status"]) == "True").filter_map(|condition| {
                match condition.str_at(&["type"]) {
                    "Complete" => Some(Self::Complete(condition.time_at(&["lastTransitionTime"]))),
                    "Failed" => Some(Self::Failed),
                    _ => None,
                }
            });
        known.next().unwrap_or(Self::Pending)
    }
}

#[cfg(test)]
mod tests {
    use crate::tables::tests;

    #[test]
    fn device_taints() {
        let check = |taint: &str, expect: &str| {
            tests::check("resource.k8s.io", "devicetaintrules", &format!(r#""spec":{{"taint":{taint}}}"#), expect);
        };
        check(r#"{"key":"k","effect":"NoExecute"}"#, r#"["x","k","","NoExecute","","5m"]"#);
        check(
            r#"{"key":"k","value":"v","effect":"None","timeAdded":"2024-05-01T11:58:00Z"}"#,
            r#"["x","k","v","None","2m","5m"]"#,
        );
    }

    #[test]
    fn the_status_of_resource_pools() {
        let check = |status: &str, expect: &str| {
            let rest = format!(r#""spec":{{"driver":"d"}}{status}"#);
            tests::check("resource.k8s.io", "resourcepoolstatusrequests", &rest, expect);
        };
        check("", r#"["x","d","-","-","-","-","-",0,"Pending","<none>"]"#);
        let pools =
            r#""pools":[{"totalDevices":4,"availableDevices":3,"allocatedDevices":1},{"validationError":"bad"}]"#;
        let complete = r#"{"type":"Complete","status":"True","lastTransitionTime":"2024-05-01T11:59:00Z"}"#;
        let with = |count: i64, conditions: &str| {
            format!(r#","status":{{"poolCount":{count},{pools},"conditions":[{conditions}]}}"#)
        };
        check(&with(2, complete), r#"["x","d","4","3","1","0","1",2,"Complete","60s"]"#);
        check(&with(3, complete), r#"["x","d","4","3","1","0","1",3,"Complete (2/3 pools)","60s"]"#);
        check(
            &with(2, r#"{"type":"Complete","status":"False"}"#),
            r#"["x","d","4","3","1","0","1",2,"Pending","<none>"]"#,
        );
        let failed = r#"{"type":"Failed","status":"True"}"#;
        check(&with(2, &format!("{failed},{complete}")), r#"["x","d","-","-","-","-","-",2,"Failed","<none>"]"#);
    }
}
