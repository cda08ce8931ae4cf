//! Evictions of pods: the decisions of PodDisruptionBudgets, the delete options, dry runs, and the writes of an
//! eviction.

use std::sync::Arc;

use futures_util::future::join_all;
use parking_lot::Mutex;
use pintle::Options;
use pintle_admission::{AdmissionAttributes, AdmissionConfiguration, AdmissionPlugin};
use pintle_gates::Gates;
use pintle_integration::{Cluster, Response, run};
use pintle_registry::{ApiError, BoxFuture};
use pintle_versions::{EffectiveVersion, Minor};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const VIOLATION: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const SEVERAL: &str =
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";

fn pod_path(name: &str) -> String {
    format!("{PODS}/{name}")
}

/// Creates a pod with the label `app=web`, on a node if `node` is not empty, and sets its status.
async fn create_pod(cluster: &Cluster, name: &str, node: &str, status: &Value) {
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
    });
    let _ = cluster.post(PODS, pod.to_string()).await.expect(201);
    let status = json!({ "status": status }).to_string();
    let _ = cluster.patch(&format!("{PODS}/{name}/status"), "strategic-merge", status).await.expect(200);
}

/// The status of a running pod, which may be ready.
fn running(ready: bool) -> Value {
    let ready = if ready { "True" } else { "False" };
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]})
}

/// Creates a budget and writes its status, as the disruption controller does.
async fn create_budget(cluster: &Cluster, name: &str, spec: &Value, status: &Value) {
    let budget = json!({"metadata": {"name": name}, "spec": spec});
    let _ = cluster.post(BUDGETS, budget.to_string()).await.expect(201);
    let status = json!({ "status": status }).to_string();
    let path = format!("{BUDGETS}/{name}/status?fieldManager=disruption-controller");
    let _ = cluster.patch(&path, "merge", status).await.expect(200);
}

/// The spec of a budget that selects all pods of these tests.
fn web() -> Value {
    json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}})
}

/// The status of a budget that the disruption controller has computed for its first generation.
fn counts(allowed: i64, healthy: i64, desired: i64) -> Value {
    json!({
        "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired,
        "expectedPods": 3,
    })
}

fn eviction(name: &str, delete_options: &Value) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": delete_options,
    })
}

async fn evict_with(cluster: &Cluster, name: &str, delete_options: &Value) -> Response {
    cluster.post(&format!("{PODS}/{name}/eviction"), eviction(name, delete_options).to_string()).await
}

async fn evict(cluster: &Cluster, name: &str) -> Response {
    evict_with(cluster, name, &Value::Null).await
}

/// The revision of the store.
async fn revision(cluster: &Cluster) -> String {
    let list = cluster.get("/api/v1/namespaces").await.expect(200).json();
    list["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned()
}

#[track_caller]
fn check_success(response: Response) {
    let status = response.expect(201).json();
    assert_eq!(status, json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}));
}

/// Budgets, and their decision about a running pod.
struct Scenario {
    what: &'static str,
    ready: bool,
    /// The specs and status of the budgets.
    budgets: Vec<(Value, Value)>,
    expect: Expect,
}

