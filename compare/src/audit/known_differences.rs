//! The accepted differences of audit events. Events may have several of them, so each is a change that removes it from the
//! events of both servers.

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

const ACCEPTED: &[Accepted] = &[Accepted {
    reason: "upstream loses the last event of a patch that is not JSON; Pintle converts the patch",
    applies: |request| request.method == "PATCH",
    remove: |pintle, go| {
        let lines: Vec<&str> = pintle.lines().collect();
        let is_lost = go.lines().count() + 1 == lines.len() && !go.contains(r#""stage":"ResponseComplete""#);
        if is_lost && lines.last().is_some_and(|last| last.contains(r#""requestObject":"#)) {
            *pintle = lines[..lines.len() - 1].join("\n");
        }
    },
}];

/// True if the events of a request differ only in accepted ways.
pub(crate) fn is_known(request: &Request, pintle: &str, go: &str) -> bool {
    let (mut pintle, mut go) = (pintle.to_owned(), go.to_owned());
    for accepted in ACCEPTED.iter().filter(|accepted| (accepted.applies)(request)) {
        (accepted.remove)(&mut pintle, &mut go);
    }
    pintle == go
}
