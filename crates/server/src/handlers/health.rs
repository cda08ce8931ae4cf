//! Serves `/livez`, `/readyz` and `/healthz` with their checks (upstream: `k8s.io/apiserver/pkg/server/healthz`), and
//! `/version`.

use std::collections::BTreeSet;

use http::StatusCode;
use http::header::{HeaderValue, X_CONTENT_TYPE_OPTIONS};
use pintle_cache::FEED_TASK;
use pintle_controllers::{
    ALLOCATION_REPAIR_TASK, API_SERVICE_REGISTRATION_TASK, CRDS_TASK, DEFAULT_SERVICE_CIDR_TASK,
    FLOW_CONTROL_OBJECTS_TASK, FLOW_CONTROL_STATUS_TASK, LEASE_COLLECTOR_TASK, LEASE_TASK, LOCAL_API_SERVICES_TASK,
    OBJECT_RECONCILER_TASK, REMOTE_API_SERVICES_TASK, STORAGE_VERSION_UPDATER_TASK,
};
use pintle_encryption::KMS_HEALTH_CHECK;
use pintle_supervisor::BackgroundTask;
use pintle_value::field::quote;

use super::version;
use crate::aggregation::{REMOTE_DISCOVERY_TASK, REMOTE_OPENAPI_TASK};
use crate::cluster::{Cluster, FLOW_CONTROL_TASK};
use crate::context::RequestContext;
use crate::http::{Response, text};
use crate::represent::json_response;

/// A health endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    /// Fails if the server has to be restarted.
    Livez,
    /// Fails if the server cannot serve requests.
    Readyz,
    /// The deprecated predecessor of both endpoints, with the checks of `/livez`.
    Healthz,
}

const ENDPOINTS: [Endpoint; 3] = [Endpoint::Livez, Endpoint::Readyz, Endpoint::Healthz];

impl Endpoint {
    fn name(self) -> &'static str {
        match self {
            Endpoint::Livez => "livez",
            Endpoint::Readyz => "readyz",
            Endpoint::Healthz => "healthz",
        }
    }
}

/// The task that reconciles the RBAC bootstrap policy. The task has ended when the server begins to answer requests. A
/// server without RBAC does not have the task.
pub(crate) const BOOTSTRAP_POLICY_TASK: &str = "rbac-bootstrap-policy";

/// The name of the task that reads the configuration of encryption at rest again.
pub const ENCRYPTION_RELOAD_TASK: &str = "encryption-provider-config";

