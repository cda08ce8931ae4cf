//! Validates an `EgressSelectorConfiguration` (upstream: `ValidateEgressSelectorConfiguration`). As in upstream, paths
//! of errors do not name the selection.

use std::collections::HashSet;
use std::fs;

use pintle_value::print::json_ordered;
use pintle_value::{Errors, FieldError, FieldPath, Value, object};

const PROTOCOLS: [&str; 3] = ["Direct", "HTTPConnect", "GRPC"];
const NAMES: [&str; 3] = ["cluster", "controlplane", "etcd"];

/// The name of the network of a selection. `master` is the old name of `controlplane`, in these versions only.
pub(super) fn canonical_name(selection: &Value) -> String {
    match selection.str_at(&["name"]) {
        "master" => "controlplane".to_owned(),
        name => name.to_lowercase(),
    }
}

/// Validates a decoded configuration.
pub(super) fn validate(config: &Value) -> Errors {
    let mut errors = Errors::new();
    let root = FieldPath::new("service");
    let path = root.child("connection");
    let selections = config.items_at(&["egressSelections"]);
    for selection in selections {
        let transport = selection.at(&["connection", "transport"]);
        match selection.str_at(&["connection", "proxyProtocol"]) {
            "Direct" => {
                if transport.is_some() {
                    let detail = "config must be absent for direct connect";
                    errors.invalid(&path.child("transport"), "direct", detail);
                }
            }
            "HTTPConnect" => check_http_connect(transport, &path, &mut errors),
            "GRPC" => check_grpc(transport, &path, &mut errors),
            other => errors.not_supported(&path.child("protocol"), other, &PROTOCOLS),
        }
    }
    let mut seen = HashSet::new();
    for (index, selection) in selections.iter().enumerate() {
        let name = canonical_name(selection);
        if !seen.insert(name.clone()) {
            errors.duplicate(&path.index(index), name);
        } else if !NAMES.contains(&&*name) {
            errors.not_supported(&path, name, &NAMES);
        }
    }
    errors
}

fn check_http_connect(transport: Option<&Value>, path: &FieldPath<'_>, errors: &mut Errors) {
    let Some(transport) = transport else {
        return errors.required(&path.child("transport"), "transport must be set for HTTPConnect");
    };
    match (transport.get("tcp"), transport.get("uds")) {
        (Some(tcp), Some(_)) => {
            let error = FieldError::invalid(&path.child("tcp"), tcp.clone(), "TCP and UDS cannot both be set");
            errors.push(error.showing(internal_tcp(tcp)));
        }
        (None, None) => errors.required(&path.child("tcp"), "One of TCP or UDS must be set"),
        (Some(tcp), None) => check_tcp(tcp, path, errors),
        (None, Some(uds)) => check_uds(uds, path, errors),
    }
}

fn check_grpc(transport: Option<&Value>, path: &FieldPath<'_>, errors: &mut Errors) {
    let Some(transport) = transport else {
        return errors.required(&path.child("transport"), "transport must be set for GRPC");
    };
    match transport.get("uds") {
        Some(uds) => check_uds(uds, path, errors),
        None => errors.required(&path.child("uds"), "UDS must be set with GRPC"),
    }
}

fn check_uds(uds: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    if uds.str_at(&["udsName"]).is_empty() {
        errors.invalid(&path.child("udsName"), "nil", "must be present for UDS connections");
    }
}

fn check_tcp(tcp: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let (url, tls) = (tcp.str_at(&["url"]), tcp.get("tlsConfig"));
    if url.starts_with("http://") {
        if tls.is_some() {
            errors.invalid(&path.child("tlsConfig"), "nil", "config must not be present when using HTTP");
        }
    } else if url.starts_with("https://") {
        check_tls(tls, path, errors);
    } else {
        errors.invalid(&path.child("url"), url, "supported connection protocols are http:// and https://");
    }
}

fn check_tls(tls: Option<&Value>, path: &FieldPath<'_>, errors: &mut Errors) {
    let path = path.child("tlsConfig");
    let Some(tls) = tls else { return errors.required(&path, "TLSConfig must be present when using HTTPS") };
    for (field, missing, nonexistent) in [
        ("caBundle", None, "TLS config ca bundle does not exist"),
        ("clientCert", Some("Using TLS requires clientCert"), "TLS client cert does not exist"),
        ("clientKey", Some("Using TLS requires requires clientKey"), "TLS client key does not exist"),
    ] {
        match (tls.str_at(&[field]), missing) {
            ("", None) => {}
            ("", Some(missing)) => errors.invalid(&path.child(field), "nil", missing),
            (file, _) if fs::metadata(file).is_err() => errors.invalid(&path.child(field), file, nonexistent),
            _ => {}
        }
    }
}

/// A transport as an error shows it: with the field names of upstream's internal type.
fn internal_tcp(tcp: &Value) -> String {
    const ORDER: [&str; 6] = ["URL", "TLSConfig", "CABundle", "ClientKey", "ClientCert", "TLSServerName"];
    let tls = tcp.get("tlsConfig").map_or(Value::Null, |tls| {
        let text = |field: &str| tls.str_at(&[field]);
        object! {
            "CABundle": text("caBundle"),
            "ClientKey": text("clientKey"),
            "ClientCert": text("clientCert"),
            "TLSServerName": text("tlsServerName"),
        }
    });
    json_ordered(&object! { "URL": tcp.str_at(&["url"]), "TLSConfig": tls }, &ORDER, &[])
}

