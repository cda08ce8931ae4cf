//! Tables of API groups with one or two kinds each: admission registration, certificates, coordination, discovery, API
//! registration, node, policy, scheduling.

use pintle_registry::Column;
use pintle_value::Value;
use pintle_value::time::{Duration, Time, age, human_duration};

use super::{NAME_AND_AGE, StaticTable, cells, row};

pub(super) fn table(group: &str, plural: &str) -> Option<StaticTable> {
    Some(match (group, plural) {
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations" | "validatingwebhookconfigurations") => {
            WEBHOOK_CONFIGURATIONS
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => VALIDATING_POLICIES,
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies") => MUTATING_POLICIES,
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings" | "mutatingadmissionpolicybindings") => {
            POLICY_BINDINGS
        }
        ("apiregistration.k8s.io", "apiservices") => API_SERVICES,
        ("certificates.k8s.io", "certificatesigningrequests") => SIGNING_REQUESTS,
        ("certificates.k8s.io", "clustertrustbundles") => TRUST_BUNDLES,
        ("certificates.k8s.io", "podcertificaterequests") => POD_CERTIFICATE_REQUESTS,
        ("coordination.k8s.io", "leases") => LEASES,
        ("coordination.k8s.io", "leasecandidates") => LEASE_CANDIDATES,
        ("discovery.k8s.io", "endpointslices") => ENDPOINT_SLICES,
        ("internal.apiserver.k8s.io", "storageversions") => STORAGE_VERSIONS,
        ("node.k8s.io", "runtimeclasses") => RUNTIME_CLASSES,
        ("policy", "poddisruptionbudgets") => DISRUPTION_BUDGETS,
        ("scheduling.k8s.io", "podgroups") => POD_GROUPS,
        ("scheduling.k8s.io", "priorityclasses") => PRIORITY_CLASSES,
        ("scheduling.k8s.io", "workloads") => NAME_AND_AGE,
        ("storagemigration.k8s.io", "storageversionmigrations") => STORAGE_VERSION_MIGRATIONS,
        _ => return None,
    })
}

const TRUST_BUNDLES: StaticTable = StaticTable {
    columns: &[Column::NAME, Column::string("SignerName", "=certificates/v1beta1.ClusterTrustBundleSpec.signerName")],
    cells: |o, _| {
        let signer = o.str_at(&["spec", "signerName"]);
        row![o.name(), if signer.is_empty() { "<none>" } else { signer }]
    },
};

const POD_CERTIFICATE_REQUESTS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("PodName", "=certificates/v1beta1.PodCertificateRequestSpec.podName"),
        Column::string("ServiceAccountName", "=certificates/v1beta1.PodCertificateRequestSpec.serviceAccountName"),
        Column::string("NodeName", "=certificates/v1beta1.PodCertificateRequestSpec.nodeName"),
        Column::string("SignerName", "=certificates/v1beta1.PodCertificateRequestSpec.signerName"),
        // Upstream looks for the description of this in the status, which has no such field.
        Column::string("State", ""),
    ],
    cells: |o, _| {
        let spec = |field: &str| o.str_at(&["spec", field]);
        let last = o.items_at(&["status", "conditions"]).last();
        let state = last.map_or("Pending", |condition| condition.str_at(&["type"]));
        row![o.name(), spec("podName"), spec("serviceAccountName"), spec("nodeName"), spec("signerName"), state]
    },
};

const LEASE_CANDIDATES: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("LeaseName", "=coordination/v1beta1.LeaseCandidateSpec.leaseName"),
        // Upstream looks for the descriptions of these in the metadata.
        Column::string("BinaryVersion", ""),
        Column::string("EmulationVersion", ""),
        Column::AGE,
    ],
    cells: |o, now| {
        let spec = |field: &str| o.str_at(&["spec", field]);
        row![o.name(), spec("leaseName"), spec("binaryVersion"), spec("emulationVersion"), age(o, now)]
    },
};

const STORAGE_VERSIONS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string(
            "CommonEncodingVersion",
            "=apiserverinternal/v1alpha1.StorageVersionStatus.commonEncodingVersion",
        ),
        Column::string("StorageVersions", "=apiserverinternal/v1alpha1.StorageVersionStatus.storageVersions"),
        Column::AGE,
    ],
    cells: |o, now| {
        let common = o.at(&["status", "commonEncodingVersion"]).and_then(Value::as_str);
        row![o.name(), common.unwrap_or("<unset>"), storage_versions(o), age(o, now)]
    },
};

