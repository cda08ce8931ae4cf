//! The cost of access control. GETs are sent by the administrator, whose requests need no role, and by a user with 50
//! bindings. They are also sent by a service account with 50 bindings and a token.

use std::path::Path;
use std::process::Command;

use http::{Method, StatusCode};

use crate::Result;
use crate::client::{Connection, Protocol, get, with_body};
use crate::comparison::{Concurrency, alternate};
use crate::load::{RoundResult, median};
use crate::objects::{config_map, config_maps_path, create};
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::Server;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "access",
    description: "GETs by users with 50 bindings, with a certificate and with a token, and by the administrator",
    requires_binary: true,
    on_go_api_server: false,
    run: |bench| Box::pin(run(bench)),
};

/// The number of clients.
const CLIENTS: usize = 16;
/// The number of bindings of the user. The last binding by name allows the request.
const BINDINGS: usize = 50;
/// The resources that the last role allows.
const ALLOWED: &str = r#""configmaps","pods","pods/status","leases""#;
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const NAMESPACE: &str = "default";
/// The maximum CPU time of a GET, in microseconds.
const HTTP1_BUDGET: f64 = 13.0;
const HTTP2_BUDGET: f64 = 15.0;

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let (binary, folder) = (bench.binary()?, bench.scratch().join("data-access"));
    let process = bench.start_server(&folder).await?;
    let server = process.server.clone();
    let mut connection = server.connect().await?;
    let collection = config_maps_path(NAMESPACE);
    connection.execute(create(collection.as_str(), config_map("object", 1)), StatusCode::CREATED).await?;
    bind(&mut connection).await?;
    let account = r#"{"metadata":{"name":"bench"}}"#;
    let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
    connection.execute(with_body(Method::POST, accounts, account), StatusCode::CREATED).await?;
    let user = credentials(&binary, &folder, &server, "user", &["kubeconfig", "--user", "bench"])?;
    let account = credentials(&binary, &folder, &server, "account", &["token", "create", "bench"])?;

    bench.report.section(format!("Access control: GETs of one object, {BINDINGS} bindings, {CLIENTS} clients"));
    let path = format!("{collection}/object");
    for (protocol, name) in [(Protocol::Http1, "HTTP/1.1"), (Protocol::Http2, "HTTP/2")] {
        let (concurrency, path) = (Concurrency { clients: CLIENTS, protocol }, path.clone());
        let request = move || get(path.as_str());
        let rounds = alternate(&[&server, &user, &account], request, concurrency, &bench.plan).await?;
        let [admin, user, account] = rounds.as_slice() else { return Err("three servers have three results".into()) };
        for (who, of) in [("system:masters", admin), ("user", user), ("token of a service account", account)] {
            let rate = median(of.iter().map(RoundResult::rate));
            bench.report.row(format!("{name}, {who}"), rate, "/s").cpu(Some(median(of.iter().map(cpu))));
        }
        let limit = if protocol == Protocol::Http1 { HTTP1_BUDGET } else { HTTP2_BUDGET };
        bench.report.row(format!("{name}, user: CPU"), median(user.iter().map(cpu)), "µs").at_most(limit);
        let ratio = median(user.iter().zip(admin).map(|(user, admin)| cpu(user) / cpu(admin)));
        bench.report.row(format!("{name}, user: CPU compared with system:masters"), ratio, "").at_most(1.15);
    }
    process.stop().await
}

fn cpu(round: &RoundResult) -> f64 {
    round.cpu_micros().unwrap_or_default()
}

/// Creates roles and bindings of the user and of the service account. The last role by name allows the measured
/// requests.
pub(super) async fn bind(connection: &mut Connection) -> Result<()> {
    let group = "rbac.authorization.k8s.io";
    for number in 0..BINDINGS {
        let resources = if number + 1 == BINDINGS { ALLOWED } else { r#""secrets""# };
        let name = format!("bench-{number:02}");
        let role = format!(
            r#"{{"metadata":{{"name":"{name}"}},"rules":[{{"verbs":["get","list","watch","create","update","patch"],"apiGroups":["","coordination.k8s.io"],"resources":[{resources}]}}]}}"#
        );
        connection.execute(with_body(Method::POST, format!("{RBAC}/clusterroles"), role), StatusCode::CREATED).await?;
        let binding = format!(
            r#"{{"metadata":{{"name":"{name}"}},"roleRef":{{"apiGroup":"{group}","kind":"ClusterRole","name":"{name}"}},
            "subjects":[{{"apiGroup":"{group}","kind":"User","name":"bench"}},
            {{"kind":"ServiceAccount","name":"bench","namespace":"{NAMESPACE}"}}]}}"#
        );
        let bindings = format!("{RBAC}/namespaces/{NAMESPACE}/rolebindings");
        connection.execute(with_body(Method::POST, bindings, binding), StatusCode::CREATED).await?;
    }
    Ok(())
}

/// The server with the credentials that a command of the binary prints.
pub(super) fn credentials(
    binary: &Path,
    folder: &Path,
    server: &Server,
    name: &str,
    arguments: &[&str],
) -> Result<Server> {
    let output = Command::new(binary).args(arguments).arg("--data-dir").arg(folder).output()?;
    if !output.status.success() {
        return Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let file = folder.join(format!("{name}.kubeconfig"));
    std::fs::write(&file, output.stdout)?;
    server.with_credentials(&file)
}