enum Expect {
    /// The pod is evicted, and the first budget has this many disruptions left.
    Evicted(i64),
    /// The eviction is refused because of the first budget: the cause, and the seconds after which to try again.
    Violation(&'static str, &'static str),
    /// The eviction fails with this code and message.
    Failure(u16, &'static str),
}

fn scenarios() -> Vec<Scenario> {
    use Expect::{Evicted, Failure, Violation};
    let with = |key: &str, value: &str| {
        let mut spec = web();
        spec[key] = json!(value);
        spec
    };
    let policy = |policy: &str| with("unhealthyPodEvictionPolicy", policy);
    let other = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}});
    let everything = json!({"minAvailable": 1, "selector": {}});
    let mut failed_sync = counts(0, 0, 0);
    failed_sync["conditions"] = json!([{
        "type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no controller",
        "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    let mut unobserved = counts(5, 5, 1);
    unobserved["observedGeneration"] = json!(0);
    let scenario = |what, ready, budgets, expect| Scenario { what, ready, budgets, expect };
    let needed = "The disruption budget b0 needs 2 healthy pods and has 2 currently";
    vec![
        scenario("no budget", true, vec![], Evicted(0)),
        scenario("a budget of other pods", true, vec![(other.clone(), counts(0, 1, 1))], Evicted(0)),
        scenario("a budget without a selector", true, vec![(json!({"minAvailable": 1}), counts(0, 1, 1))], Evicted(0)),
        scenario("one disruption is allowed", true, vec![(web(), counts(1, 2, 1))], Evicted(0)),
        scenario("several are allowed", true, vec![(web(), counts(3, 4, 1)), (other, counts(0, 1, 1))], Evicted(2)),
        scenario("a budget of all pods", true, vec![(everything, counts(1, 2, 1))], Evicted(0)),
        scenario("none is allowed", true, vec![(web(), counts(0, 2, 2))], Violation(needed, "")),
        scenario(
            "none is allowed although more are healthy",
            true,
            vec![(web(), counts(0, 3, 2))],
            Violation("The disruption budget b0 does not allow evicting pods currently", ""),
        ),
        scenario(
            "the budget could not be computed",
            true,
            vec![(web(), failed_sync)],
            Violation(
                "The disruption budget b0 does not allow evicting pods currently because it failed sync: no controller",
                "",
            ),
        ),
        scenario(
            "the budget was not computed since its last change",
            true,
            vec![(web(), unobserved)],
            Violation("The disruption budget b0 is still being processed by the server.", "10"),
        ),
        scenario("two budgets", true, vec![(web(), counts(1, 2, 1)), (web(), counts(1, 2, 1))], Failure(500, SEVERAL)),
        scenario("unhealthy, enough others are healthy", false, vec![(web(), counts(0, 2, 2))], Evicted(0)),
        scenario("unhealthy, a disruption is allowed", false, vec![(web(), counts(2, 2, 2))], Evicted(2)),
        scenario(
            "unhealthy, too few others are healthy",
            false,
            vec![(policy("IfHealthyBudget"), counts(0, 1, 2))],
            Violation("The disruption budget b0 needs 2 healthy pods and has 1 currently", ""),
        ),
        scenario(
            "unhealthy, which is always allowed",
            false,
            vec![(policy("AlwaysAllow"), counts(0, 1, 2))],
            Evicted(0),
        ),
        scenario(
            "healthy, although unhealthy ones are always allowed",
            true,
            vec![(policy("AlwaysAllow"), counts(0, 2, 2))],
            Violation(needed, ""),
        ),
    ]
}

async fn check_scenario(cluster: &Cluster, scenario: &Scenario) {
    let what = scenario.what;
    create_pod(cluster, "p", "", &running(scenario.ready)).await;
    for (i, (spec, status)) in scenario.budgets.iter().enumerate() {
        create_budget(cluster, &format!("b{i}"), spec, status).await;
    }
    let before = cluster.get(BUDGETS).await.expect(200).json();
    let before_pod = cluster.get(&pod_path("p")).await.expect(200).text();
    let response = evict(cluster, "p").await;
    let budgets = cluster.get(BUDGETS).await.expect(200).json();
    match scenario.expect {
        Expect::Evicted(left) => {
            assert_eq!(response.status.as_u16(), 201, "{what}: {}", response.text());
            let _ = cluster.get(&pod_path("p")).await.expect(404);
            let allowed = |list: &Value| list["items"][0]["status"]["disruptionsAllowed"].as_i64().unwrap_or(0);
            assert_eq!(allowed(&budgets), left, "{what}");
            assert!(allowed(&before) != left || budgets["items"] == before["items"], "{what}: a budget has changed");
        }
        Expect::Violation(cause, retry) => {
            assert_eq!(response.header("retry-after"), retry, "{what}");
            let status = response.expect(429).json();
            let mut details = json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]});
            if !retry.is_empty() {
                details["retryAfterSeconds"] = json!(retry.parse::<i64>().expect("a number"));
            }
            let expect = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 429,
                "reason": "TooManyRequests", "message": VIOLATION, "details": details,
            });
            assert_eq!(status, expect, "{what}");
        }
        Expect::Failure(code, message) => {
            let expect = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
                "message": message,
            });
            assert_eq!(response.expect(code).json(), expect, "{what}");
        }
    }
    if !matches!(scenario.expect, Expect::Evicted(_)) {
        assert_eq!(budgets["items"], before["items"], "{what}");
        assert_eq!(cluster.get(&pod_path("p")).await.expect(200).text(), before_pod, "{what}");
    }
    let _ = cluster.delete(PODS).await.expect(200);
    let _ = cluster.delete(BUDGETS).await.expect(200);
}