#[cfg(test)]
mod tests {
    use pintle_codec::yaml;

    use super::*;

    fn check(selections: &str, expect: &str) {
        let config = yaml::decode(format!("egressSelections: [{selections}]\n").as_bytes()).expect("YAML").value;
        let errors = validate(&config);
        let found = if errors.is_empty() { String::new() } else { errors.message() };
        assert_eq!(found, expect, "{selections}");
    }

    #[test]
    fn names_are_known_and_unique() {
        let named = |name: &str| format!("{{name: {name}, connection: {{proxyProtocol: Direct}}}}");
        check("", "");
        check(&["CLUSTER", "etcd", "master"].map(named).join(", "), "");
        check(
            &["Cluster", "cluster", "master", "Master", "node"].map(named).join(", "),
            "[service.connection[1]: Duplicate value: \"cluster\", service.connection: Unsupported value: \"master\": \
             supported values: \"cluster\", \"controlplane\", \"etcd\", service.connection: Unsupported value: \
             \"node\": supported values: \"cluster\", \"controlplane\", \"etcd\"]",
        );
    }

    #[test]
    fn connections_are_checked_as_upstream_does() {
        for (connection, expect) in [
            ("{}", "protocol: Unsupported value: \"\": supported values: \"Direct\", \"HTTPConnect\", \"GRPC\""),
            (
                "{proxyProtocol: Direct, transport: {}}",
                "transport: Invalid value: \"direct\": config must be absent for direct connect",
            ),
            ("{proxyProtocol: HTTPConnect}", "transport: Required value: transport must be set for HTTPConnect"),
            ("{proxyProtocol: GRPC}", "transport: Required value: transport must be set for GRPC"),
            ("{proxyProtocol: GRPC, transport: {}}", "uds: Required value: UDS must be set with GRPC"),
            (
                "{proxyProtocol: GRPC, transport: {uds: {}}}",
                "udsName: Invalid value: \"nil\": must be present for UDS connections",
            ),
            ("{proxyProtocol: HTTPConnect, transport: {}}", "tcp: Required value: One of TCP or UDS must be set"),
            (
                "{proxyProtocol: HTTPConnect, transport: {uds: {}}}",
                "udsName: Invalid value: \"nil\": must be present for UDS connections",
            ),
            (
                "{proxyProtocol: HTTPConnect, transport: {uds: {}, tcp: {url: u}}}",
                "tcp: Invalid value: {\"URL\":\"u\",\"TLSConfig\":null}: TCP and UDS cannot both be set",
            ),
            (
                "{proxyProtocol: HTTPConnect, transport: {uds: {}, tcp: {url: u, tlsConfig: {caBundle: a}}}}",
                "tcp: Invalid value: {\"URL\":\"u\",\"TLSConfig\":{\"CABundle\":\"a\",\"ClientKey\":\"\",\
                 \"ClientCert\":\"\",\"TLSServerName\":\"\"}}: TCP and UDS cannot both be set",
            ),
        ] {
            check(&format!("{{name: cluster, connection: {connection}}}"), &format!("service.connection.{expect}"));
        }
    }

    #[test]
    fn urls_and_certificates_are_checked_as_upstream_does() {
        let exists = "/proc/self/exe";
        for (tcp, expect) in [
            (
                "{url: u}".to_owned(),
                "service.connection.url: Invalid value: \"u\": supported connection protocols are http:// and https://",
            ),
            (
                "{url: 'http://a', tlsConfig: {}}".to_owned(),
                "service.connection.tlsConfig: Invalid value: \"nil\": config must not be present when using HTTP",
            ),
            (
                "{url: 'https://a'}".to_owned(),
                "service.connection.tlsConfig: Required value: TLSConfig must be present when using HTTPS",
            ),
            (
                "{url: 'https://a', tlsConfig: {}}".to_owned(),
                "[service.connection.tlsConfig.clientCert: Invalid value: \"nil\": Using TLS requires clientCert, \
                 service.connection.tlsConfig.clientKey: Invalid value: \"nil\": Using TLS requires requires clientKey]",
            ),
            (
                "{url: 'https://a', tlsConfig: {caBundle: /nowhere/a, clientKey: /nowhere/b, clientCert: /nowhere/c}}"
                    .to_owned(),
                "[service.connection.tlsConfig.caBundle: Invalid value: \"/nowhere/a\": TLS config ca bundle does not \
                 exist, service.connection.tlsConfig.clientCert: Invalid value: \"/nowhere/c\": TLS client cert does \
                 not exist, service.connection.tlsConfig.clientKey: Invalid value: \"/nowhere/b\": TLS client key does \
                 not exist]",
            ),
            (format!("{{url: 'https://a', tlsConfig: {{clientKey: {exists}, clientCert: {exists}}}}}"), ""),
            ("{url: 'http://a'}".to_owned(), ""),
        ] {
            let connection = format!("{{proxyProtocol: HTTPConnect, transport: {{tcp: {tcp}}}}}");
            check(&format!("{{name: cluster, connection: {connection}}}"), expect);
        }
    }
}
