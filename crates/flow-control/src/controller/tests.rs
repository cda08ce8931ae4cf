//! Tests of the controller with tokio's paused clock.

use std::pin::pin;

use pintle_metrics::Exposition;
use tokio::task::JoinHandle;
use tokio::time::{advance, sleep};

use super::*;
use crate::testing::{bootstrap_objects, object};
use crate::{AdmitError, Execution, ListOptions, ObjectStats, RejectReason, Rejection, WatchTarget, WorkEstimate};

const LIMIT: Duration = Duration::from_secs(15);

fn controller(server_concurrency_limit: usize) -> Arc<FlowController> {
    Arc::new(FlowController::new(FlowControlOptions { server_concurrency_limit, charges_actual_cost: false }))
}

fn level(name: &str, shares: usize, lendable: usize, response: &str) -> Value {
    object(&format!(
        r#"{{"metadata":{{"name":"{name}","uid":"uid-{name}"}},"spec":{{"type":"Limited","limited":{{"nominalConcurrencyShares":{shares},"lendablePercent":{lendable},"limitResponse":{response}}}}}}}"#
    ))
}

/// A level with a queue for each of 8 flows.
fn queued_level(name: &str, shares: usize, lendable: usize) -> Value {
    level(name, shares, lendable, r#"{"type":"Queue","queuing":{"queues":8,"handSize":1,"queueLengthLimit":3}}"#)
}

/// A schema for a user.
fn schema(name: &str, level: &str, user: &str) -> Value {
    object(&format!(
        r#"{{"metadata":{{"name":"{name}","uid":"uid-{name}"}},"spec":{{"matchingPrecedence":10,"priorityLevelConfiguration":{{"name":"{level}"}},"distinguisherMethod":{{"type":"ByUser"}},"rules":[{{"subjects":[{{"kind":"User","user":{{"name":"{user}"}}}}],"resourceRules":[{{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"namespaces":["*"],"clusterScope":true}}]}}]}}}}"#
    ))
}

fn request<'r>(user: &'r str, verb: &'r str) -> RequestAttributes<'r> {
    RequestAttributes { user, verb, is_resource: true, version: "v1", resource: "pods", ..Default::default() }
}

async fn admit(
    controller: &FlowController,
    user: &str,
    estimate: WorkEstimate,
    limit: Duration,
) -> Result<Execution, AdmitError> {
    let request = request(user, "get");
    let class = controller.classify(&request);
    controller.admit(&class, estimate, limit).await
}

async fn admitted(controller: &FlowController, user: &str) -> Execution {
    admit(controller, user, WorkEstimate::default(), LIMIT).await.expect("the request is not rejected")
}

/// A request in a task. It has waited as long as it can when this returns.
async fn waiting(controller: &Arc<FlowController>, user: &'static str) -> JoinHandle<Result<Execution, AdmitError>> {
    let controller = controller.clone();
    let task = tokio::spawn(async move { admit(&controller, user, WorkEstimate::default(), LIMIT).await });
    tokio::task::yield_now().await;
    task
}

fn row(controller: &FlowController, level: &str) -> String {
    let dump = controller.dump_priority_levels();
    let row = dump.lines().find(|line| line.starts_with(&format!("{level},"))).unwrap_or_default();
    row.split_whitespace().collect::<Vec<_>>().join("")
}

#[tokio::test(start_paused = true)]
async fn requests_are_classified() {
    let controller = controller(600);
    let groups = ["system:authenticated".into()];
    let attributes = RequestAttributes { groups: &groups, ..request("jane", "get") };
    let catch_all = controller.classify(&attributes);
    assert_eq!((catch_all.flow_schema(), catch_all.is_unmatched()), ("catch-all", false));
    // No schema matches a user without groups.
    let without_groups = request("jane", "get");
    let unmatched = controller.classify(&without_groups);
    assert_eq!((unmatched.flow_schema(), unmatched.is_unmatched()), ("catch-all", true));
    let conditions = controller.configure(&bootstrap_objects("matchingPrecedence"), &bootstrap_objects("type"));
    assert!(conditions.len() == 11 && conditions.iter().all(|condition| condition.status == "False"));
    let class = controller.classify(&attributes);
    assert_eq!((class.flow_schema(), class.priority_level()), ("global-default", "global-default"));
    assert_eq!((class.flow_schema_uid(), class.is_exempt()), ("", false));
    let schemas = [schema("mine", "other", "jane"), schema("dangling", "missing", "jane")];
    let conditions = controller.configure(&schemas, &[queued_level("other", 10, 0)]);
    assert_eq!(conditions.iter().map(|condition| condition.status).collect::<Vec<_>>(), ["False", "True"]);
    let class = controller.classify(&attributes);
    assert_eq!((class.flow_schema_uid(), class.priority_level_uid()), ("uid-mine", "uid-other"));
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_the_end_of_others() {
    let controller = controller(1);
    controller.configure(&[schema("s", "l", "jane")], &[queued_level("l", 100, 0)]);
    let first = admitted(&controller, "jane").await;
    let second = waiting(&controller, "jane").await;
    let third = waiting(&controller, "jane").await;
    assert_eq!(row(&controller, "l"), "l,1,false,false,2,1,1,0,0,0");
    advance(Duration::from_secs(1)).await;
    drop(first);
    let second = second.await.expect("a task").expect("the request is not rejected");
    assert_eq!(second.waited(), Duration::from_secs(1));
    // A client that goes away leaves its queue.
    third.abort();
    assert!(third.await.is_err());
    assert_eq!(row(&controller, "l"), "l,0,false,false,0,1,2,1,0,1");
    let started = Instant::now();
    let late = admit(&controller, "jane", WorkEstimate::default(), Duration::from_secs(3)).await;
    let expect = Rejection { reason: RejectReason::TimeOut, retry_after: 1 };
    assert_eq!(late.expect_err("no seat is free"), AdmitError::Rejected(expect));
    assert_eq!(started.elapsed(), Duration::from_secs(3));
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(waiting(&controller, "jane").await);
    }
    let refused = admit(&controller, "jane", WorkEstimate::default(), LIMIT).await.expect_err("the queue is full");
    assert!(matches!(refused, AdmitError::Rejected(Rejection { reason: RejectReason::QueueFull, .. })));
    drop(second);
    for task in tasks {
        drop(task.await.expect("a task").expect("the request is not rejected"));
    }
    assert_eq!(row(&controller, "l"), "l,0,true,false,0,0,5,3,0,2");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_dispatched_ends_with_its_future() {
    let controller = controller(1);
    controller.configure(&[schema("s", "l", "jane")], &[queued_level("l", 100, 0)]);
    let first = admitted(&controller, "jane").await;
    {
        let mut second = pin!(admit(&controller, "jane", WorkEstimate::default(), LIMIT));
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut second).await.is_err());
        drop(first);
        // The future was not polled since its request was dispatched.
    }
    assert_eq!(row(&controller, "l"), "l,0,true,false,0,0,2,0,0,0");
}