#[test]
fn budgets_decide_about_running_pods() {
    run(async {
        let cluster = Cluster::start().await;
        for scenario in scenarios() {
            check_scenario(&cluster, &scenario).await;
        }
        cluster.stop().await;
    });
}

#[test]
fn pods_that_do_not_run_need_no_budget() {
    run(async {
        let cluster = Cluster::start().await;
        create_budget(&cluster, "b", &web(), &counts(0, 0, 1)).await;
        let budget = cluster.get(&format!("{BUDGETS}/b")).await.expect(200).text();
        for phase in ["Pending", "Succeeded", "Failed"] {
            create_pod(&cluster, "p", "", &json!({ "phase": phase })).await;
            check_success(evict(&cluster, "p").await);
            let _ = cluster.get(&pod_path("p")).await.expect(404);
        }
        let status = evict(&cluster, "p").await.expect(404).json();
        assert_eq!(status["message"], "pods \"p\" not found");
        assert_eq!(cluster.get(&format!("{BUDGETS}/b")).await.expect(200).text(), budget);
        cluster.stop().await;
    });
}

#[test]
fn an_evicted_pod_ends_gracefully_and_says_why() {
    run(async {
        let cluster = Cluster::start().await;
        create_pod(&cluster, "p", "n", &running(true)).await;
        let before = cluster.get(&pod_path("p")).await.expect(200).json();
        check_success(evict_with(&cluster, "p", &json!({"gracePeriodSeconds": 20})).await);
        let evicted = cluster.get(&pod_path("p")).await.expect(200).json();
        assert_eq!(evicted["metadata"]["deletionGracePeriodSeconds"], 20);
        let conditions = evicted["status"]["conditions"].as_array().expect("conditions");
        let mut condition = conditions.last().expect("a condition").clone();
        let time = condition["lastTransitionTime"].take();
        assert!(time.is_string(), "{time}");
        assert_eq!(
            condition,
            json!({
                "type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "lastTransitionTime": null,
                "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
            })
        );
        // The managed fields do not record the eviction's condition.
        assert_eq!(evicted["metadata"]["managedFields"], before["metadata"]["managedFields"]);

        // Budgets do not protect a terminating pod, and a second eviction changes nothing.
        create_budget(&cluster, "b", &web(), &counts(0, 0, 1)).await;
        check_success(evict_with(&cluster, "p", &json!({"gracePeriodSeconds": 25})).await);
        assert_eq!(cluster.get(&pod_path("p")).await.expect(200).json(), evicted);
        check_success(evict_with(&cluster, "p", &json!({"gracePeriodSeconds": 0})).await);
        let _ = cluster.get(&pod_path("p")).await.expect(404);
        cluster.stop().await;
    });
}

