//! Cells of API groups with few special cells: admission registration, API registration, certificates, discovery, flow
//! control, RBAC, scheduling, and the groups of stored versions.

use pintle_value::Value;
use pintle_value::time::{Duration, human_duration};

use super::cells;

/// How many items of a list tables show.
const SHOWN: usize = 3;

/// The first servers with the versions in which they store objects.
pub(super) fn storage_versions(o: &Value) -> String {
    let versions = o.items_at(&["status", "storageVersions"]);
    let shown = versions.iter().take(SHOWN);
    let shown =
        shown.map(|server| format!("{}={}", server.str_at(&["apiServerID"]), server.str_at(&["encodingVersion"])));
    let list = shown.collect::<Vec<_>>().join(",");
    match versions.len() {
        0 => "<unset>".to_owned(),
        1..=SHOWN => list,
        count => format!("{list} + {} more...", count - SHOWN),
    }
}

/// The served versions of a CustomResourceDefinition, sorted. The storage version is marked.
pub(super) fn definition_versions(o: &Value) -> String {
    let served = o.items_at(&["spec", "versions"]).iter().filter(|version| version.bool_at(&["served"]));
    let mark = |version: &Value| if version.bool_at(&["storage"]) { "(storage)" } else { "" };
    let mut names: Vec<_> = served.map(|version| format!("{}{}", version.str_at(&["name"]), mark(version))).collect();
    names.sort_unstable();
    names.join(",")
}

/// The resource whose objects are migrated.
pub(super) fn migration_resource(o: &Value) -> String {
    let resource = |field: &str| o.str_at(&["spec", "resource", field]);
    if resource("group").is_empty() {
        resource("resource").to_owned()
    } else {
        format!("{}.{}", resource("resource"), resource("group"))
    }
}

/// How far a migration is.
pub(super) fn migration_status(o: &Value) -> &str {
    let conditions = o.items_at(&["status", "conditions"]).iter().rev();
    let mut states = conditions.filter(|condition| condition.str_at(&["status"]) == "True");
    let state = states.find_map(|condition| match condition.str_at(&["type"]) {
        state @ ("Running" | "Failed" | "Succeeded") => Some(state),
        _ => None,
    });
    state.unwrap_or("Unknown")
}

/// How far a group of pods is.
pub(super) fn pod_group_status(o: &Value) -> &str {
    let condition = |kind| cells::find_condition(o.items_at(&["status", "conditions"]), kind);
    match (condition("DisruptionTarget"), condition("PodGroupScheduled")) {
        (Some(disruption), _) => disruption.str_at(&["reason"]),
        (None, Some(scheduled)) if scheduled.str_at(&["status"]) == "True" => "Scheduled",
        (None, Some(_)) => "Unschedulable",
        (None, None) => "Pending",
    }
}

/// The parameters that a policy is bound to.
pub(super) fn binding_parameters(o: &Value) -> String {
    let Some(reference) = o.at(&["spec", "paramRef"]) else { return "<unset>".to_owned() };
    let (namespace, name) = (reference.str_at(&["namespace"]), reference.str_at(&["name"]));
    if !name.is_empty() {
        // The binding does not tell whether its parameters are namespaced.
        return format!("{}/{name}", cells::or_placeholder(namespace, "*"));
    }
    reference.get("selector").map_or_else(|| "<unset>".to_owned(), cells::go_selector)
}

