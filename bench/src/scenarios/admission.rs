//! The cost of admission: creates of ConfigMaps and of pods that pass the default chain of plugins, and the additional
//! cost of webhooks and policies.

use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::create::create_workload;
use crate::Result;
use crate::client::with_body;
use crate::load::{Load, Workload, median};
use crate::objects::{create, create_all, pod, pods_path};
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::{Server, Target};
use crate::webhook::Webhook;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "admission",
    description: "creates with the default admission plugins, with a webhook, and with policies",
    requires_binary: true,
    on_go_api_server: false,
    run: |bench| Box::pin(run(bench)),
};

/// The number of clients.
const CLIENTS: usize = 16;
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
/// The number of policies that match no request.
const OTHER_POLICIES: u64 = 1000;
/// The number of bindings for other namespaces.
const OTHER_BINDINGS: u64 = 10_000;
/// The budget of a pod's create in microseconds of CPU.
const POD_BUDGET: f64 = 110.0;
/// The budgets for the additional CPU time of a webhook, of a policy with three rules, and of a policy that does not
/// match.
const WEBHOOK_BUDGET: f64 = 60.0;
const POLICY_BUDGET: f64 = 15.0;
const OTHER_POLICY_BUDGET: f64 = 0.5;

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let mut target = bench.target().await?;
    let mut namespaces = Vec::new();
    for name in ["plain", "webhook", "policy", "other"] {
        namespaces.push(target.namespace(name).await?);
    }
    let [plain, with_webhook, with_policy, other] = namespaces.as_slice() else { return Err("four namespaces".into()) };
    let webhook = Webhook::start_admission().await?;
    configure_webhook(&target, &webhook, with_webhook).await?;
    create_object(&target.server, "validatingadmissionpolicies", &policy("bench", "configmaps")).await?;
    create_object(&target.server, "validatingadmissionpolicybindings", &binding("bench", "bench", with_policy)).await?;

    let mut costs: [Vec<f64>; 4] = Default::default();
    for number in 0..bench.plan.rounds {
        let workloads = [
            create_workload(plain, format!("c{number}")),
            create_pods(plain, format!("p{number}")),
            create_workload(with_webhook, format!("c{number}")),
            create_workload(with_policy, format!("c{number}")),
        ];
        for (workload, costs) in workloads.iter().zip(&mut costs) {
            costs.push(cost(bench, &target, workload).await?);
        }
    }
    let differences = |of: &[f64]| median(of.iter().zip(&costs[0]).map(|(cost, plain)| cost - plain));
    let report = &mut bench.report;
    report.section(format!("Admission: CPU of a create, {CLIENTS} clients"));
    report.row("ConfigMap of 1 KiB", median(costs[0].iter().copied()), "µs");
    report.row("pod of 2 KiB", median(costs[1].iter().copied()), "µs").at_most(POD_BUDGET);
    report.row("a webhook that changes nothing adds", differences(&costs[2]), "µs").at_most(WEBHOOK_BUDGET);
    report.row("a policy with three rules adds", differences(&costs[3]), "µs").at_most(POLICY_BUDGET);

    create_other_policies(&target.server, other).await?;
    let with_policies = plain_cost(bench, &target, plain, "d").await?;
    create_other_bindings(&target.server, other).await?;
    let with_bindings = plain_cost(bench, &target, plain, "e").await?;
    let before = median(costs[0].iter().copied());
    let report = &mut bench.report;
    let each = (with_policies - before) / OTHER_POLICIES as f64;
    report.row("a policy for other resources adds", each, "µs").at_most(OTHER_POLICY_BUDGET);
    let note = format!("with {OTHER_POLICIES} such policies");
    report
        .row(format!("{OTHER_BINDINGS} bindings for another namespace add"), with_bindings - with_policies, "µs")
        .note(note);
    target.tear_down().await
}