#[test]
fn a_counted_disruption_is_written_as_the_server() {
    run(async {
        let cluster = Cluster::start().await;
        create_budget(&cluster, "b", &web(), &counts(2, 3, 1)).await;
        for name in ["p0", "p1", "p2"] {
            create_pod(&cluster, name, "", &running(true)).await;
        }
        check_success(evict(&cluster, "p0").await);
        let budget = cluster.get(&format!("{BUDGETS}/b")).await.expect(200).json();
        assert_eq!(budget["status"]["disruptionsAllowed"], 1);
        assert_eq!(budget["status"].get("conditions"), None);
        assert!(budget["status"]["disruptedPods"]["p0"].is_string(), "{budget}");
        let server = budget["metadata"]["managedFields"].as_array().expect("managed fields").iter();
        let server: Vec<_> = server.filter(|entry| entry["manager"] == "kube-apiserver").collect();
        assert_eq!(server.len(), 1, "{budget}");
        assert_eq!((&server[0]["subresource"], &server[0]["operation"]), (&json!("status"), &json!("Update")));
        let fields = json!({"f:status": {"f:disruptedPods": {".": {}, "f:p0": {}}, "f:disruptionsAllowed": {}}});
        assert_eq!(server[0]["fieldsV1"], fields);

        check_success(evict(&cluster, "p1").await);
        let status = cluster.get(&format!("{BUDGETS}/b")).await.expect(200).json()["status"].take();
        let pods: Vec<_> = status["disruptedPods"].as_object().expect("pods").keys().collect();
        assert_eq!(pods, ["p0", "p1"]);
        let mut condition = status["conditions"][0].clone();
        assert!(condition["lastTransitionTime"].take().is_string(), "{condition}");
        assert_eq!(
            condition,
            json!({
                "type": "DisruptionAllowed", "status": "False", "observedGeneration": 1, "lastTransitionTime": null,
                "reason": "InsufficientPods", "message": "",
            })
        );
        let _ = evict(&cluster, "p2").await.expect(429);
        cluster.stop().await;
    });
}

#[test]
fn concurrent_evictions_take_no_more_than_the_budget_allows() {
    run(async {
        let cluster = Cluster::start().await;
        create_budget(&cluster, "b", &web(), &counts(5, 9, 4)).await;
        let names: Vec<String> = (0..8).map(|i| format!("p{i}")).collect();
        for name in &names {
            create_pod(&cluster, name, "", &running(true)).await;
        }
        let responses = join_all(names.iter().map(|name| evict(&cluster, name))).await;
        let mut codes: Vec<u16> = responses.iter().map(|response| response.status.as_u16()).collect();
        codes.sort_unstable();
        assert_eq!(codes, [201, 201, 201, 201, 201, 429, 429, 429]);
        let left = cluster.get(PODS).await.expect(200).json();
        assert_eq!(left["items"].as_array().map(Vec::len), Some(3));
        let status = cluster.get(&format!("{BUDGETS}/b")).await.expect(200).json()["status"].take();
        assert_eq!(status["disruptionsAllowed"], 0);
        assert_eq!(status["disruptedPods"].as_object().map(serde_json::Map::len), Some(5));
        cluster.stop().await;
    });
}

#[test]
fn dry_runs_change_neither_pod_nor_budget() {
    run(async {
        let cluster = Cluster::start().await;
        create_budget(&cluster, "b", &web(), &counts(1, 2, 1)).await;
        create_pod(&cluster, "p", "n", &running(true)).await;
        create_pod(&cluster, "pending", "", &json!({})).await;
        let before = revision(&cluster).await;
        let all = json!({"dryRun": ["All"]});
        for (query, options) in [
            ("?dryRun=All", Value::Null),
            ("?dryRun=All", json!({"gracePeriodSeconds": 0})),
            ("?dryRun=All", all.clone()),
            ("", all),
        ] {
            for name in ["p", "pending"] {
                let path = format!("{PODS}/{name}/eviction{query}");
                check_success(cluster.post(&path, eviction(name, &options).to_string()).await);
            }
        }
        assert_eq!(revision(&cluster).await, before);
        // The budget decides about a dry run as about a real eviction.
        let none = json!({"status": {"disruptionsAllowed": 0}}).to_string();
        let _ = cluster.patch(&format!("{BUDGETS}/b/status"), "merge", none).await.expect(200);
        let _ = evict_with(&cluster, "p", &json!({"dryRun": ["All"]})).await.expect(429);

        let path = format!("{PODS}/p/eviction?dryRun=All");
        let other = eviction("p", &json!({"dryRun": ["All", "Other"]})).to_string();
        let message = "Non-matching dry-run options in request and content: [All] and [All Other]";
        cluster.post(&path, other).await.expect_error(500, "", message);
        cluster.stop().await;
    });
}

