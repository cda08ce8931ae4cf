//! Validates the client configuration of webhooks of all types (upstream: apiserver's
//! `pkg/util/webhook/validation.go`).

use pintle_value::{Errors, FieldPath, Value, names};

/// Validates the URL of a webhook. Recognizes only some of the URLs that Go fails to parse.
pub(crate) fn validate_url(errors: &mut Errors, url: &str, path: &FieldPath<'_>) {
    const FORM: &str = "; desired format: https://host[/path]";
    if url.chars().any(|c| c.is_ascii_control()) {
        let fault = format!("parse {url:?}: net/url: invalid control character in URL");
        errors.required(path, format!("url must be a valid URL: {fault}{FORM}"));
        return;
    }
    if url.starts_with(':') {
        let fault = format!("parse {url:?}: missing protocol scheme");
        errors.required(path, format!("url must be a valid URL: {fault}{FORM}"));
        return;
    }
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, rest)) if !scheme.contains('/') => (scheme.to_lowercase(), rest),
        _ => (String::new(), rest),
    };
    let authority = rest.strip_prefix("//").map_or("", |rest| rest.split('/').next().unwrap_or_default());
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if scheme != "https" {
        errors.invalid(path, scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if host.is_empty() {
        errors.invalid(path, host, format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        errors.invalid(path, user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        errors.invalid(path, fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        errors.invalid(path, query, "query parameters are not permitted in the URL");
    }
}

/// Validates the service reference of a webhook.
pub(crate) fn validate_service(errors: &mut Errors, service: &Value, path: &FieldPath<'_>) {
    // Upstream passes name and namespace in the wrong order, so the error about one names the other.
    if service.str_at(&["namespace"]).is_empty() {
        errors.required(&path.child("name"), "");
    }
    if service.str_at(&["name"]).is_empty() {
        errors.required(&path.child("namespace"), "");
    }
    let port = service.int_at(&["port"]).unwrap_or(0);
    let problems = names::port_number(port);
    if !problems.is_empty() {
        errors.invalid(&path.child("port"), port, format!("port is not valid: {}", problems.join(", ")));
    }
    let target = service.str_at(&["path"]);
    if target.is_empty() || target == "/" {
        return;
    }
    let path = path.child("path");
    if target == "//" {
        errors.invalid(&path, target, "segment[0] may not be empty");
        return;
    }
    if !target.starts_with('/') {
        errors.invalid(&path, target, "must start with a '/'");
    }
    // Like upstream, takes the first character for the slash, whatever it is.
    let mut steps = target.chars();
    steps.next();
    let steps = steps.as_str();
    for (i, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            errors.invalid(&path, target, format!("segment[{i}] may not be empty"));
            continue;
        }
        for message in names::dns1123_subdomain(step) {
            errors.invalid(&path, target, format!("segment[{i}]: {message}"));
        }
    }
}
