//! The JSON of events, byte for byte as Go encodes the types of `audit.k8s.io/v1`.

use std::borrow::Borrow;

use pintle_auth::UserInfo;
use pintle_codec::json::write_string;
use pintle_value::Str;
use pintle_value::time::Time;

use super::raw_json::write_compact;
use super::{Event, InvalidJson, ObjectReference, ResponseStatus, StatusCause, StatusDetails};

/// The length of most events at the level `Metadata`.
const USUAL_LENGTH: usize = 1024;

impl Event {
    /// The JSON of the event, with its kind and a line feed at the end.
    ///
    /// # Errors
    /// An object in the event is not JSON.
    pub fn to_json(&self) -> Result<Vec<u8>, InvalidJson> {
        let objects = [&self.request_object, &self.response_object];
        let length: usize = objects.into_iter().flatten().map(bytes::Bytes::len).sum();
        let mut out = Vec::with_capacity(length + USUAL_LENGTH);
        let mut object = ObjectWriter::begin(&mut out);
        object.constant("kind", "Event").constant("apiVersion", "audit.k8s.io/v1");
        self.write_fields(object)?;
        out.push(b'\n');
        Ok(out)
    }

    fn write_fields(&self, mut object: ObjectWriter<'_>) -> Result<(), InvalidJson> {
        object
            .constant("level", self.level.name())
            .text("auditID", &self.audit_id)
            .constant("stage", self.stage.name())
            .text("requestURI", &self.request_uri)
            .text("verb", &self.verb);
        write_user(&self.user, object.object("user"));
        if let Some(user) = &self.impersonated_user {
            write_user(user, object.object("impersonatedUser"));
        }
        if let Some(metadata) = &self.authentication_metadata {
            let mut object = object.object("authenticationMetadata");
            object.some_text("impersonationConstraint", &metadata.impersonation_constraint);
            object.end();
        }
        object.texts("sourceIPs", &self.source_ips).some_text("userAgent", &self.user_agent);
        if let Some(reference) = &self.object_ref {
            write_reference(reference, object.object("objectRef"));
        }
        if let Some(status) = &self.response_status {
            write_status(status, object.object("responseStatus"));
        }
        for (name, text) in [("requestObject", &self.request_object), ("responseObject", &self.response_object)] {
            if let Some(text) = text {
                object.name(name);
                write_compact(text, object.out)?;
            }
        }
        object
            .micro_time("requestReceivedTimestamp", self.request_received_timestamp)
            .micro_time("stageTimestamp", self.stage_timestamp);
        if !self.annotations.is_empty() {
            let mut annotations = object.object("annotations");
            for (key, value) in &self.annotations {
                annotations.key(key);
                write_string(value, annotations.out);
            }
            annotations.end();
        }
        object.end();
        Ok(())
    }
}

/// The JSON of an `EventList`, with a line feed at the end. Its events have no kind.
///
/// # Errors
/// An object in an event is not JSON.
pub fn event_list_json<E: Borrow<Event>>(events: &[E]) -> Result<Vec<u8>, InvalidJson> {
    let mut out = Vec::with_capacity(events.len() * USUAL_LENGTH);
    let mut list = ObjectWriter::begin(&mut out);
    list.text("kind", "EventList").text("apiVersion", "audit.k8s.io/v1");
    list.object("metadata").end();
    list.name("items");
    list.out.push(b'[');
    for (index, event) in events.iter().enumerate() {
        if index > 0 {
            list.out.push(b',');
        }
        event.borrow().write_fields(ObjectWriter::begin(list.out))?;
    }
    list.out.push(b']');
    list.end();
    out.push(b'\n');
    Ok(out)
}

fn write_user(user: &UserInfo, mut object: ObjectWriter<'_>) {
    object.some_text("username", &user.name).some_text("uid", &user.uid).texts("groups", &user.groups);
    if !user.extra.is_empty() {
        let mut entries: Vec<_> = user.extra.iter().collect();
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut extra = object.object("extra");
        for (key, values) in entries {
            extra.key(key);
            extra.write_texts(values);
        }
        extra.end();
    }
    object.end();
}