#[test]
fn invalid_evictions_change_nothing() {
    run(async {
        let cluster = Cluster::start().await;
        create_budget(&cluster, "b", &web(), &counts(1, 2, 1)).await;
        create_pod(&cluster, "p", "n", &running(true)).await;
        create_pod(&cluster, "pending", "", &json!({})).await;
        let before = revision(&cluster).await;
        let mismatch = "name in URL does not match name in Eviction object";
        let with_version = |version: &str| {
            let mut eviction = eviction("p", &json!({"dryRun": ["All"]}));
            eviction["apiVersion"] = json!(version);
            eviction
        };
        let with_metadata = |metadata: Value| {
            let mut eviction = eviction("p", &Value::Null);
            eviction["metadata"] = metadata;
            eviction
        };
        let policy = "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Never\": \
                      supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
        let dry_run = "DeleteOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported \
                       values: \"All\"";
        let read_error = "Eviction.policy \"p\" is invalid: \
                          deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: can not \
                          be set for pod eviction, try after removing the option";
        for (name, body, code, reason, message) in [
            ("p", with_metadata(json!({"name": "q"})), 400, "BadRequest", mismatch),
            ("p", with_metadata(json!({})), 400, "BadRequest", mismatch),
            (
                "p",
                with_metadata(json!({"name": "p", "namespace": "other"})),
                400,
                "BadRequest",
                "the namespace of the provided object does not match the namespace sent on the request",
            ),
            (
                "p",
                with_version("policy/v1beta2"),
                400,
                "BadRequest",
                "Eviction in version \"v1beta2\" cannot be handled as a Eviction: no kind \"Eviction\" is registered for \
                 version \"policy/v1beta2\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
            ),
            ("nosuch", eviction("nosuch", &Value::Null), 404, "NotFound", "pods \"nosuch\" not found"),
            ("p", eviction("p", &json!({"propagationPolicy": "Never"})), 422, "Invalid", policy),
            ("pending", eviction("pending", &json!({"propagationPolicy": "Never"})), 422, "Invalid", policy),
            ("p", eviction("p", &json!({"dryRun": ["Some"]})), 422, "Invalid", dry_run),
            (
                "p",
                eviction("p", &json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true})),
                422,
                "Invalid",
                read_error,
            ),
        ] {
            let response = cluster.post(&format!("{PODS}/{name}/eviction"), body.to_string()).await;
            response.expect_error(code, reason, message);
        }
        for method in ["GET", "PUT", "PATCH", "DELETE"] {
            let request = cluster.request(method, &format!("{PODS}/p/eviction"));
            let _ = request.json(eviction("p", &Value::Null).to_string()).send().await.expect(405);
        }
        let unacceptable = cluster.request("POST", &format!("{PODS}/p/eviction")).header("Accept", "text/plain");
        let _ = unacceptable.json(eviction("p", &Value::Null).to_string()).send().await.expect(406);
        // The server accepts the deprecated version, and a body without a type.
        for body in
            [with_version("policy/v1beta1"), json!({"metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}})]
        {
            check_success(cluster.post(&format!("{PODS}/p/eviction"), body.to_string()).await);
        }
        assert_eq!(revision(&cluster).await, before);
        cluster.stop().await;
    });
}

#[test]
fn preconditions_are_those_of_the_pod() {
    run(async {
        let cluster = Cluster::start().await;
        let conflict = |what: &str, wanted: &str, stored: &str, why: &str| {
            format!(
                "Operation cannot be fulfilled on Pod \"p\": the {what} in the precondition ({wanted}) does not match the \
                 {what} in record ({stored}). The object might have been {why}"
            )
        };
        // The server retries a wrong UID of a pod without a budget for ten seconds, so the test omits this case.
        for (status, checks_uid) in
            [(json!({"phase": "Pending"}), false), (running(true), true), (json!({"phase": "Succeeded"}), false)]
        {
            create_pod(&cluster, "p", "", &status).await;
            let pod = cluster.get(&pod_path("p")).await.expect(200).json();
            let metadata = |key: &str| pod["metadata"][key].as_str().expect("a text").to_owned();
            let (uid, version) = (metadata("uid"), metadata("resourceVersion"));
            for (preconditions, message) in [
                (json!({"uid": "other"}), conflict("UID", "other", &uid, "deleted and then recreated")),
                (json!({"resourceVersion": "1"}), conflict("ResourceVersion", "1", &version, "modified")),
            ] {
                if checks_uid || preconditions.get("uid").is_none() {
                    let response = evict_with(&cluster, "p", &json!({ "preconditions": preconditions })).await;
                    response.expect_error(409, "Conflict", &message);
                }
            }
            assert_eq!(cluster.get(&pod_path("p")).await.expect(200).json(), pod);
            let preconditions = json!({"preconditions": {"uid": uid, "resourceVersion": version}});
            check_success(evict_with(&cluster, "p", &preconditions).await);
            let _ = cluster.get(&pod_path("p")).await.expect(404);
        }
        cluster.stop().await;
    });
}

/// Records the writes of pods and budgets, labels evictions, and refuses evictions of pods with the name `refused`.
#[derive(Default)]
struct RecordingPlugin {
    writes: Mutex<Vec<String>>,
}

impl RecordingPlugin {
    fn record(&self, phase: &str, attributes: &AdmissionAttributes<'_>, object: &pintle_value::Value) {
        let AdmissionAttributes { operation, resource, subresource, name, dry_run, user, .. } = attributes;
        if matches!(&*resource.plural, "pods" | "poddisruptionbudgets") {
            let dry_run_in_object = object.at(&["deleteOptions", "dryRun"]).is_some();
            let flags = format!("dry_run={dry_run}/{dry_run_in_object}");
            let (plural, kind, user) = (&resource.plural, object.kind(), &user.name);
            self.writes
                .lock()
                .push(format!("{phase} {operation:?} {plural}/{subresource} {name} {kind} {flags} by {user}"));
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.writes.lock())
    }
}

impl AdmissionPlugin for RecordingPlugin {
    fn name(&self) -> &'static str {
        "RecordingPlugin"
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a mut pintle_value::Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            self.record("mutate", attributes, object);
            if object.name() == "renamed" {
                object.set_at(&["metadata", "name"], "p");
            }
            Ok(())
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a pintle_value::Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            self.record("validate", attributes, object);
            match attributes.subresource == "eviction" && attributes.name == "refused" {
                true => Err(ApiError::BadRequest("the tests' plugin refuses it".to_owned())),
                false => Ok(()),
            }
        })
    }
}

