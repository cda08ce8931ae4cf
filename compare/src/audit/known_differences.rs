//! The accepted differences of audit events. Events may have several of them, so each is a change that removes it from the
//! events of both servers.

use crate::aggregation::has;
use crate::sequence::Request;

/// An accepted difference.
struct Accepted {
    /// The reason why the difference is accepted.
    #[allow(dead_code, reason = "for the reader")]
    reason: &'static str,
    /// True for the requests whose events may have the difference.
    applies: fn(&Request) -> bool,
    /// Removes the difference from the events of a request. The first events are Pintle's, and the second are the Go API
    /// server's.
    remove: fn(&mut String, &mut String),
}

/// The last event, if it is of this stage.
fn last<'e>(events: &'e str, stage: &str) -> Option<&'e str> {
    events.lines().last().filter(|last| last.contains(&format!(r#""stage":"{stage}""#)))
}

/// Removes the last event.
fn remove_last(events: &mut String) {
    events.truncate(events.rfind('\n').unwrap_or(0));
}

const COMPLETE: &str = "ResponseComplete";

const ACCEPTED: &[Accepted] = &[
    Accepted {
        reason: "upstream loses the last event of a patch that is not JSON; Pintle converts the patch",
        applies: |request| request.method == "PATCH",
        remove: |pintle, go| {
            let is_converted = last(pintle, COMPLETE).is_some_and(|last| last.contains(r#","requestObject":"#));
            if is_converted && last(go, COMPLETE).is_none() {
                remove_last(pintle);
            }
        },
    },
    Accepted {
        reason: "upstream accepts custom resources in Protobuf, has no decoder for them and breaks the connection",
        applies: |request| has(request, "content-type", "protobuf"),
        remove: |pintle, go| {
            if last(go, "Panic").is_some() && last(pintle, COMPLETE).is_some() {
                remove_last(pintle);
                remove_last(go);
            }
        },
    },
    Accepted {
        reason: "the Go API server has no defaults of built-in kinds except the label of a namespace",
        applies: |request| request.path.ends_with("/namespaces"),
        remove: |pintle, _| {
            *pintle = pintle.replace(
                r#""spec":{},"status":{"phase":"Active"}},"responseObject""#,
                r#""spec":{},"status":{}},"responseObject""#,
            );
        },
    },
    Accepted {
        reason: "the number -0 of a built-in kind is 0",
        applies: |request| request.path.contains("/customresourcedefinitions"),
        remove: |_, go| *go = go.replace(":-0", ":0").replace("[-0", "[0"),
    },
    Accepted {
        reason: "Go strings keep bytes that are not UTF-8, which its JSON encoder escapes; here they are U+FFFD already",
        applies: |_| true,
        remove: |pintle, go| {
            if go.contains(r"\ufffd") {
                *pintle = pintle.replace('\u{fffd}', r"\ufffd");
            }
        },
    },
    Accepted {
        reason: "without a name, no protocol is switched to; upstream switches and waits for the client",
        applies: |request| has(request, "connection", "upgrade") && !has(request, "upgrade", ""),
        remove: |pintle, go| {
            if last(pintle, COMPLETE).is_some() && last(go, "RequestReceived").is_some() {
                remove_last(pintle);
            }
        },
    },
    Accepted {
        reason: "the client gets 504 from both servers; upstream's event has what the handler does afterwards, if it ends",
        applies: |request| request.path.contains("/hang?timeout="),
        remove: |pintle, go| {
            for (events, status) in
                [(pintle, r#""reason":"Timeout","code":504}"#), (go, r#""responseStatus":{"metadata":{},"code":503}"#)]
            {
                if last(events, COMPLETE).is_none_or(|last| last.contains(status)) {
                    *events = events.lines().take(1).collect();
                }
            }
        },
    },
];

/// True if the events of a request differ only in accepted ways.
pub(crate) fn is_known(request: &Request, pintle: &str, go: &str) -> bool {
    let (mut pintle, mut go) = (pintle.to_owned(), go.to_owned());
    for accepted in ACCEPTED.iter().filter(|accepted| (accepted.applies)(request)) {
        (accepted.remove)(&mut pintle, &mut go);
    }
    pintle == go
}