/// Whether an API can be reached.
pub(super) fn api_service_available(o: &Value) -> String {
    let condition = cells::find_condition(o.items_at(&["status", "conditions"]), "Available");
    condition.map_or_else(
        || "Unknown".to_owned(),
        |c| match (c.str_at(&["status"]), c.str_at(&["reason"])) {
            (status @ "True", _) | (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    )
}

/// How long the certificate of a signing request shall be valid.
pub(super) fn signing_request_duration(o: &Value) -> String {
    let seconds = o.int_at(&["spec", "expirationSeconds"]);
    let duration = seconds.map(|seconds| human_duration(Duration(seconds.saturating_mul(1_000_000_000))));
    duration.unwrap_or_else(|| "<none>".to_owned())
}

/// How far a signing request is.
pub(super) fn signing_request_state(o: &Value) -> String {
    let conditions = o.items_at(&["status", "conditions"]);
    let has = |kind: &str| cells::find_condition(conditions, kind).is_some();
    let mut state = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !o.str_at(&["status", "certificate"]).is_empty() {
        state.push_str(",Issued");
    }
    state
}

/// The ports of an endpoint slice.
pub(super) fn endpoint_slice_ports(o: &Value) -> String {
    let ports: Vec<String> = o
        .items_at(&["ports"])
        .iter()
        .map(|port| match port.int_at(&["port"]) {
            Some(number) => number.to_string(),
            None => cells::string_or(port, &["name"], "*").to_owned(),
        })
        .collect();
    cells::first_items(&ports, SHOWN)
}

/// The addresses of an endpoint slice.
pub(super) fn endpoint_slice_addresses(o: &Value) -> String {
    let addresses: Vec<String> = o
        .items_at(&["endpoints"])
        .iter()
        .flat_map(|endpoint| cells::strings(endpoint, &["addresses"]))
        .map(str::to_owned)
        .collect();
    cells::first_items(&addresses, SHOWN)
}

/// Whether the priority level of a flow schema is missing.
pub(super) fn flow_schema_dangling(o: &Value) -> &str {
    let dangling = cells::find_condition(o.items_at(&["status", "conditions"]), "Dangling");
    dangling.map_or("?", |condition| condition.str_at(&["status"]))
}

/// The subjects of a kind that a role is given to.
pub(super) fn subjects(o: &Value, kind: &str) -> String {
    let subjects = o.items_at(&["subjects"]).iter().filter(|subject| subject.str_at(&["kind"]) == kind);
    let names = subjects.map(|subject| match (kind, subject.str_at(&["name"])) {
        ("ServiceAccount", name) => format!("{}/{name}", subject.str_at(&["namespace"])),
        (_, name) => name.to_owned(),
    });
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use crate::tables::tests;

    #[test]
    fn groups_of_pods() {
        let check = |rest: &str, expect: &str| tests::check("scheduling.k8s.io", "podgroups", rest, expect);
        check("", r#"["x","Basic","<none>","Pending","5m"]"#);
        let spec = r#""spec":{"schedulingPolicy":{"gang":{"minCount":2}},"podGroupTemplateRef":{"workload":{"workloadName":"w"}}}"#;
        let with = |conditions: &str| format!(r#"{spec},"status":{{"conditions":[{conditions}]}}"#);
        let scheduled = |status: &str| format!(r#"{{"type":"PodGroupScheduled","status":"{status}"}}"#);
        check(&with(&scheduled("True")), r#"["x","Gang","w","Scheduled","5m"]"#);
        check(&with(&scheduled("False")), r#"["x","Gang","w","Unschedulable","5m"]"#);
        let disrupted = r#"{"type":"DisruptionTarget","status":"True","reason":"Preempted"}"#;
        check(&with(&format!("{},{disrupted}", scheduled("True"))), r#"["x","Gang","w","Preempted","5m"]"#);
        tests::check("scheduling.k8s.io", "workloads", "", r#"["x","5m"]"#);
    }

    #[test]
    fn storage_version_migrations() {
        let check = |status: &str, expect: &str| {
            let rest = format!(r#""spec":{{"resource":{{"group":"apps","resource":"deployments"}}}}{status}"#);
            tests::check("storagemigration.k8s.io", "storageversionmigrations", &rest, expect);
        };
        check("", r#"["x","deployments.apps","Unknown"]"#);
        let condition = |kind: &str, status: &str| format!(r#"{{"type":"{kind}","status":"{status}"}}"#);
        let both = format!("{},{}", condition("Running", "False"), condition("Succeeded", "True"));
        check(&format!(r#","status":{{"conditions":[{both}]}}"#), r#"["x","deployments.apps","Succeeded"]"#);
    }
}
