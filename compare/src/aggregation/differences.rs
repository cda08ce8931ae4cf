//! The accepted differences of requests that are passed on to other API servers. An answer may have several of them, so
//! each is a change that removes it from both answers. `docs/design/aggregation.md` has the decisions.

use std::sync::LazyLock;

use regex::Regex;

use crate::known_differences::sort_managers;
use crate::sequence::Request;

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a valid pattern")
}

static CONNECTION: LazyLock<Regex> = LazyLock::new(|| regex(r" \| connection: [^|]*[^| ]"));
static AUDIT_ID: LazyLock<Regex> = LazyLock::new(|| regex(r" \| audit-id: [^|]*[^| ]"));
static CONTENT_TYPE: LazyLock<Regex> = LazyLock::new(|| regex(r"(?m)^content-type: .*\n"));
static DESCRIPTION: LazyLock<Regex> = LazyLock::new(|| regex(r#""description":"(?:[^"\\]|\\.)*","#));
static OWN_ADDRESS: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"(location: |href=")https://(?:127\.0\.0\.1|localhost):\d+/apis/"#));
/// The body after the status and the headers.
static BODY: LazyLock<Regex> = LazyLock::new(|| regex(r"(?s)\n\n.*"));

/// An accepted difference.
struct Accepted {
    /// The reason why the difference is accepted.
    #[allow(dead_code, reason = "for the reader")]
    reason: &'static str,
    /// True for the requests whose answers may have the difference.
    applies: fn(&Request) -> bool,
    /// Removes the difference from two answers. The first answer is Pintle's, and the second is the Go API server's.
    remove: fn(&mut String, &mut String),
}

/// The values of a header in a request.
fn values<'r>(request: &'r Request, name: &'r str) -> impl Iterator<Item = &'r str> {
    let headers = request.headers.iter().filter(move |(found, _)| found.eq_ignore_ascii_case(name));
    headers.map(|(_, value)| value.as_str())
}

/// True if a header of the request contains a word, in lower case.
pub(crate) fn has(request: &Request, name: &str, word: &str) -> bool {
    values(request, name).any(|value| value.to_ascii_lowercase().contains(word))
}

fn is_upgrade(request: &Request) -> bool {
    has(request, "connection", "upgrade") && !request.over_http2
}

/// True if a path has this part after the group and the version.
fn asks_for(request: &Request, what: &str) -> bool {
    is_proxied(request) && request.path.split('/').nth(4).is_some_and(|part| part.starts_with(what))
}

fn is_proxied(request: &Request) -> bool {
    request.path.starts_with("/apis/") && request.path.contains(".example.com/v1")
}

fn remove(text: &mut String, part: &str) {
    *text = text.replacen(part, "", 1);
}

fn remove_match(text: &mut String, pattern: &Regex) {
    *text = pattern.replace(text, "").into_owned();
}

/// True if the status and headers of an answer have a header.
fn has_header(answer: &str, name: &str) -> bool {
    answer.lines().skip(1).take_while(|line| !line.is_empty()).any(|line| line.starts_with(name))
}

const ACCEPTED: &[Accepted] = &[
    Accepted {
        reason: "two time limits of upstream's client end at the same moment, and either may be reported",
        applies: |request| request.path.starts_with(API_SERVICES),
        remove: |pintle, go| {
            for text in [pintle, go] {
                *text = text.replace(" (Client.Timeout exceeded while awaiting headers)", "");
                *text = text.replace("net/http: request canceled", "context deadline exceeded");
            }
        },
    },
    Accepted {
        reason: "managers are sorted by time, and a second may pass between two writes on one server only",
        applies: |request| request.path.starts_with(API_SERVICES),
        remove: |pintle, go| {
            for text in [pintle, go] {
                if let Some((head, body)) = text.split_once("\n\n")
                    && let Ok(mut value) = serde_json::from_str(body)
                {
                    sort_managers(&mut value);
                    *text = format!("{head}\n\n{value}");
                }
            }
        },
    },
    Accepted {
        reason: "the descriptions of columns are Pintle's own",
        applies: |request| request.path.starts_with(API_SERVICES) && has(request, "accept", "as=table"),
        remove: |pintle, go| {
            for text in [pintle, go] {
                *text = DESCRIPTION.replace_all(text, "").into_owned();
            }
        },
    },
    Accepted {
        reason: "upstream asks API servers for gzip if the client has no preference, and unzips the answer",
        applies: |request| {
            let mut encodings = values(request, "accept-encoding").peekable();
            encodings.peek().is_some() && encodings.all(str::is_empty)
        },
        remove: |pintle, go| {
            remove(go, " | accept-encoding: gzip");
            if has_header(pintle, "content-encoding: gzip") && go.ends_with("\n\nzipped") {
                remove(pintle, "content-encoding: gzip\n");
                *pintle = BODY.replace(pintle, "\n\nzipped").into_owned();
            }
        },
    },
    Accepted {
        reason: "Go's server guesses the content type of an answer that has none",
        applies: is_proxied,
        remove: |pintle, go| {
            if !has_header(pintle, "content-type: ") {
                remove_match(go, &CONTENT_TYPE);
            }
        },
    },
    Accepted {
        reason: "over HTTP/1.1, Go's server removes the content type of an answer without content",
        applies: |request| !request.over_http2 && is_proxied(request),
        remove: |pintle, go| {
            if go.starts_with("304\n") && !has_header(go, "content-type: ") {
                remove_match(pintle, &CONTENT_TYPE);
            }
        },
    },
    Accepted {
        reason: "the answer to an unknown expectation has a content type",
        applies: |request| values(request, "expect").next().is_some(),
        remove: |pintle, go| {
            if go.starts_with("417\n") {
                remove_match(pintle, &CONTENT_TYPE);
            }
        },
    },
    Accepted {
        reason: "Go's server handles the expectation of HTTP/2 clients itself; the API server may answer it, too",
        applies: |request| request.over_http2 && has(request, "expect", "100-continue"),
        remove: |pintle, _| remove(pintle, " | expect: 100-continue"),
    },
    Accepted {
        reason: "an empty name of the client is passed on",
        applies: |request| values(request, "user-agent").any(str::is_empty),
        remove: |pintle, _| remove(pintle, " | user-agent: "),
    },
    Accepted {
        reason: "a client cannot have headers of this server removed by naming them in Connection",
        applies: |request| has(request, "connection", "audit-id"),
        remove: |pintle, go| {
            remove_match(pintle, &AUDIT_ID);
            remove_match(go, &AUDIT_ID);
        },
    },
    Accepted {
        reason: "Go strings keep bytes that are not UTF-8; here they are U+FFFD already when the request is authorized",
        applies: |request| request.path.contains("%ff"),
        remove: |pintle, _| *pintle = pintle.replace("%EF%BF%BD", "%FF"),
    },
    Accepted {
        reason: "a client library adds the length of empty bodies over HTTP/2",
        applies: |request| request.path.contains("/modern.") && !matches!(&*request.method, "POST" | "PUT" | "PATCH"),
        remove: |pintle, _| remove(pintle, " | content-length: 0"),
    },
    Accepted {
        reason: "trailers are not announced",
        applies: |request| asks_for(request, "trailers"),
        remove: |_, go| remove(go, "trailer: X-T\n"),
    },
    Accepted {
        reason: "early hints are not passed on; upstream mixes their headers with the headers of the answer",
        applies: |request| asks_for(request, "hints"),
        remove: |pintle, go| {
            if pintle.starts_with("200\n") && go.starts_with("200\n") && has_header(go, "link: </x>") {
                *pintle = pintle.split("\n\n").skip(1).collect();
                *go = go.split("\n\n").skip(1).collect();
            }
            *go = go.replace("invalid upgrade response: status code 103", "invalid upgrade response: status code 200");
        },
    },
    Accepted {
        reason: "upstream changes links without a host so that they lead to the address of the API server, which clients \
                 do not know and may not reach",
        applies: |request| asks_for(request, "html") || asks_for(request, "redirect-here"),
        remove: |_, go| *go = OWN_ADDRESS.replace_all(go, "${1}/apis/").into_owned(),
    },
    Accepted {
        reason: "the text of an error in an answer that is not HTTP",
        applies: |request| asks_for(request, "garbage") || asks_for(request, "head-cut"),
        remove: |pintle, go| {
            let is_error = |text: &str| text.starts_with("503\n") && !has_header(text, "x-received");
            if is_error(pintle) && is_error(go) {
                remove_match(pintle, &BODY);
                remove_match(go, &BODY);
            }
        },
    },
    Accepted {
        reason: "Pintle's answers to upgrades have its own headers, too",
        applies: is_upgrade,
        remove: |pintle, go| {
            if !has_header(go, "cache-control: ") {
                remove(pintle, "cache-control: no-cache, private\n");
            }
        },
    },
    Accepted {
        reason: "without a name, no protocol is switched to; upstream switches if the API server does",
        applies: |request| is_upgrade(request) && values(request, "upgrade").next().is_none(),
        remove: |pintle, go| {
            // The answer to HEAD does not contain the reason.
            if pintle.starts_with("503\n") && !has_header(pintle, "x-received") && go.starts_with("101\n") {
                go.clone_from(pintle);
            }
        },
    },
    Accepted {
        reason: "the client may name other headers in Connection, which a proxy before the API server would remove",
        applies: is_upgrade,
        remove: |pintle, go| {
            remove_match(pintle, &CONNECTION);
            remove_match(go, &CONNECTION);
        },
    },
];

/// True if the answers to a request differ only in accepted ways.
pub(crate) fn is_accepted(request: &Request, pintle: &str, go: &str) -> bool {
    let (mut pintle, mut go) = (pintle.to_owned(), go.to_owned());
    for accepted in ACCEPTED.iter().filter(|accepted| (accepted.applies)(request)) {
        (accepted.remove)(&mut pintle, &mut go);
    }
    pintle == go
}
