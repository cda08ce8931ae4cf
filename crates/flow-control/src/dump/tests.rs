//! Tests of the dumps.

use std::sync::Arc;
use std::time::Duration;

use pintle_locks::Mutex;

use super::*;
use crate::testing::object;
use crate::{Execution, FlowControlOptions, RequestAttributes, RequestDetails, WorkEstimate};

#[test]
fn tables_are_aligned_as_go_aligns_them() {
    let mut table = Table::new(&["A", "LongColumn", "Last"]);
    table.add(["some-name".to_owned(), String::new(), "x".to_owned()]);
    assert_eq!(table.into_text(), "A,         LongColumn, Last\nsome-name, ,           x\n");
}

struct Running(RequestAttributes<'static>);

impl RequestDetails for Running {
    fn attributes(&self) -> RequestAttributes<'_> {
        self.0
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_shown_with_their_users_and_targets() {
    let options = FlowControlOptions { server_concurrency_limit: 10, charges_actual_cost: true };
    let controller = FlowController::new(options);
    let level = object(
        r#"{"metadata":{"name":"l"},"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Queue","queuing":{"queues":4,"handSize":1,"queueLengthLimit":3}}}}}"#,
    );
    let schema = object(
        r#"{"metadata":{"name":"s"},"spec":{"priorityLevelConfiguration":{"name":"l"},"distinguisherMethod":{"type":"ByUser"},"rules":[{"subjects":[{"kind":"User","user":{"name":"jane"}}],"resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"namespaces":["*"]}]}]}}"#,
    );
    controller.configure(&[schema], &[level]);
    let request = RequestAttributes {
        user: "jane",
        verb: "update",
        is_resource: true,
        group: "apps",
        version: "v1",
        resource: "deployments",
        subresource: "scale",
        namespace: "n",
        name: "d",
        path: "/apis/apps/v1/namespaces/n/deployments/d/scale",
        ..RequestAttributes::default()
    };
    let class = controller.classify(&request);
    let additional_latency = Duration::from_millis(5);
    let estimate = WorkEstimate { initial_seats: 1, final_seats: 2, additional_latency };
    let execution = controller.admit(&class, estimate, Duration::ZERO).await.expect("a seat is free");
    let running = Arc::new(Running(request));
    execution.describe(&running);
    let cells = |text: String, row: usize| -> Vec<String> {
        text.lines().nth(row).unwrap_or_default().split(',').map(|cell| cell.trim().to_owned()).collect()
    };
    let requests = cells(controller.dump_requests(true), 1);
    assert_eq!(cells(controller.dump_requests(true), 0).len(), 18);
    assert_eq!(
        (&requests[..2], &requests[3..5]),
        (&["l".to_owned(), "s".to_owned()][..], &["-1".to_owned(), "jane".to_owned()][..])
    );
    assert_eq!(requests[6..9], ["1", "2", "5ms"]);
    assert!(requests[5] == requests[9] && requests[5].ends_with('Z'), "{requests:?}");
    let details = [
        "jane",
        "update",
        "/apis/apps/v1/namespaces/n/deployments/d/scale",
        "n",
        "d",
        "apps/v1",
        "deployments",
        "scale",
    ];
    assert_eq!(requests[10..], details);
    assert_eq!(cells(controller.dump_requests(false), 1), requests[..10]);
    drop(running);
    assert_eq!(cells(controller.dump_requests(true), 1)[10..], [""; 8]);
    let queue: usize = requests[2].parse().expect("a number");
    let queues = cells(controller.dump_queues(), 1 + queue);
    // Three milliseconds of one seat, and five of two.
    let work = "0.01300000ss";
    assert_eq!(queues, ["l", &queue.to_string(), "0", "1", "2", work, "0", "0", "0.00000000ss"]);
    execution.charge(0.25);
    drop(execution);
    let flows = cells(controller.dump_flows(), 1);
    // The request still holds its final seats.
    assert_eq!(flows[..8], ["l", "s", "jane", "1", "0", "2", "0.010000", "0.250000"]);
    // Requests that linger are not shown.
    assert_eq!(controller.dump_requests(false).lines().count(), 1);
}

/// A request that ends when its details are read, as if it ended at that moment.
struct Ending {
    execution: Mutex<Option<Execution>>,
    last: Mutex<Option<Arc<Self>>>,
}

impl RequestDetails for Ending {
    fn attributes(&self) -> RequestAttributes<'_> {
        // The dump itself now has the last reference.
        drop(self.last.lock().take());
        RequestAttributes { user: "jane", ..RequestAttributes::default() }
    }
}

#[tokio::test]
async fn a_request_may_end_during_a_dump() {
    let options = FlowControlOptions { server_concurrency_limit: 10, charges_actual_cost: true };
    let controller = FlowController::new(options);
    let attributes = RequestAttributes::default();
    let class = controller.classify(&attributes);
    let execution = controller.admit(&class, WorkEstimate::default(), Duration::ZERO).await.expect("a seat is free");
    let request = Arc::new(Ending { execution: Mutex::new(None), last: Mutex::new(None) });
    execution.describe(&request);
    *request.execution.lock() = Some(execution);
    *request.last.lock() = Some(request.clone());
    drop(request);
    assert!(controller.dump_requests(true).contains("jane"));
    assert_eq!(controller.dump_requests(false).lines().count(), 1);
}
