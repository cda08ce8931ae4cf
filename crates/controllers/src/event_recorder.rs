//! Records events about objects (upstream: `client-go/tools/events` and `client-go/tools/record`). An event that is
//! recorded again is counted instead of stored twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pintle_locks::Mutex;
use pintle_registry::{ApiError, GroupResource};
use pintle_value::time::Time;
use pintle_value::{Str, Value, object};

use crate::{ClusterClient, ObjectRef};

/// Maximum number of events whose repetitions are counted, as upstream.
const MAX_KNOWN_EVENTS: usize = 4096;
/// The namespace of events about cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";

/// The API through which upstream's component records its events. It determines the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventApi {
    /// The core group.
    Core,
    /// The group `events.k8s.io`, whose events have an action.
    Events,
}

/// Records the events of a component.
pub(crate) struct EventRecorder {
    component: &'static str,
    api: EventApi,
    known: Mutex<HashMap<EventKey, KnownEvent>>,
    sequence: AtomicI64,
}

/// The identity of an event: the uid of the object, the reason and the message.
type EventKey = (Str, Str, String);

/// A recorded event.
#[derive(Clone, Debug)]
struct KnownEvent {
    namespace: String,
    name: String,
    count: i64,
}

/// The contents of an event.
#[derive(Clone, Debug)]
pub(crate) struct Warning {
    /// The reason, in camel case.
    pub(crate) reason: Str,
    /// The action of the component. Events of the core group lack it.
    pub(crate) action: &'static str,
    /// The message for people.
    pub(crate) message: String,
}

fn events() -> GroupResource {
    GroupResource::new("", "events")
}

impl EventRecorder {
    /// A recorder of events of a component.
    pub(crate) fn new(component: &'static str, api: EventApi) -> Self {
        Self { component, api, known: Mutex::default(), sequence: AtomicI64::new(0) }
    }

    /// Records an event of the type `Warning` about an object. An event that cannot be stored is only logged.
    pub(crate) async fn warn(&self, client: &Arc<dyn ClusterClient>, regarding: &Value, warning: Warning) {
        let (name, namespace) = (regarding.name(), regarding.namespace());
        let Warning { reason, message, .. } = &warning;
        tracing::warn!(
            component = self.component,
            name,
            namespace,
            reason = reason.as_str(),
            message,
            "Event occurred"
        );
        if let Err(error) = self.record(client, regarding, warning).await {
            tracing::warn!(%error, component = self.component, "Failed to record an event");
        }
    }

    async fn record(
        &self,
        client: &Arc<dyn ClusterClient>,
        regarding: &Value,
        warning: Warning,
    ) -> Result<(), ApiError> {
        let now = client.now();
        let key = (Str::from(regarding.uid()), warning.reason.clone(), warning.message.clone());
        let repeated = self.known.lock().get_mut(&key).map(|known| {
            known.count += 1;
            known.clone()
        });
        if let Some(KnownEvent { namespace, name, count }) = repeated {
            let target = ObjectRef { resource: events(), namespace, name };
            let api = self.api;
            let counted = move |event: &Value| counted(api, event, count, now);
            match client.clone().update(target, "", Arc::new(counted)).await {
                // The event has expired.
                Err(ApiError::NotFound { .. }) => {}
                updated => return updated.map(drop),
            }
        }
        let known = loop {
            let event = self.new_event(regarding, &warning, now);
            let known = KnownEvent { namespace: event.namespace().to_owned(), name: event.name().to_owned(), count: 1 };
            match client.clone().create(events(), event).await {
                // Another component has recorded an event about the object at the same time.
                Err(ApiError::AlreadyExists { terminating: false, .. }) => {}
                created => break created.map(|()| known)?,
            }
        };
        let mut all = self.known.lock();
        if all.len() >= MAX_KNOWN_EVENTS {
            all.clear();
        }
        all.insert(key, known);
        Ok(())
    }

    fn new_event(&self, regarding: &Value, warning: &Warning, now: Time) -> Value {
        let namespace = Some(regarding.namespace()).filter(|namespace| !namespace.is_empty());
        // The sequence number distinguishes events of the same time.
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let suffix = now.seconds.wrapping_mul(1_000_000_000).wrapping_add(i64::from(now.nanos)).wrapping_add(sequence);
        let mut involved =
            object! { "kind": regarding.str_at(&["kind"]), "apiVersion": regarding.str_at(&["apiVersion"]) };
        for field in ["name", "namespace", "uid", "resourceVersion"] {
            if let Some(value) = regarding.at(&["metadata", field]) {
                involved.set(field, value.clone());
            }
        }
        let mut event = object! {
            "metadata": object! {
                // An event name may not contain a colon, unlike the name of an IPv6 IPAddress.
                "name": format!("{}.{suffix:x}", regarding.name().replace(':', "-")),
                "namespace": namespace.unwrap_or(DEFAULT_NAMESPACE),
            },
            "involvedObject": involved,
            "reason": warning.reason.clone(),
            "message": warning.message.as_str(),
            "type": "Warning",
        };
        match self.api {
            EventApi::Core => {
                event.set("source", object! { "component": self.component });
                event.set("reportingComponent", self.component);
                event.set("firstTimestamp", now.rfc3339());
                event.set("lastTimestamp", now.rfc3339());
                event.set("count", 1);
            }
            EventApi::Events => {
                event.set("eventTime", now.rfc3339_micro());
                event.set("reportingComponent", self.component);
                event.set("reportingInstance", self.component);
                event.set("action", warning.action);
            }
        }
        event
    }
}

/// An event that has happened `count` times, the last time now.
fn counted(api: EventApi, event: &Value, count: i64, now: Time) -> Value {
    let mut event = event.clone();
    match api {
        EventApi::Core => {
            event.set("count", count);
            event.set("lastTimestamp", now.rfc3339());
        }
        EventApi::Events => {
            event.set("series", object! { "count": count, "lastObservedTime": now.rfc3339_micro() });
        }
    }
    event
}