#[tokio::test(start_paused = true)]
async fn levels_with_requests_remain_until_these_have_ended() {
    let controller = controller(10);
    let running = tokio::spawn({
        let controller = controller.clone();
        async move { controller.run().await }
    });
    controller.configure(&[schema("s", "l", "jane")], &[queued_level("l", 5, 0)]);
    let execution = admitted(&controller, "jane").await;
    controller.configure(&[], &[]);
    assert_eq!(row(&controller, "l"), "l,0,false,true,0,1,1,0,0,0");
    // New requests go to another level. It is smaller as long as the old level remains.
    let catch_all = || controller.levels()[0].read(|state| state.limits.nominal);
    assert_eq!(controller.classify(&request("jane", "get")).priority_level(), "catch-all");
    assert_eq!(catch_all(), 5);
    drop(execution);
    sleep(Duration::from_millis(1)).await;
    assert_eq!((row(&controller, "l"), catch_all()), (String::new(), 10));
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_classified_before_its_level_was_removed_is_classified_again() {
    let controller = controller(10);
    let schemas = [schema("s", "l", "jane")];
    controller.configure(&schemas, &[queued_level("l", 5, 0)]);
    let request = request("jane", "get");
    let class = controller.classify(&request);
    controller.configure(&[], &[]);
    let admit = || controller.admit(&class, WorkEstimate::default(), LIMIT);
    assert_eq!(admit().await.expect_err("the level is removed"), AdmitError::LevelRemoved);
    assert_eq!(controller.classify(&request).priority_level(), "catch-all");
    // A new level of the same name is another level.
    controller.configure(&schemas, &[queued_level("l", 5, 0)]);
    assert_eq!(admit().await.expect_err("the level is removed"), AdmitError::LevelRemoved);
    let execution = admitted(&controller, "jane").await;
    assert_eq!(row(&controller, "l"), "l,0,false,false,0,1,1,0,0,0");
    drop(execution);
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_keep_their_deleted_level() {
    let controller = controller(1);
    let running = tokio::spawn({
        let controller = controller.clone();
        async move { controller.run().await }
    });
    controller.configure(&[schema("s", "l", "jane")], &[queued_level("l", 100, 0)]);
    let first = admitted(&controller, "jane").await;
    let second = waiting(&controller, "jane").await;
    controller.configure(&[], &[]);
    assert_eq!(row(&controller, "l"), "l,1,false,true,1,1,1,0,0,0");
    drop(first);
    let second = second.await.expect("a task").expect("the request is not rejected");
    assert_eq!(row(&controller, "l"), "l,0,false,true,0,1,2,0,0,0");
    drop(second);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(row(&controller, "l"), "");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn idle_levels_lend_their_seats_within_a_period() {
    let controller = controller(20);
    let running = tokio::spawn({
        let controller = controller.clone();
        async move { controller.run().await }
    });
    let schemas = [schema("s1", "l1", "jane"), schema("s2", "l2", "joe")];
    controller.configure(&schemas, &[queued_level("l1", 10, 50), queued_level("l2", 5, 50)]);
    let limits = || {
        controller.levels().iter().map(|level| level.read(|state| state.queues.concurrency_limit())).collect::<Vec<_>>()
    };
    // catch-all has 5 shares and lends nothing. The demand is not known yet.
    sleep(Duration::from_millis(1)).await;
    let begun = limits();
    let mut executions = Vec::new();
    for _ in 0..begun[2] {
        executions.push(admitted(&controller, "jane").await);
    }
    let task = waiting(&controller, "jane").await;
    sleep(Duration::from_secs(11)).await;
    assert!(limits()[2] > begun[2] && limits()[3] < begun[3], "{begun:?} {:?}", limits());
    assert!(task.await.expect("a task").is_ok());
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn waiting_requests_get_the_seats_of_requests_that_linger() {
    let controller = controller(1);
    let running = tokio::spawn({
        let controller = controller.clone();
        async move { controller.run().await }
    });
    controller.configure(&[schema("s", "l", "jane")], &[queued_level("l", 100, 0)]);
    sleep(Duration::from_millis(1)).await;
    let additional_latency = Duration::from_millis(50);
    let estimate = WorkEstimate { initial_seats: 1, final_seats: 1, additional_latency };
    let first = admit(&controller, "jane", estimate, LIMIT).await.expect("a seat is free");
    let second = waiting(&controller, "jane").await;
    drop(first);
    let started = Instant::now();
    assert!(second.await.expect("a task").is_ok());
    let took = started.elapsed();
    assert!((additional_latency..additional_latency + Duration::from_millis(2)).contains(&took), "{took:?}");
    running.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_requests_at_once_are_all_executed() {
    let controller = controller(6);
    let level = level("l", 100, 0, r#"{"type":"Queue","queuing":{"queues":4,"handSize":2,"queueLengthLimit":1000}}"#);
    controller.configure(&[schema("s", "l", "jane")], &[level]);
    let running = tokio::spawn({
        let controller = controller.clone();
        async move { controller.run().await }
    });
    let latency = Duration::from_millis(1);
    let clients = (0..50).map(|client| {
        let controller = controller.clone();
        let estimate =
            WorkEstimate { initial_seats: 1 + client % 3, final_seats: client % 2, additional_latency: latency };
        tokio::spawn(async move {
            for round in 0..20 {
                let admission = admit(&controller, "jane", estimate, Duration::from_secs(60));
                if (client + round) % 5 == 0 {
                    // A client that goes away at once.
                    let _ = tokio::time::timeout(Duration::from_micros(100), admission).await;
                    continue;
                }
                let execution = admission.await.expect("the request is not rejected");
                tokio::task::yield_now().await;
                drop(execution);
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("a client");
    }
    let seats =
        || controller.levels().iter().map(|level| level.read(|state| state.queues.seats_in_use())).sum::<usize>();
    while seats() > 0 {
        sleep(latency).await;
        controller.advance();
    }
    assert!(row(&controller, "l").starts_with("l,0,true,false,0,0,"), "{}", row(&controller, "l"));
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn work_is_estimated_by_verb() {
    let controller = controller(600);
    controller.configure(
        &[schema("s", "l", "jane")],
        &[level("l", 100, 50, r#"{"type":"Queue","queuing":{"queues":8,"handSize":6,"queueLengthLimit":3}}"#)],
    );
    let target = WatchTarget { resource: "pods", ..WatchTarget::default() };
    let watches: Vec<_> = (0..30).map(|_| controller.watches().track(&target, None)).collect();
    assert!(watches.iter().all(Option::is_some));
    let check = |attributes: RequestAttributes<'_>, expect: [u64; 2]| {
        let class = controller.classify(&attributes);
        let stats = Some(ObjectStats { count: 1000, average_bytes: 500 });
        let estimate = controller.estimate(&class, 0, || (Some(ListOptions::default()), stats));
        assert_eq!([estimate.initial_seats, estimate.final_seats], expect, "{attributes:?}");
    };
    check(request("jane", "get"), [1, 0]);
    check(request("jane", "list"), [5, 0]);
    check(request("jane", "watch"), [5, 0]);
    check(request("jane", "create"), [1, 3]);
    check(request("jane", "deletecollection"), [1, 0]);
    let token = RequestAttributes { resource: "serviceaccounts", subresource: "token", ..request("jane", "create") };
    check(token, [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn metrics_have_the_names_and_labels_of_upstream() {
    let controller = controller(2);
    controller.configure(&[schema("s", "l", "jane")], &[level("l", 100, 50, r#"{"type":"Reject"}"#)]);
    let execution = admitted(&controller, "jane").await;
    execution.charge(2.5);
    advance(Duration::from_secs(1)).await;
    let text = || {
        let mut exposition = Exposition::default();
        controller.write_metrics(&mut exposition);
        exposition.into_text()
    };
    let check = |expect: &[&str]| {
        let text = text();
        for line in expect {
            assert!(text.lines().any(|other| other == *line), "{line}\n{text}");
        }
    };
    check(&[
        "# HELP apiserver_flowcontrol_priority_level_seat_utilization EXPERIMENTAL: [ALPHA] Observations, at the end of every nanosecond, of utilization of seats for any stage of execution (but only initial stage for WATCHes)",
        r#"apiserver_flowcontrol_priority_level_seat_utilization_bucket{phase="executing",priority_level="l",le="0.4"} 0"#,
        r#"apiserver_flowcontrol_priority_level_seat_utilization_bucket{phase="executing",priority_level="l",le="0.5"} 1e+09"#,
        r#"apiserver_flowcontrol_read_vs_write_current_requests_sum{phase="executing",request_kind="readOnly"} 3.333333333333333e+08"#,
        r#"apiserver_flowcontrol_current_executing_requests{flow_schema="s",priority_level="l"} 1"#,
        r#"apiserver_flowcontrol_current_inqueue_requests{flow_schema="s",priority_level="l"} 0"#,
        r#"apiserver_flowcontrol_dispatched_requests_total{flow_schema="s",priority_level="l"} 1"#,
        r#"apiserver_flowcontrol_nominal_limit_seats{priority_level="l"} 2"#,
        r#"apiserver_flowcontrol_lower_limit_seats{priority_level="l"} 1"#,
        r#"apiserver_flowcontrol_upper_limit_seats{priority_level="l"} 4"#,
    ]);
    let second = admitted(&controller, "jane").await;
    let refused = admit(&controller, "jane", WorkEstimate::default(), LIMIT).await.expect_err("no seat is free");
    assert!(matches!(refused, AdmitError::Rejected(Rejection { reason: RejectReason::ConcurrencyLimit, .. })));
    drop((execution, second));
    check(&[
        r#"apiserver_flowcontrol_rejected_requests_total{flow_schema="s",priority_level="l",reason="concurrency-limit"} 1"#,
        r#"apiserver_flowcontrol_request_wait_duration_seconds_count{execute="false",flow_schema="s",priority_level="l"} 1"#,
        r#"apiserver_flowcontrol_request_execution_seconds_bucket{flow_schema="s",priority_level="l",type="regular",le="1"} 2"#,
        r#"apiserver_flowcontrol_work_estimated_seats_bucket{flow_schema="s",priority_level="l",le="1"} 3"#,
        r#"pintle_flowcontrol_flow_seat_seconds_total{flow_distinguisher="",flow_schema="s",priority_level="l"} 2.5"#,
    ]);
    let hidden =
        ["apiserver_flowcontrol_request_concurrency_limit", "apiserver_flowcontrol_request_concurrency_in_use"];
    assert!(!hidden.iter().any(|name| text().contains(name)));
}