/// The CPU time of a request, in microseconds.
async fn cost(bench: &ScenarioContext, target: &Target, workload: &Workload) -> Result<f64> {
    let load = Load::closed(CLIENTS, bench.plan.duration).expect_status(StatusCode::CREATED);
    Ok(load.run(&target.server, workload).await?.cpu_micros().unwrap_or_default())
}

/// The CPU time of a create of a ConfigMap.
async fn plain_cost(bench: &ScenarioContext, target: &Target, namespace: &str, prefix: &str) -> Result<f64> {
    // The pause lets the controllers see the new objects, and lets the server pack their history.
    tokio::time::sleep(bench.plan.packing).await;
    let mut costs = Vec::new();
    for number in 0..bench.plan.rounds {
        costs.push(cost(bench, target, &create_workload(namespace, format!("{prefix}{number}"))).await?);
    }
    Ok(median(costs))
}

/// A workload that creates pods with new names.
fn create_pods(namespace: &str, prefix: String) -> Workload {
    let collection = pods_path(namespace);
    Arc::new(move |client, sent| Some(create(collection.as_str(), pod(&format!("{prefix}-{client}-{sent}"), "", sent))))
}

async fn create_object(server: &Server, plural: &str, object: &Value) -> Result<()> {
    let request = with_body(Method::POST, format!("{GROUP}/{plural}"), object.to_string());
    server.connect().await?.execute(request, StatusCode::CREATED).await?;
    Ok(())
}

/// Lets a webhook validate the ConfigMaps of a namespace.
async fn configure_webhook(target: &Target, webhook: &Webhook, namespace: &str) -> Result<()> {
    let webhook = json!({
        "name": "bench.example.com",
        "clientConfig": webhook.client_config,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [rule("configmaps")],
        "namespaceSelector": in_namespace(namespace),
    });
    let object = json!({"metadata": {"name": "bench"}, "webhooks": [webhook]});
    create_object(&target.server, "validatingwebhookconfigurations", &object).await
}

pub(super) fn rule(resource: &str) -> Value {
    json!({"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource]})
}

fn in_namespace(namespace: &str) -> Value {
    json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}})
}

/// A policy with three rules that all objects satisfy.
pub(super) fn policy(name: &str, resource: &str) -> Value {
    let rules = [
        "object.metadata.name.size() < 100",
        "!has(object.metadata.labels) || object.metadata.labels.all(key, key != 'forbidden')",
        "request.operation == 'CREATE' || oldObject.metadata.uid == object.metadata.uid",
    ];
    let validations: Vec<Value> = rules.iter().map(|rule| json!({"expression": rule})).collect();
    json!({
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule(resource)]}, "validations": validations},
    })
}

pub(super) fn binding(name: &str, policy: &str, namespace: &str) -> Value {
    let resources = json!({"namespaceSelector": in_namespace(namespace)});
    json!({
        "metadata": {"name": name},
        "spec": {"policyName": policy, "validationActions": ["Deny"], "matchResources": resources},
    })
}

/// Creates policies that match no ConfigMap, each with a binding.
async fn create_other_policies(server: &Server, namespace: &str) -> Result<()> {
    create_all(server, OTHER_POLICIES, |number| {
        let name = format!("other-{number}");
        create(format!("{GROUP}/validatingadmissionpolicies"), policy(&name, "secrets").to_string().into())
    })
    .await?;
    let namespace = namespace.to_owned();
    create_all(server, OTHER_POLICIES, move |number| {
        let name = format!("other-{number}");
        let object = binding(&name, &name, &namespace);
        create(format!("{GROUP}/validatingadmissionpolicybindings"), object.to_string().into())
    })
    .await
}

/// Creates bindings of a policy that matches ConfigMaps, for another namespace.
async fn create_other_bindings(server: &Server, namespace: &str) -> Result<()> {
    let namespace = namespace.to_owned();
    create_all(server, OTHER_BINDINGS, move |number| {
        let object = binding(&format!("bench-{number}"), "bench", &namespace);
        create(format!("{GROUP}/validatingadmissionpolicybindings"), object.to_string().into())
    })
    .await
}
