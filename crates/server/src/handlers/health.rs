//! Serves `/livez`, `/readyz` and `/healthz` with their checks, `/version` and `/metrics`.

use http::{HeaderValue, StatusCode};

use super::version;
use crate::context::RequestContext;
use crate::http::{Response, text};
use crate::represent::json_response;

/// A health check: its name, and a function that returns the reason if the check fails.
type HealthCheck = (&'static str, fn(&RequestContext) -> Result<(), String>);

const PING: HealthCheck = ("ping", |_| Ok(()));
const LOG: HealthCheck = ("log", |_| Ok(()));
/// The health of the store, under the name of kube-apiserver's check.
const STORE: HealthCheck = ("etcd", |request| request.cluster.store_health());
/// The watch cache, which serves all reads, follows the store.
const CACHE: HealthCheck = ("informer-sync", |request| {
    if request.cluster.cache.is_following() {
        Ok(())
    } else {
        Err("the watch cache no longer follows the store".to_owned())
    }
});
const SHUTDOWN: HealthCheck =
    (
        "shutdown",
        |request| {
            if request.cluster.is_terminating() { Err("process is shutting down".to_owned()) } else { Ok(()) }
        },
    );

const LIVEZ: &[HealthCheck] = &[PING, LOG, STORE];
const READYZ: &[HealthCheck] = &[PING, LOG, STORE, CACHE, SHUTDOWN];

/// True for paths that anonymous users may read (upstream: `system:public-info-viewer`).
pub(crate) fn is_public(path: &str) -> bool {
    matches!(path, "/version" | "/version/") || health_endpoint(path).is_some()
}

/// The name and checks of a health path, and the rest of the path: the name of a single check, or empty.
fn health_endpoint(path: &str) -> Option<(&'static str, &'static [HealthCheck], &str)> {
    [("livez", LIVEZ), ("readyz", READYZ), ("healthz", LIVEZ)].into_iter().find_map(|(name, checks)| {
        let rest = path.strip_prefix('/')?.strip_prefix(name)?;
        match rest.strip_prefix('/') {
            Some(check) => (!check.is_empty()).then_some((name, checks, check)),
            None => rest.is_empty().then_some((name, checks, rest)),
        }
    })
}

/// Responds if the path is one of this file.
pub(crate) fn respond(request: &RequestContext) -> Option<Response> {
    let path = request.info.path.as_str();
    match path {
        "/version" | "/version/" => return Some(json_response(StatusCode::OK, &version())),
        "/metrics" => {
            let mut response = text(StatusCode::OK, request.cluster.metrics.text());
            response.headers_mut().insert(
                http::header::CONTENT_TYPE,
                HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8"),
            );
            return Some(response);
        }
        _ => {}
    }
    let (name, checks, single) = health_endpoint(path)?;
    if !single.is_empty() {
        let (_, check) = checks.iter().find(|(n, _)| *n == single)?;
        return Some(match check(request) {
            Ok(()) => text(StatusCode::OK, "ok"),
            Err(why) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")),
        });
    }
    let excluded: Vec<&str> = request.query.all("exclude").collect();
    let mut lines = String::new();
    let mut failed = false;
    for (check_name, check) in checks {
        if excluded.contains(check_name) {
            lines.push_str(&format!("[+]{check_name} excluded: ok\n"));
            continue;
        }
        match check(request) {
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
    } else if request.query.get("verbose").is_some() {
        text(StatusCode::OK, format!("{lines}{name} check passed\n"))
    } else {
        text(StatusCode::OK, "ok")
    };
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    Some(response)
}