#[test]
fn admission_sees_the_eviction_and_the_budget_but_not_the_writes_of_the_pod() {
    run(async {
        let plugin = Arc::new(RecordingPlugin::default());
        let admission =
            AdmissionConfiguration { additional: vec![plugin.clone()], ..AdmissionConfiguration::default() };
        let cluster = Cluster::with_options(Options { admission, ..Options::default() }).await;
        create_budget(&cluster, "b", &web(), &counts(2, 3, 1)).await;
        for name in ["p", "refused"] {
            create_pod(&cluster, name, "n", &running(true)).await;
        }
        plugin.take();
        let reviewed = |name: &str, flags: &str| {
            ["mutate", "validate"]
                .map(|phase| format!("{phase} Create pods/eviction {name} Eviction {flags} by kubernetes-admin"))
        };
        let refused = evict(&cluster, "refused").await;
        refused.expect_error(400, "BadRequest", "the tests' plugin refuses it");
        assert_eq!(plugin.take(), reviewed("refused", "dry_run=false/false"));
        let pod = cluster.get(&pod_path("refused")).await.expect(200).json();
        assert_eq!(pod["metadata"].get("deletionTimestamp"), None);

        // The server checks the eviction after mutating plugins have changed it.
        let body = eviction("renamed", &json!({"gracePeriodSeconds": 0})).to_string();
        let path = format!("{PODS}/p/eviction?dryRun=All");
        check_success(cluster.post(&path, body).await);
        let [mutated, validated] =
            [reviewed("p", "dry_run=true/false")[0].clone(), reviewed("p", "dry_run=true/true")[1].clone()];
        assert_eq!(plugin.take(), [mutated, validated]);

        check_success(evict(&cluster, "p").await);
        let counted = ["mutate", "validate"].map(|phase| {
            format!(
                "{phase} Update poddisruptionbudgets/status b PodDisruptionBudget dry_run=false/false by system:apiserver"
            )
        });
        assert_eq!(plugin.take(), [reviewed("p", "dry_run=false/false"), counted].concat());
        cluster.stop().await;
    });
}