/// The subject of a health check.
#[derive(Clone, Debug)]
enum Probe {
    /// The state of the cluster. Returns the reason if the check fails.
    State(fn(&Cluster) -> Result<(), String>),
    /// The state of a part of the cluster. `None` if the cluster does not have this part.
    StateOfPart(fn(&Cluster) -> Option<Result<(), String>>),
    /// The state of the cluster that a background task changes. A server without the task has no such check.
    StateOfTask(&'static str, fn(&Cluster) -> Result<(), String>),
    /// The background task with this name. A task that does not work now fails `/readyz`. A task that does not recover
    /// fails the other endpoints. A server without the task has no such check.
    Task(&'static str),
}

/// The checks of kube-apiserver that have an equivalent here, in its order. The flag is true for checks that only
/// `/readyz` has. Background tasks without a row follow with checks of their own names.
const CHECKS: &[(&str, bool, Probe)] = &[
    ("ping", false, Probe::State(|_| Ok(()))),
    ("log", false, Probe::State(|_| Ok(()))),
    ("etcd", false, Probe::State(Cluster::store_health)),
    ("etcd-readiness", true, Probe::State(Cluster::store_readiness)),
    ("informer-sync", true, Probe::Task(FEED_TASK)),
    // Hooks that have ended when the server begins to answer requests.
    ("poststarthook/start-apiserver-admission-initializer", false, Probe::State(|_| Ok(()))),
    ("poststarthook/start-encryption-provider-config-automatic-reload", false, Probe::Task(ENCRYPTION_RELOAD_TASK)),
    ("poststarthook/generic-apiserver-start-informers", false, Probe::State(|_| Ok(()))),
    ("poststarthook/priority-and-fairness-config-consumer", false, Probe::Task(FLOW_CONTROL_STATUS_TASK)),
    ("poststarthook/priority-and-fairness-filter", false, Probe::Task(FLOW_CONTROL_TASK)),
    ("poststarthook/max-in-flight-filter", false, Probe::StateOfPart(check_max_in_flight)),
    ("poststarthook/start-apiextensions-informers", false, Probe::State(|_| Ok(()))),
    ("poststarthook/start-apiextensions-controllers", false, Probe::Task(CRDS_TASK)),
    ("poststarthook/crd-informer-synced", false, Probe::Task(CRDS_TASK)),
    ("poststarthook/start-system-namespaces-controller", false, Probe::Task(OBJECT_RECONCILER_TASK)),
    ("poststarthook/start-kube-apiserver-identity-lease-controller", false, Probe::Task(LEASE_TASK)),
    ("poststarthook/start-kube-apiserver-identity-lease-garbage-collector", false, Probe::Task(LEASE_COLLECTOR_TASK)),
    ("poststarthook/start-legacy-token-tracking-controller", false, Probe::Task(OBJECT_RECONCILER_TASK)),
    ("poststarthook/storage-readiness", false, Probe::Task(FEED_TASK)),
    ("poststarthook/start-service-ip-repair-controllers", false, Probe::Task(ALLOCATION_REPAIR_TASK)),
    ("poststarthook/rbac/bootstrap-roles", false, Probe::Task(BOOTSTRAP_POLICY_TASK)),
    ("poststarthook/scheduling/bootstrap-system-priority-classes", false, Probe::State(|_| Ok(()))),
    ("poststarthook/priority-and-fairness-config-producer", false, Probe::Task(FLOW_CONTROL_OBJECTS_TASK)),
    ("poststarthook/bootstrap-controller", false, Probe::Task(OBJECT_RECONCILER_TASK)),
    ("poststarthook/start-kubernetes-service-cidr-controller", false, Probe::Task(DEFAULT_SERVICE_CIDR_TASK)),
    ("poststarthook/apiservice-status-local-available-controller", false, Probe::Task(LOCAL_API_SERVICES_TASK)),
    ("poststarthook/apiservice-status-remote-available-controller", false, Probe::Task(REMOTE_API_SERVICES_TASK)),
    ("poststarthook/apiservice-discovery-controller", false, Probe::Task(REMOTE_DISCOVERY_TASK)),
    (
        "poststarthook/built-in-resources-storage-version-updater",
        false,
        Probe::StateOfTask(STORAGE_VERSION_UPDATER_TASK, check_storage_versions),
    ),
    ("poststarthook/kube-apiserver-autoregistration", false, Probe::Task(API_SERVICE_REGISTRATION_TASK)),
    ("autoregister-completion", false, Probe::StateOfTask(API_SERVICE_REGISTRATION_TASK, Cluster::check_api_services)),
    ("poststarthook/apiservice-openapi-controller", false, Probe::Task(REMOTE_OPENAPI_TASK)),
    ("poststarthook/apiservice-openapiv3-controller", false, Probe::Task(REMOTE_OPENAPI_TASK)),
];

/// The last check. Only `/readyz` has it.
const SHUTDOWN: (&str, Probe) = ("shutdown", Probe::State(check_shutdown));

/// Without flow control, the numbers of requests in flight are limited.
fn check_max_in_flight(cluster: &Cluster) -> Option<Result<(), String>> {
    cluster.flow_control.is_none().then_some(Ok(()))
}

fn check_storage_versions(cluster: &Cluster) -> Result<(), String> {
    let is_pending = cluster.lifecycle.storage_versions.as_ref().is_some_and(|manager| !manager.is_completed());
    if is_pending { Err("not finished".to_owned()) } else { Ok(()) }
}

fn check_shutdown(cluster: &Cluster) -> Result<(), String> {
    if cluster.is_terminating() { Err("process is shutting down".to_owned()) } else { Ok(()) }
}

/// A check of an endpoint, and its result: the reason if the check fails.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CheckResult<'c> {
    name: &'c str,
    result: Result<(), String>,
}

/// Whether an endpoint has the check of KMS plugins. As in upstream, `/livez` does not have it.
fn has_plugins_check(cluster: &Cluster, endpoint: Endpoint) -> bool {
    endpoint != Endpoint::Livez && cluster.encryption.has_health_check()
}

/// Runs the checks of an endpoint for which `is_selected` is true. Waits for KMS plugins.
async fn run_checks(cluster: &Cluster, endpoint: Endpoint, is_selected: impl Fn(&str) -> bool) -> Vec<CheckResult<'_>> {
    let plugins = match has_plugins_check(cluster, endpoint) && is_selected(KMS_HEALTH_CHECK) {
        true => cluster.encryption.check_plugins().await,
        false => Ok(()),
    };
    run_other_checks(cluster, endpoint, plugins, is_selected)
}

