//! Validates probes and lifecycle hooks (upstream: `validateProbe`, `validateHandler`, `validateLifecycle`).

use pintle_value::{Errors, FieldPath, Value, names};

use crate::declarative::Rules;
use crate::validation::{invalid_each, require_fields, str_field, validate_one_of, validate_port_number_or_name};

static HTTP_GET: Rules = Rules::own("core/v1", "HTTPGetAction");
static PROBE: Rules = Rules::own("core/v1", "Probe");

/// Validates the lifecycle and the probes of a regular container or a sidecar.
pub(crate) fn validate_lifecycle_and_probes(
    errors: &mut Errors,
    container: &Value,
    grace: Option<i64>,
    os: Option<&str>,
    path: &FieldPath<'_>,
) {
    if let Some(lifecycle) = container.get("lifecycle") {
        validate_lifecycle(errors, lifecycle, grace, os, &path.child("lifecycle"));
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get(name) else { continue };
        let path = path.child(name);
        validate_probe(errors, probe, &path);
        if name == "readinessProbe" {
            if let Some(seconds) = probe.int_at(&["terminationGracePeriodSeconds"]) {
                let path = path.child("terminationGracePeriodSeconds");
                errors.invalid(&path, seconds, "must not be set for readinessProbes");
            }
        } else {
            let threshold = probe.int_at(&["successThreshold"]).unwrap_or(0);
            if threshold != 1 {
                errors.invalid(&path.child("successThreshold"), threshold, "must be 1");
            }
        }
    }
}

fn validate_probe(errors: &mut Errors, probe: &Value, path: &FieldPath<'_>) {
    validate_handler(errors, probe, &["exec", "httpGet", "tcpSocket", "grpc"], None, path);
    PROBE.validate_part(errors, probe, path);
}

fn validate_lifecycle(
    errors: &mut Errors,
    lifecycle: &Value,
    grace: Option<i64>,
    os: Option<&str>,
    path: &FieldPath<'_>,
) {
    for name in ["postStart", "preStop"] {
        if let Some(handler) = lifecycle.get(name) {
            validate_handler(errors, handler, &["exec", "httpGet", "tcpSocket", "sleep"], grace, &path.child(name));
        }
    }
    if let Some(signal) = lifecycle.get("stopSignal").and_then(Value::as_str) {
        let path = path.child("stopSignal");
        match os {
            None => errors.forbidden(&path, "may not be set for containers with empty `spec.os.name`"),
            Some("windows") => validate_one_of(errors, &path, Some(signal), &["SIGKILL", "SIGTERM"]),
            Some("linux") => {
                let known = linux_signals();
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                validate_one_of(errors, &path, Some(signal), &known);
            }
            Some(_) => {}
        }
    }
}

/// Returns the sorted names of the Linux signals.
fn linux_signals() -> Vec<String> {
    let plain = [
        "ABRT", "ALRM", "BUS", "CHLD", "CLD", "CONT", "FPE", "HUP", "ILL", "INT", "IO", "IOT", "KILL", "PIPE", "POLL",
        "PROF", "PWR", "QUIT", "RTMAX", "RTMIN", "SEGV", "STKFLT", "STOP", "SYS", "TERM", "TRAP", "TSTP", "TTIN",
        "TTOU", "URG", "USR1", "USR2", "VTALRM", "WINCH", "XCPU", "XFSZ",
    ];
    let mut all: Vec<String> = plain.iter().map(|name| format!("SIG{name}")).collect();
    all.extend((1..=14).map(|n| format!("SIGRTMAX-{n}")));
    all.extend((1..=15).map(|n| format!("SIGRTMIN+{n}")));
    all.sort();
    all
}

