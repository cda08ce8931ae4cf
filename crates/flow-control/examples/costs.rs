//! Measures the cost of a request that does not wait, with a few flow schemas and with a thousand.
//!
//! `cargo run --release -p pintle-flow-control --example costs [rounds]`

use std::future::Future;
use std::hint::black_box;
use std::io::Write;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pintle_flow_control::{FlowControlOptions, FlowController, RequestAttributes};
use pintle_value::{Str, Value};

fn object(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

fn schema(name: &str, precedence: usize, subject: &str) -> Value {
    object(&format!(
        r#"{{"metadata":{{"name":"{name}","uid":"1"}},"spec":{{"matchingPrecedence":{precedence},"priorityLevelConfiguration":{{"name":"l"}},"distinguisherMethod":{{"type":"ByUser"}},"rules":[{{"subjects":[{subject}],"resourceRules":[{{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"namespaces":["*"],"clusterScope":true}}]}}]}}}}"#
    ))
}

/// A controller with some schemas for other users, and a schema for everybody.
fn controller(schemas: usize) -> FlowController {
    let options = FlowControlOptions { server_concurrency_limit: 600, charges_actual_cost: true };
    let controller = FlowController::new(options);
    let level = object(
        r#"{"metadata":{"name":"l","uid":"2"},"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Queue","queuing":{"queues":128,"handSize":6,"queueLengthLimit":50}}}}}"#,
    );
    let of_user = |user: usize| {
        schema(&format!("user-{user}"), 100, &format!(r#"{{"kind":"User","user":{{"name":"user-{user}"}}}}"#))
    };
    let mut schemas: Vec<_> = (0..schemas).map(of_user).collect();
    schemas.push(schema("everybody", 9000, r#"{"kind":"Group","group":{"name":"system:authenticated"}}"#));
    controller.configure(&schemas, &[level]);
    controller
}

fn request(controller: &FlowController, attributes: &RequestAttributes<'_>) {
    let class = controller.classify(attributes);
    let estimate = controller.estimate(&class, 0, Default::default);
    let mut admission = pin!(controller.admit(&class, estimate, Duration::from_secs(15)));
    if let Poll::Ready(execution) = admission.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        black_box(execution).ok();
    }
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(1_000_000_u32);
    let groups: [Str; 3] =
        ["system:serviceaccounts".into(), "system:serviceaccounts:default".into(), "system:authenticated".into()];
    let attributes = RequestAttributes {
        user: "system:serviceaccount:default:controller",
        groups: &groups,
        verb: "get",
        is_resource: true,
        version: "v1",
        resource: "configmaps",
        namespace: "default",
        name: "settings",
        path: "/api/v1/namespaces/default/configmaps/settings",
        ..RequestAttributes::default()
    };
    for schemas in [10, 1000] {
        let controller = controller(schemas);
        let started = Instant::now();
        (0..rounds).for_each(|_| request(&controller, &attributes));
        let each = started.elapsed().as_nanos() / u128::from(rounds.max(1));
        let _ = writeln!(std::io::stdout(), "{schemas} schemas: {each} ns for a request");
    }
}
