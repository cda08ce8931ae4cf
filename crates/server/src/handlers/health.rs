//! `/livez`, `/readyz`, `/healthz` with their checks, `/version` and `/metrics`.

use http::{HeaderValue, StatusCode};

use super::version;
use crate::context::RequestContext;
use crate::http::{Response, text};
use crate::represent::json_response;

/// A single check: its name and whether it is well, else why not.
type Check = (&'static str, fn(&RequestContext) -> Result<(), String>);

const PING: Check = ("ping", |_| Ok(()));
const LOG: Check = ("log", |_| Ok(()));
/// The store, under the name that people's probes know.
const STORE: Check = ("etcd", |call| call.cluster.store_health());
/// The cache, which reads are answered from, follows the store.
const CACHE: Check = ("informer-sync", |call| {
    if call.cluster.cache.is_following() { Ok(()) } else { Err("the cache no longer follows the store".to_owned()) }
});
const SHUTDOWN: Check =
    (
        "shutdown",
        |call| {
            if call.cluster.is_shutting_down() { Err("process is shutting down".to_owned()) } else { Ok(()) }
        },
    );

const LIVEZ: &[Check] = &[PING, LOG, STORE];
const READYZ: &[Check] = &[PING, LOG, STORE, CACHE, SHUTDOWN];

/// True for paths that anyone may ask.
pub(crate) fn is_public(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    path == "/version" || endpoint(path).is_some()
}

/// The checks of a path, and the rest of the path: a single check's name, or empty.
fn endpoint(path: &str) -> Option<(&'static str, &'static [Check], &str)> {
    [("livez", LIVEZ), ("readyz", READYZ), ("healthz", LIVEZ)].into_iter().find_map(|(name, checks)| {
        let rest = path.strip_prefix('/')?.strip_prefix(name)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| (name, checks, rest.trim_matches('/')))
    })
}

/// Answers, if the path is one of these.
pub(crate) fn answer(call: &RequestContext) -> Option<Response> {
    let path = call.info.path.trim_end_matches('/');
    match path {
        "/version" => return Some(json_response(call, StatusCode::OK, &version())),
        "/metrics" => {
            let mut response = text(StatusCode::OK, call.cluster.metrics.text());
            response.headers_mut().insert(
                http::header::CONTENT_TYPE,
                HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8"),
            );
            return Some(response);
        }
        _ => {}
    }
    let (name, checks, single) = endpoint(path)?;
    if !single.is_empty() {
        let (_, check) = checks.iter().find(|(n, _)| *n == single)?;
        return Some(match check(call) {
            Ok(()) => text(StatusCode::OK, "ok"),
            Err(why) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")),
        });
    }
    let excluded: Vec<&str> = call.query.all("exclude").collect();
    let mut lines = String::new();
    let mut failed = false;
    for (check_name, check) in checks {
        if excluded.contains(check_name) {
            lines.push_str(&format!("[+]{check_name} excluded: ok\n"));
            continue;
        }
        match check(call) {
            Ok(()) => lines.push_str(&format!("[+]{check_name} ok\n")),
            Err(why) => {
                failed = true;
                tracing::warn!(check = check_name, why, "Health check failed");
                lines.push_str(&format!("[-]{check_name} failed: reason withheld\n"));
            }
        }
    }
    let mut response = if failed {
        text(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{name} check failed\n"))
    } else if call.query.get("verbose").is_some() {
        text(StatusCode::OK, format!("{lines}{name} check passed\n"))
    } else {
        text(StatusCode::OK, "ok")
    };
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    Some(response)
}