/// Runs the checks of an endpoint, given the result of the check of KMS plugins.
fn run_other_checks(
    cluster: &Cluster,
    endpoint: Endpoint,
    plugins: Result<(), String>,
    is_selected: impl Fn(&str) -> bool,
) -> Vec<CheckResult<'_>> {
    let tasks = cluster.lifecycle.background_tasks.all();
    let own = tasks.iter().map(BackgroundTask::name);
    let own = own.filter(|task| {
        !CHECKS
            .iter()
            .any(|(_, _, probe)| matches!(probe, Probe::Task(name) | Probe::StateOfTask(name, _) if name == task))
    });
    let known = CHECKS.iter().filter(|(_, only_readyz, _)| !only_readyz || endpoint == Endpoint::Readyz);
    let checks = known.map(|(name, _, probe)| (*name, probe.clone()));
    let checks = checks.chain(own.map(|task| (task, Probe::Task(task))));
    let checks = checks.chain((endpoint == Endpoint::Readyz).then_some(SHUTDOWN));
    let run = |(name, probe): (&'static str, Probe)| -> Option<CheckResult<'_>> {
        let task = |name| tasks.iter().find(|known| known.name() == name);
        let result = match probe {
            Probe::State(check) if is_selected(name) => check(cluster),
            Probe::StateOfPart(check) => check(cluster).map(|state| if is_selected(name) { state } else { Ok(()) })?,
            Probe::StateOfTask(of, check) if task(of).is_some() && is_selected(name) => check(cluster),
            Probe::Task(of) if is_selected(name) => check_task(task(of)?, endpoint),
            Probe::Task(of) | Probe::StateOfTask(of, _) => task(of).map(|_| Ok(()))?,
            Probe::State(_) => Ok(()),
        };
        Some(CheckResult { name, result })
    };
    let mut results: Vec<CheckResult<'_>> = checks.filter_map(run).collect();
    let overrides = cluster.stores.overrides.iter().flat_map(|storage| {
        let readiness = (endpoint == Endpoint::Readyz).then(|| storage.readiness());
        std::iter::once(storage.health()).chain(readiness)
    });
    let select = |(name, result)| CheckResult { name, result: if is_selected(name) { result } else { Ok(()) } };
    // As in upstream, the checks of other stores follow the checks of the main store.
    let place = results.iter().rposition(|check| check.name.starts_with("etcd")).map_or(0, |last| last + 1);
    let rest = results.split_off(place);
    results.extend(overrides.map(select));
    let plugins = CheckResult { name: KMS_HEALTH_CHECK, result: plugins };
    results.extend(has_plugins_check(cluster, endpoint).then_some(plugins));
    results.extend(rest);
    results
}

fn check_task(task: &BackgroundTask, endpoint: Endpoint) -> Result<(), String> {
    let name = task.name();
    let failure = match endpoint {
        Endpoint::Readyz => task.failure().map(|reason| format!("{name} has failed and is retried: {reason}")),
        Endpoint::Livez | Endpoint::Healthz => {
            task.unrecoverable_failure().map(|reason| format!("{name} keeps failing: {reason}"))
        }
    };
    failure.map_or(Ok(()), Err)
}