/// The first servers with the versions in which they store objects.
fn storage_versions(o: &Value) -> String {
    const SHOWN: usize = 3;
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

const STORAGE_VERSION_MIGRATIONS: StaticTable = StaticTable {
    columns: &[
        Column::new("Name", "string", "", "=meta/v1.ObjectMeta.name"),
        Column::string("Resource", "The resource whose objects are migrated."),
        Column::string("Status", "How far the migration is."),
    ],
    cells: |o, _| {
        let resource = |field: &str| o.str_at(&["spec", "resource", field]);
        let name = if resource("group").is_empty() {
            resource("resource").to_owned()
        } else {
            format!("{}.{}", resource("resource"), resource("group"))
        };
        let conditions = o.items_at(&["status", "conditions"]).iter().rev();
        let mut states = conditions.filter(|condition| condition.str_at(&["status"]) == "True");
        let state = states.find_map(|condition| match condition.str_at(&["type"]) {
            state @ ("Running" | "Failed" | "Succeeded") => Some(state),
            _ => None,
        });
        row![o.name(), name, state.unwrap_or("Unknown")]
    },
};

const POD_GROUPS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Policy", "=scheduling/v1alpha2.PodGroupSpec.schedulingPolicy"),
        Column::string("Workload", "The workload that the group belongs to."),
        Column::string("Status", "How far the group is."),
        Column::AGE,
    ],
    cells: |o, now| {
        let policy = if o.at(&["spec", "schedulingPolicy", "gang"]).is_some() { "Gang" } else { "Basic" };
        let reference = o.at(&["spec", "podGroupTemplateRef"]);
        let workload = reference.map_or("<none>", |reference| reference.str_at(&["workload", "workloadName"]));
        let condition = |kind| cells::find_condition(o.items_at(&["status", "conditions"]), kind);
        let state = match (condition("DisruptionTarget"), condition("PodGroupScheduled")) {
            (Some(disruption), _) => disruption.str_at(&["reason"]),
            (None, Some(scheduled)) if scheduled.str_at(&["status"]) == "True" => "Scheduled",
            (None, Some(_)) => "Unschedulable",
            (None, None) => "Pending",
        };
        row![o.name(), policy, workload, state, age(o, now)]
    },
};

const WEBHOOK_CONFIGURATIONS: StaticTable = StaticTable {
    columns: &[Column::NAME, Column::integer("Webhooks", "How many webhooks this holds."), Column::AGE],
    cells: |o, now| row![o.name(), cells::count(o, &["webhooks"]), age(o, now)],
};

const PARAM_KIND: Column = Column::string("ParamKind", "The kind of the policy's parameters.");

const VALIDATING_POLICIES: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::integer("Validations", "How many validations this holds."),
        PARAM_KIND,
        Column::AGE,
    ],
    cells: |o, now| row![o.name(), cells::count(o, &["spec", "validations"]), param_kind(o), age(o, now)],
};

const MUTATING_POLICIES: StaticTable = StaticTable {
    columns: &[Column::NAME, Column::integer("Mutations", "How many mutations this holds."), PARAM_KIND, Column::AGE],
    cells: |o, now| row![o.name(), cells::count(o, &["spec", "mutations"]), param_kind(o), age(o, now)],
};

fn param_kind(o: &Value) -> String {
    match o.at(&["spec", "paramKind"]) {
        Some(kind) => format!("{}/{}", kind.str_at(&["apiVersion"]), kind.str_at(&["kind"])),
        None => "<unset>".to_owned(),
    }
}

const POLICY_BINDINGS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("PolicyName", "The policy that is bound."),
        Column::string("ParamRef", "The parameters that the policy is bound to."),
        Column::AGE,
    ],
    cells: |o, now| row![o.name(), o.str_at(&["spec", "policyName"]), param_ref(o), age(o, now)],
};

fn param_ref(o: &Value) -> String {
    let Some(reference) = o.at(&["spec", "paramRef"]) else { return "<unset>".to_owned() };
    let (namespace, name) = (reference.str_at(&["namespace"]), reference.str_at(&["name"]));
    if !name.is_empty() {
        // The binding does not tell whether its parameters are namespaced.
        return format!("{}/{name}", cells::or_placeholder(namespace, "*"));
    }
    reference.get("selector").map_or_else(|| "<unset>".to_owned(), cells::go_selector)
}