/// Validates that there is exactly one action and that it is well formed.
fn validate_handler(errors: &mut Errors, handler: &Value, actions: &[&str], grace: Option<i64>, path: &FieldPath<'_>) {
    let mut found = false;
    for name in actions {
        let Some(action) = handler.get(name) else { continue };
        let path = path.child(name);
        if found {
            errors.forbidden(&path, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match *name {
            "exec" => require_fields(errors, action, &["command"], &path),
            "httpGet" => validate_http_get(errors, action, &path),
            "sleep" => {
                let seconds = action.int_at(&["seconds"]).unwrap_or(0);
                if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
                    let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                    errors.invalid(&path, seconds, detail);
                }
            }
            _ => {
                validate_port_number_or_name(errors, &path.child("port"), action.get("port"));
                validate_one_of(errors, &path.child("mode"), str_field(action, "mode"), &["Plaintext", "TLS"]);
            }
        }
    }
    if !found {
        errors.required(path, "must specify a handler type");
    }
}

fn validate_http_get(errors: &mut Errors, action: &Value, path: &FieldPath<'_>) {
    HTTP_GET.validate_part(errors, action, path);
    for header in action.items_at(&["httpHeaders"]) {
        let name = header.str_at(&["name"]);
        invalid_each(errors, &path.child("httpHeaders"), name, names::http_header_name(name));
    }
    validate_protocol(errors, action, &path.child("protocol"));
}

/// Validates the version of HTTP. HTTP/2 is spoken without TLS, and to the pod only.
fn validate_protocol(errors: &mut Errors, action: &Value, path: &FieldPath<'_>) {
    match str_field(action, "protocol") {
        Some("HTTP2") if action.str_at(&["scheme"]) == "HTTPS" => {
            errors.invalid(path, "HTTP2", "HTTP2 cannot be combined with scheme HTTPS");
        }
        Some("HTTP2") if !action.str_at(&["host"]).is_empty() => {
            errors.invalid(path, "HTTP2", "HTTP2 cannot be combined with host");
        }
        protocol => validate_one_of(errors, path, protocol, &["HTTP1", "HTTP2"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    fn check(container: &str, expect: &[&str]) {
        let mut errors = Errors::new();
        validate_lifecycle_and_probes(&mut errors, &object(container), Some(30), Some("linux"), &FieldPath::new("c"));
        assert_eq!(messages(&errors), expect, "{container}");
    }

    #[test]
    fn handlers() {
        check(r#"{"lifecycle":{"preStop":{"sleep":{"seconds":30}}}}"#, &[]);
        check(
            r#"{"lifecycle":{"preStop":{"sleep":{"seconds":31}},"postStart":{}}}"#,
            &[
                "c.lifecycle.postStart: Required value: must specify a handler type",
                "c.lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than \
                 terminationGracePeriodSeconds (30)",
            ],
        );
        check(r#"{"lifecycle":{"stopSignal":"SIGRTMIN+15"}}"#, &[]);
        check(
            r#"{"lifecycle":{"postStart":{"exec":{},"tcpSocket":{"port":1}}}}"#,
            &[
                "c.lifecycle.postStart.exec.command: Required value",
                "c.lifecycle.postStart.tcpSocket: Forbidden: may not specify more than 1 handler type",
            ],
        );
    }

    #[test]
    fn probes() {
        let fine = r#""timeoutSeconds":1,"periodSeconds":10,"failureThreshold":3"#;
        check(
            &format!(
                r#"{{"livenessProbe":{{"httpGet":{{"path":"/","port":70000,"scheme":"ftp"}},"successThreshold":2,{fine}}},
                "readinessProbe":{{"grpc":{{"port":1}},"terminationGracePeriodSeconds":0,"successThreshold":2,{fine}}},
                "startupProbe":{{"tcpSocket":{{"port":"no_name"}},"successThreshold":1,"periodSeconds":-1}}}}"#
            ),
            &[
                "c.livenessProbe.httpGet.port: Invalid value: 70000: must be between 1 and 65535, inclusive",
                "c.livenessProbe.httpGet.scheme: Unsupported value: \"ftp\": supported values: \"HTTP\", \"HTTPS\"",
                "c.livenessProbe.successThreshold: Invalid value: 2: must be 1",
                "c.readinessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0",
                "c.readinessProbe.terminationGracePeriodSeconds: Invalid value: 0: must not be set for readinessProbes",
                "c.startupProbe.tcpSocket.port: Invalid value: \"no_name\": must contain only alpha-numeric characters \
                 (a-z, 0-9), and hyphens (-)",
                "c.startupProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
            ],
        );
    }

    #[test]
    fn protocols_of_probes() {
        let probe = |action: &str| {
            format!(
                r#"{{"livenessProbe":{{{action},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}}}}"#
            )
        };
        let http = |fields: &str| probe(&format!(r#""httpGet":{{"path":"/","port":80,{fields}}}"#));
        check(&http(r#""scheme":"HTTP","protocol":"HTTP2""#), &[]);
        check(&http(r#""scheme":"HTTPS","protocol":"HTTP1""#), &[]);
        check(
            &http(r#""scheme":"HTTPS","host":"h","protocol":"HTTP2""#),
            &["c.livenessProbe.httpGet.protocol: Invalid value: \"HTTP2\": HTTP2 cannot be combined with scheme HTTPS"],
        );
        check(
            &http(r#""scheme":"HTTP","host":"h","protocol":"HTTP2""#),
            &["c.livenessProbe.httpGet.protocol: Invalid value: \"HTTP2\": HTTP2 cannot be combined with host"],
        );
        check(
            &http(r#""scheme":"HTTP","protocol":"HTTP3""#),
            &["c.livenessProbe.httpGet.protocol: Unsupported value: \"HTTP3\": supported values: \"HTTP1\", \"HTTP2\""],
        );
        check(&probe(r#""grpc":{"port":1,"mode":"TLS"}"#), &[]);
        check(
            &probe(r#""grpc":{"port":1,"mode":"tls"}"#),
            &["c.livenessProbe.grpc.mode: Unsupported value: \"tls\": supported values: \"Plaintext\", \"TLS\""],
        );
        let hook = r#"{"lifecycle":{"preStop":{"httpGet":{"path":"/","port":1,"scheme":"HTTP","protocol":"x"}}}}"#;
        check(
            hook,
            &["c.lifecycle.preStop.httpGet.protocol: Unsupported value: \"x\": supported values: \"HTTP1\", \"HTTP2\""],
        );
    }
}