#[test]
fn discovery_lists_evictions() {
    run(async {
        let cluster = Cluster::start().await;
        let list = cluster.get("/api/v1").await.expect(200).json();
        let resources = list["resources"].as_array().expect("resources");
        let found: Vec<_> = resources.iter().filter(|resource| resource["name"] == "pods/eviction").collect();
        let expect = json!({
            "name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1",
            "kind": "Eviction", "verbs": ["create"],
        });
        assert_eq!(found, [&expect]);
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let all = cluster.request("GET", "/api").header("Accept", accept).send().await.expect(200).json();
        let resources = all["items"][0]["versions"][0]["resources"].as_array().expect("resources");
        let pods = resources.iter().find(|resource| resource["resource"] == "pods").expect("pods");
        let subresources = pods["subresources"].as_array().expect("subresources");
        let found: Vec<_> = subresources.iter().filter(|entry| entry["subresource"] == "eviction").collect();
        let expect = json!({
            "subresource": "eviction", "verbs": ["create"],
            "responseKind": {"group": "policy", "version": "v1", "kind": "Eviction"},
        });
        assert_eq!(found, [&expect]);
        let openapi = cluster.get("/openapi/v3/api/v1").await.expect(200).json();
        let path = "/api/v1/namespaces/{namespace}/pods/{name}/eviction";
        let kind = json!({"group": "policy", "version": "v1", "kind": "Eviction"});
        assert_eq!(openapi["paths"][path]["post"]["x-kubernetes-group-version-kind"], kind);
        let schema = &openapi["components"]["schemas"]["io.k8s.api.policy.v1.Eviction"];
        assert_eq!(schema["x-kubernetes-group-version-kind"], json!([kind]));
        cluster.stop().await;
    });
}

/// Since 1.37 the errors about unusable budgets have causes.
#[test]
fn unusable_budgets_are_causes_since_1_37() {
    run(async {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        let cause = json!([{"reason": "DisruptionBudgetTooManyDisruptedPods", "message": why}]);
        let mut status = counts(1, 2, 1);
        status["disruptedPods"] = (0..=2000).map(|i| (format!("p{i}"), json!("2026-01-01T00:00:00Z"))).collect();
        for (minor, causes) in [(36, None), (37, Some(&cause))] {
            let gates = Gates::of(EffectiveVersion::of(Minor::new(minor)));
            let cluster = Cluster::with_options(Options { gates, ..Options::default() }).await;
            create_pod(&cluster, "p", "", &running(true)).await;
            create_budget(&cluster, "b", &web(), &status).await;
            let status = evict(&cluster, "p").await.expect(403).json();
            assert_eq!(status["message"], format!("poddisruptionbudget.policy \"b\" is forbidden: {why}"));
            assert_eq!(status["details"].get("causes"), causes);
            cluster.stop().await;
        }
    });
}
