//! A sequence of requests. It names no server, revision or unique identifier: placeholders stand for values that differ
//! between the servers. So a part of a sequence is a sequence too.
//!
//! | placeholder | value |
//! |---|---|
//! | `{ns}` | a namespace of this run, which exists |
//! | `{group}` | an API group of this run |
//! | `{rv:NAME}`, `{uid:NAME}`, `{continue:NAME}` | from `metadata` in the response to the step NAME, as each server gave it |
//! | `{client}` | the number of the client, if several send the request |

use std::fmt;

use bytes::Bytes;

/// The name of the area of random sequences.
pub const RANDOM: &str = "random";
/// The name of the area of random sequences for other API servers behind both servers.
pub const RANDOM_AGGREGATION: &str = "random-aggregation";
/// The start of the names of sequences for other API servers.
const AGGREGATION: &str = "aggregation/";

/// A request with placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// The method.
    pub(crate) method: String,
    /// The path with the query.
    pub(crate) path: String,
    /// The headers, without the credentials.
    pub(crate) headers: Vec<(String, String)>,
    /// The body. Placeholders are replaced in text only.
    pub(crate) body: Bytes,
    /// The number of clients that send the request at the same moment, if more than one. Their order is not known, so
    /// only the sorted status codes of their answers are compared. A later step shows their common result.
    pub(crate) clients: usize,
    /// True if the body is sent in CBOR, although it is JSON here.
    pub(crate) in_cbor: bool,
    /// True if a request for another API server is sent over HTTP/2. Otherwise it is sent over HTTP/1.1.
    pub(crate) over_http2: bool,
}

impl Request {
    /// A request without headers and body.
    #[must_use]
    pub(crate) fn new(method: &str, path: impl Into<String>) -> Self {
        Self { method: method.to_owned(), path: path.into(), ..Self::default() }
    }

    /// Adds a header.
    #[must_use]
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body and its `Content-Type`.
    #[must_use]
    pub(crate) fn body(mut self, media_type: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.header("content-type", media_type)
    }

    /// Sets a JSON body.
    #[must_use]
    pub(crate) fn json(self, body: impl Into<String>) -> Self {
        self.body("application/json", body.into())
    }

    /// Lets several clients send the request at the same moment.
    #[must_use]
    pub(crate) fn sent_at_once(mut self, clients: usize) -> Self {
        self.clients = clients;
        self
    }

    /// The request of one of several clients.
    #[must_use]
    pub(crate) fn of_client(&self, client: usize) -> Self {
        let text = |text: &str| text.replace("{client}", &client.to_string());
        Self {
            path: text(&self.path),
            body: std::str::from_utf8(&self.body).map_or_else(|_| self.body.clone(), |body| text(body).into()),
            clients: 1,
            ..self.clone()
        }
    }

    /// True if the request is a watch.
    #[must_use]
    pub(crate) fn is_watch(&self) -> bool {
        let (path, query) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let mut parameters = query.split('&').filter_map(|parameter| parameter.strip_prefix("watch="));
        self.method == "GET" && (path.contains("/watch/") || parameters.any(|value| !matches!(value, "0" | "false")))
    }

    /// True if the request may change a CRD.
    #[must_use]
    pub(crate) fn changes_definition(&self) -> bool {
        self.method != "GET" && self.path.starts_with("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.clients > 1 {
            writeln!(f, "// from {} clients at once", self.clients)?;
        }
        write!(f, "{} {}{}", self.method, self.path, if self.over_http2 { " HTTP/2" } else { "" })?;
        for (name, value) in &self.headers {
            write!(f, "\n{name}: {value}")?;
        }
        match std::str::from_utf8(&self.body) {
            Ok("") => Ok(()),
            Ok(body) if body.len() > 4_000 => {
                let head: String = body.chars().take(400).collect();
                write!(f, "\n\n{head} ({} bytes)", body.len())
            }
            Ok(body) => write!(f, "\n\n{body}"),
            Err(_) => write!(f, "\n\n{} bytes: {:02x?}", self.body.len(), &self.body[..self.body.len().min(200)]),
        }
    }
}

/// A request and the name by which placeholders of later steps refer to it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The name of the step: in a random sequence, its number.
    pub(crate) name: String,
    /// The request.
    pub(crate) request: Request,
}

/// A sequence of requests that is sent to both servers.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    /// The name: the area and, for a random sequence, its seed.
    pub(crate) name: String,
    /// The steps. Their names differ.
    pub(crate) steps: Vec<Step>,
}

impl Sequence {
    /// A sequence of these requests, whose names are their numbers.
    #[must_use]
    pub(crate) fn new(name: impl Into<String>, requests: impl IntoIterator<Item = Request>) -> Self {
        let requests = requests.into_iter().enumerate();
        let steps = requests.map(|(number, request)| Step { name: number.to_string(), request }).collect();
        Self { name: name.into(), steps }
    }

    /// True if the sequence was made from a seed.
    #[must_use]
    pub(crate) fn is_random(&self) -> bool {
        self.name.starts_with(RANDOM)
    }

    /// True if the sequence needs other API servers behind both servers.
    #[must_use]
    pub(crate) fn is_aggregation(&self) -> bool {
        self.name.starts_with(AGGREGATION) || self.name.starts_with(RANDOM_AGGREGATION)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.name)?;
        for step in &self.steps {
            writeln!(f, "### {}\n{}", step.name, step.request)?;
        }
        Ok(())
    }
}