fn write_reference(reference: &ObjectReference, mut object: ObjectWriter<'_>) {
    object
        .some_text("resource", &reference.resource)
        .some_text("namespace", &reference.namespace)
        .some_text("name", &reference.name)
        .some_text("uid", &reference.uid)
        .some_text("apiGroup", &reference.api_group)
        .some_text("apiVersion", &reference.api_version)
        .some_text("resourceVersion", &reference.resource_version)
        .some_text("subresource", &reference.subresource);
    object.end();
}

fn write_status(status: &ResponseStatus, mut object: ObjectWriter<'_>) {
    object.object("metadata").end();
    object
        .some_text("status", &status.status)
        .some_text("message", &status.message)
        .some_text("reason", &status.reason);
    if let Some(details) = &status.details {
        write_details(details, object.object("details"));
    }
    object.some_number("code", i32::from(status.code));
    object.end();
}

fn write_details(details: &StatusDetails, mut object: ObjectWriter<'_>) {
    object
        .some_text("name", &details.name)
        .some_text("group", &details.group)
        .some_text("kind", &details.kind)
        .some_text("uid", &details.uid);
    if !details.causes.is_empty() {
        object.name("causes");
        object.out.push(b'[');
        for (index, StatusCause { reason, message, field }) in details.causes.iter().enumerate() {
            if index > 0 {
                object.out.push(b',');
            }
            let mut cause = ObjectWriter::begin(object.out);
            cause.some_text("reason", reason).some_text("message", message).some_text("field", field);
            cause.end();
        }
        object.out.push(b']');
    }
    object.some_number("retryAfterSeconds", details.retry_after_seconds);
    object.end();
}

/// Writes the members of a JSON object in the order of the calls. The methods `some_…` leave out empty values, as Go
/// does with `omitempty`.
struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> ObjectWriter<'o> {
    fn begin(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    fn separate(&mut self) {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(b',');
        }
    }

    /// The name of a member, which needs no escapes.
    fn name(&mut self, name: &'static str) {
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// The name of a member, which may be any text.
    fn key(&mut self, key: &str) {
        self.separate();
        write_string(key, self.out);
        self.out.push(b':');
    }

    /// A text that needs no escapes.
    fn constant(&mut self, name: &'static str, text: &'static str) -> &mut Self {
        self.name(name);
        self.out.push(b'"');
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'"');
        self
    }

    fn object(&mut self, name: &'static str) -> ObjectWriter<'_> {
        self.name(name);
        ObjectWriter::begin(self.out)
    }

    fn text(&mut self, name: &'static str, text: &str) -> &mut Self {
        self.name(name);
        write_string(text, self.out);
        self
    }

    fn some_text(&mut self, name: &'static str, text: &str) -> &mut Self {
        if text.is_empty() { self } else { self.text(name, text) }
    }

    fn some_number(&mut self, name: &'static str, number: i32) {
        if number != 0 {
            self.name(name);
            self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        }
    }

    /// A list of texts, unless it is empty.
    fn texts(&mut self, name: &'static str, texts: &[Str]) -> &mut Self {
        if !texts.is_empty() {
            self.name(name);
            self.write_texts(texts);
        }
        self
    }

    fn write_texts(&mut self, texts: &[Str]) {
        self.out.push(b'[');
        for (index, text) in texts.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            write_string(text, self.out);
        }
        self.out.push(b']');
    }

    /// A `metav1.MicroTime`: null for Go's zero time.
    fn micro_time(&mut self, name: &'static str, time: Time) -> &mut Self {
        if !time.is_zero() {
            return self.text(name, &time.rfc3339_micro());
        }
        self.name(name);
        self.out.extend_from_slice(b"null");
        self
    }

    fn end(self) {
        self.out.push(b'}');
    }
}
