//! Cells of the group `resource.k8s.io` (dynamic resource allocation).

use pintle_value::Value;
use pintle_value::time::{Time, since};

use super::cells;

/// How far a claim is.
pub(super) fn claim_state(o: &Value) -> String {
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

/// The devices of all pools of a request, by a field.
pub(super) fn pool_devices(o: &Value, field: &str) -> String {
    counted(o, pools(o).iter().map(|pool| cells::int(pool, &[field])).sum())
}

/// How many pools of a request are invalid.
pub(super) fn pool_errors(o: &Value) -> String {
    let invalid = pools(o).iter().filter(|pool| pool.get("validationError").is_some()).count();
    counted(o, i64::try_from(invalid).unwrap_or(i64::MAX))
}

fn pools(request: &Value) -> &[Value] {
    request.items_at(&["status", "pools"])
}

/// A number of a request whose pools are counted.
fn counted(request: &Value, number: i64) -> String {
    let is_counted = request.at(&["status"]).is_some() && !matches!(RequestState::of(request), RequestState::Failed);
    if is_counted { number.to_string() } else { "-".to_owned() }
}

/// How far a request is.
pub(super) fn pool_request_status(o: &Value) -> String {
    let (listed, count) = (cells::count(o, &["status", "pools"]), cells::int(o, &["status", "poolCount"]));
    match RequestState::of(o) {
        RequestState::Pending => "Pending".to_owned(),
        RequestState::Failed => "Failed".to_owned(),
        RequestState::Complete(_) if count > listed => format!("Complete ({listed}/{count} pools)"),
        RequestState::Complete(_) => "Complete".to_owned(),
    }
}

/// How long ago the pools of a request were counted.
pub(super) fn pool_request_completed(o: &Value, now: Time) -> String {
    match RequestState::of(o) {
        RequestState::Complete(time) => since(time, now),
        RequestState::Pending | RequestState::Failed => "<none>".to_owned(),
    }
}

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