/// The response of an endpoint.
fn report(endpoint: Endpoint, results: &[CheckResult<'_>], excluded: &BTreeSet<&str>, verbose: bool) -> Response {
    let endpoint = endpoint.name();
    let mut lines = String::new();
    let mut failed = Vec::new();
    for CheckResult { name, result } in results {
        let (mark, state) = match result {
            _ if excluded.contains(name) => ('+', "excluded: ok"),
            Ok(()) => ('+', "ok"),
            Err(reason) => {
                failed.push(format!("{name}: {reason}"));
                ('-', "failed: reason withheld")
            }
        };
        lines.push_str(&format!("[{mark}]{name} {state}\n"));
    }
    let unknown = excluded.iter().filter(|name| results.iter().all(|result| result.name != **name));
    let unknown: Vec<String> = unknown.map(|name| quote(name)).collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        lines.push_str(&format!("warn: some health checks cannot be excluded: no matches for {unknown}\n"));
    }
    let mut response = if !failed.is_empty() {
        tracing::warn!(endpoint, failed = failed.join("; "), "Health check failed");
        text(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{endpoint} check failed\n"))
    } else if verbose {
        text(StatusCode::OK, format!("{lines}{endpoint} check passed\n"))
    } else {
        text(StatusCode::OK, "ok")
    };
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The response of the path of a single check. Unlike the endpoint, it gives the reason of a failure.
fn report_single(result: Result<(), String>) -> Response {
    let Err(reason) = result else { return text(StatusCode::OK, "ok") };
    let mut response = text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {reason}\n"));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The paths of all endpoints and checks.
pub(crate) fn paths(cluster: &Cluster) -> impl Iterator<Item = String> {
    ENDPOINTS.into_iter().flat_map(|endpoint| {
        let checks = run_other_checks(cluster, endpoint, Ok(()), |_| false);
        let checks = checks.into_iter().map(move |check| format!("/{}/{}", endpoint.name(), check.name));
        std::iter::once(format!("/{}", endpoint.name())).chain(checks)
    })
}

/// The endpoint of a path, and the name of the single check or an empty text.
fn parse_path(path: &str) -> Option<(Endpoint, &str)> {
    ENDPOINTS.into_iter().find_map(|endpoint| {
        let rest = path.strip_prefix('/')?.strip_prefix(endpoint.name())?;
        match rest.strip_prefix('/') {
            Some(check) => (!check.is_empty()).then_some((endpoint, check)),
            None => rest.is_empty().then_some((endpoint, rest)),
        }
    })
}

/// Responds if the path belongs to this file.
pub(crate) async fn respond(request: &RequestContext) -> Option<Response> {
    let path = request.info.path.as_str();
    if matches!(path, "/version" | "/version/") {
        return Some(json_response(StatusCode::OK, &version(request.cluster.settings.gates.version())));
    }
    let (endpoint, single) = parse_path(path)?;
    if !single.is_empty() {
        let results = run_checks(&request.cluster, endpoint, |name| name == single).await;
        return results.into_iter().find(|check| check.name == single).map(|check| report_single(check.result));
    }
    let excluded: BTreeSet<&str> = request.query.all("exclude").collect();
    let results = run_checks(&request.cluster, endpoint, |name| !excluded.contains(name)).await;
    for check in results.iter().filter(|check| !excluded.contains(check.name)) {
        request.cluster.metrics.health_check(check.name, endpoint.name(), check.result.is_ok());
    }
    Some(report(endpoint, &results, &excluded, request.query.get("verbose").is_some()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::BodyExt;
    use pintle_supervisor::RecoveryTimes;

    use super::*;

    /// Checks the status and the text of a response.
    async fn check(response: Response, code: u16, expect: &str) {
        assert_eq!(response.status().as_u16(), code);
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        assert_eq!(String::from_utf8_lossy(&body), expect);
    }

    #[tokio::test]
    async fn failed_checks_withhold_their_reason_unless_they_are_asked_for_alone() {
        let failure = Err("no space left on device".to_owned());
        let results =
            [CheckResult { name: "ping", result: Ok(()) }, CheckResult { name: "etcd", result: failure.clone() }];
        let report = |excluded: &[&'static str], verbose| {
            report(Endpoint::Livez, &results, &excluded.iter().copied().collect(), verbose)
        };
        let failed = "[+]ping ok\n[-]etcd failed: reason withheld\nlivez check failed\n";
        for verbose in [true, false] {
            let response = report(&[], verbose);
            assert_eq!(response.headers()["x-content-type-options"], "nosniff");
            assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
            check(response, 500, failed).await;
        }
        check(report(&["etcd"], false), 200, "ok").await;
        check(report(&["etcd"], true), 200, "[+]ping ok\n[+]etcd excluded: ok\nlivez check passed\n").await;
        let warning = "warn: some health checks cannot be excluded: no matches for \"a\\\"b\",\"no\"\n";
        let expect = format!("[+]ping ok\n[+]etcd excluded: ok\n{warning}livez check passed\n");
        check(report(&["no", "etcd", "a\"b"], true), 200, &expect).await;
        check(report_single(failure), 500, "internal server error: no space left on device\n").await;
        check(report_single(Ok(())), 200, "ok").await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_is_retried_fails_readyz_and_one_that_does_not_recover_fails_livez() {
        let task = BackgroundTask::new("test");
        let states = |task: &BackgroundTask| ENDPOINTS.map(|endpoint| check_task(task, endpoint).is_ok());
        assert_eq!(states(&task), [true, true, true]);
        task.report_failure("an error");
        assert_eq!(states(&task), [true, false, true]);
        assert_eq!(check_task(&task, Endpoint::Readyz), Err("test has failed and is retried: an error".to_owned()));
        tokio::time::sleep(RecoveryTimes::default().unrecoverable_after).await;
        assert_eq!(states(&task), [false, false, false]);
        task.report_failure("another error");
        task.report_success();
        assert_eq!(states(&task), [false, true, false], "it may fail again at once");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(states(&task), [true, true, true]);
    }

    #[test]
    fn every_check_has_one_name() {
        let names: BTreeSet<_> = CHECKS.iter().map(|(name, _, _)| name).collect();
        assert_eq!(names.len(), CHECKS.len());
    }
}
