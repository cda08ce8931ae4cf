//! The webhook that receives audit events, without a server.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_audit::{AuditBackend, AuditMetrics, AuditOptions, Event, Level, Sink as _};
use pintle_integration::eventually;
use pintle_server::{AuditWebhook, EgressSelector};
use serde_json::{Value, json};

use super::receiver::{AuditReceiver, Behaviour};

fn event(id: usize) -> Event {
    Event { level: Level::Metadata, audit_id: id.to_string().into(), ..Event::default() }
}

fn ids(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["auditID"].as_str().expect("an ID")).collect()
}

/// A client of the webhook that does not wait long between attempts.
fn client(receiver: &AuditReceiver, metrics: &Arc<AuditMetrics>) -> AuditWebhook {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kubeconfig");
    fs::write(&path, receiver.kubeconfig()).expect("a file");
    AuditWebhook::load(&path, Duration::from_millis(1), &EgressSelector::default(), metrics).expect("a webhook")
}

#[test]
fn events_are_posted_as_a_list() {
    pintle_integration::run(async {
        let (receiver, metrics) = (AuditReceiver::start().await, Arc::default());
        let webhook = client(&receiver, &metrics);
        assert!(webhook.process(&[Arc::new(event(1)), Arc::new(event(2))]).await);
        let calls = receiver.calls();
        let [call] = calls.as_slice() else { panic!("{} calls", calls.len()) };
        assert_eq!(call.header("content-type"), Some("application/json"));
        let list: Value = serde_json::from_slice(&call.body).expect("JSON");
        assert_eq!(
            (&list["kind"], &list["apiVersion"], &list["metadata"]),
            (&json!("EventList"), &json!("audit.k8s.io/v1"), &json!({}))
        );
        assert_eq!(ids(&receiver.events()), ["1", "2"]);
        assert_eq!(metrics.errors("webhook"), 0);
    });
}

#[test]
fn a_call_is_repeated_after_any_error() {
    pintle_integration::run(async {
        let (receiver, metrics) = (AuditReceiver::start().await, Arc::default());
        let webhook = client(&receiver, &metrics);
        receiver.set_next(&[
            Behaviour::Answer(400),
            Behaviour::Answer(403),
            Behaviour::Close,
            Behaviour::Answer(503),
            Behaviour::Answer(201),
        ]);
        assert!(webhook.process(&[Arc::new(event(1))]).await);
        assert_eq!((receiver.calls().len(), metrics.errors("webhook")), (5, 0));
        receiver.set(Behaviour::Answer(404));
        assert!(!webhook.process(&[Arc::new(event(1)), Arc::new(event(2))]).await);
        assert_eq!((receiver.calls().len(), metrics.errors("webhook")), (10, 2));
    });
}

#[test]
fn events_with_invalid_objects_are_not_sent() {
    pintle_integration::run(async {
        let (receiver, metrics) = (AuditReceiver::start().await, Arc::default());
        let webhook = client(&receiver, &metrics);
        let invalid = Event { level: Level::Request, request_object: Some("{".into()), ..event(1) };
        assert!(!webhook.process(&[Arc::new(invalid), Arc::new(event(2))]).await);
        assert_eq!((receiver.calls().len(), metrics.errors("webhook")), (0, 2));
    });
}

#[test]
fn events_of_a_webhook_that_hangs_wait_and_are_counted_in_the_end() {
    pintle_integration::run(async {
        let (receiver, metrics) = (AuditReceiver::start().await, Arc::default());
        let mut options = AuditOptions::default();
        options.webhook.config_file = "/x".to_owned();
        options.webhook.batch.max_wait = pintle_value::time::Duration(0);
        let webhook = Arc::new(client(&receiver, &metrics));
        let backend = AuditBackend::open(&options, Some(webhook), &metrics).expect("a backend").expect("a webhook");
        receiver.set(Behaviour::Hang);
        let begun = Instant::now();
        for id in 0..100 {
            assert!(backend.process(event(id)).await);
        }
        eventually("a call", async || !receiver.calls().is_empty()).await;
        backend.shutdown(Duration::from_millis(10)).await;
        eventually("the count", async || metrics.errors("buffered") == 100).await;
        assert!(begun.elapsed() < Duration::from_secs(30), "the time limit of a call has passed");
    });
}