const API_SERVICES: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Service", "The service that serves this API; Local for this server."),
        Column::string("Available", "Whether the API can be reached."),
        Column::AGE,
    ],
    cells: |o, now| {
        let service = o
            .at(&["spec", "service"])
            .map(|service| format!("{}/{}", service.str_at(&["namespace"]), service.str_at(&["name"])));
        let condition = cells::find_condition(o.items_at(&["status", "conditions"]), "Available");
        let available = condition.map_or_else(
            || "Unknown".to_owned(),
            |c| match (c.str_at(&["status"]), c.str_at(&["reason"])) {
                (status @ "True", _) | (status, "") => status.to_owned(),
                (status, reason) => format!("{status} ({reason})"),
            },
        );
        row![o.name(), service.as_deref().unwrap_or("Local"), available, age(o, now)]
    },
};

const SIGNING_REQUESTS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::AGE,
        Column::string("SignerName", "=certificates/v1.CertificateSigningRequestSpec.signerName"),
        Column::string("Requestor", "=certificates/v1.CertificateSigningRequestSpec.request"),
        Column::string("RequestedDuration", "=certificates/v1.CertificateSigningRequestSpec.expirationSeconds"),
        Column::string("Condition", "=certificates/v1.CertificateSigningRequestStatus.conditions"),
    ],
    cells: |o, now| {
        let duration = o
            .int_at(&["spec", "expirationSeconds"])
            .map(|seconds| human_duration(Duration(seconds.saturating_mul(1_000_000_000))));
        row![
            o.name(),
            age(o, now),
            cells::or_placeholder(o.str_at(&["spec", "signerName"]), "<none>"),
            o.str_at(&["spec", "username"]),
            duration.as_deref().unwrap_or("<none>"),
            signing_state(o),
        ]
    },
};

fn signing_state(o: &Value) -> String {
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

const LEASES: StaticTable = StaticTable {
    columns: &[Column::NAME, Column::string("Holder", "=coordination/v1.LeaseSpec.holderIdentity"), Column::AGE],
    cells: |o, now| row![o.name(), o.str_at(&["spec", "holderIdentity"]), age(o, now)],
};

const ENDPOINT_SLICES: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("AddressType", "=discovery/v1.EndpointSlice.addressType"),
        Column::string("Ports", "=discovery/v1.EndpointSlice.ports"),
        Column::string("Endpoints", "=discovery/v1.EndpointSlice.endpoints"),
        Column::AGE,
    ],
    cells: endpoint_slice,
};

fn endpoint_slice(o: &Value, now: Time) -> Vec<Value> {
    const SHOWN: usize = 3;
    let ports: Vec<String> = o
        .items_at(&["ports"])
        .iter()
        .map(|port| match port.int_at(&["port"]) {
            Some(number) => number.to_string(),
            None => cells::string_or(port, &["name"], "*").to_owned(),
        })
        .collect();
    let addresses: Vec<String> = o
        .items_at(&["endpoints"])
        .iter()
        .flat_map(|endpoint| cells::strings(endpoint, &["addresses"]))
        .map(str::to_owned)
        .collect();
    row![
        o.name(),
        o.str_at(&["addressType"]),
        cells::first_items(&ports, SHOWN),
        cells::first_items(&addresses, SHOWN),
        age(o, now),
    ]
}

const RUNTIME_CLASSES: StaticTable = StaticTable {
    // Upstream looks up the description of this column by a key that does not exist.
    columns: &[Column::NAME, Column::string("Handler", ""), Column::AGE],
    cells: |o, now| row![o.name(), o.str_at(&["handler"]), age(o, now)],
};

const DISRUPTION_BUDGETS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Min Available", "How many pods must stay available."),
        Column::string("Max Unavailable", "How many pods may be unavailable."),
        Column::integer("Allowed Disruptions", "How many pods may be disrupted now."),
        Column::AGE,
    ],
    cells: |o, now| {
        let bound = |field: &str| o.at(&["spec", field]).map_or_else(|| "N/A".to_owned(), cells::scalar);
        row![
            o.name(),
            bound("minAvailable"),
            bound("maxUnavailable"),
            cells::int(o, &["status", "disruptionsAllowed"]),
            age(o, now),
        ]
    },
};

const PRIORITY_CLASSES: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::integer("Value", "=scheduling/v1.PriorityClass.value"),
        Column::boolean("Global-Default", "=scheduling/v1.PriorityClass.globalDefault"),
        Column::AGE,
        Column::string("PreemptionPolicy", "=scheduling/v1.PriorityClass.preemptionPolicy"),
    ],
    cells: |o, now| {
        row![
            o.name(),
            cells::int(o, &["value"]),
            o.bool_at(&["globalDefault"]),
            age(o, now),
            o.str_at(&["preemptionPolicy"]),
        ]
    },
};

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
