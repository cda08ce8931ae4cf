//! The protocols that the server's HTTP clients offer (upstream: apimachinery's `util/net/http.go`, and
//! `pkg/util/webhook/client.go`), with the environment variables that client-go reads.

use std::sync::LazyLock;
use std::time::Duration;

use http::Uri;
use pintle_outbound::{Http2HealthCheck, Protocols};
use pintle_registry::{WebhookClientConfig, WebhookTarget};
use pintle_value::ip;

/// The defaults of the health check of HTTP/2 connections.
const READ_IDLE_TIMEOUT_SECONDS: i64 = 30;
const PING_TIMEOUT_SECONDS: i64 = 15;

/// The protocols of clients for which upstream configures no protocols: HTTP/2, unless it is disabled.
pub(crate) fn default_protocols() -> Protocols {
    static PROTOCOLS: LazyLock<Protocols> = LazyLock::new(|| from_variables(|name| std::env::var(name).ok()));
    *PROTOCOLS
}

/// The protocols of the client of an admission or conversion webhook. The server calls a webhook at its own host over
/// HTTP/2. Other webhooks may have several backends, over which the requests of one HTTP/2 connection are not
/// distributed (kubernetes/kubernetes#75791).
pub(crate) fn webhook_protocols(config: &WebhookClientConfig) -> Protocols {
    match &config.target {
        WebhookTarget::Url(url) if is_local_host(url) => default_protocols(),
        WebhookTarget::Url(_) | WebhookTarget::Service { .. } => Protocols::Http1,
    }
}

fn is_local_host(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || ip::parse_sloppy(host).is_some_and(|ip| ip.to_canonical().is_loopback())
}

fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Protocols {
    if variable("DISABLE_HTTP2").is_some_and(|value| !value.is_empty()) {
        tracing::info!("HTTP2 has been explicitly disabled");
        return Protocols::Http1;
    }
    let seconds = |name: &str, default: i64| {
        let Some(text) = variable(name).filter(|text| !text.is_empty()) else { return default };
        text.parse().unwrap_or_else(|error| {
            tracing::warn!(name, value = text, %error, default, "Illegal number of seconds, using the default");
            default
        })
    };
    // In Go, a zero interval means no check, and a zero ping timeout means the default. Negative numbers would make
    // each check fail at once.
    let positive = |seconds: i64| u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs);
    let read_idle_timeout = positive(seconds("HTTP2_READ_IDLE_TIMEOUT_SECONDS", READ_IDLE_TIMEOUT_SECONDS));
    let ping_timeout = positive(seconds("HTTP2_PING_TIMEOUT_SECONDS", PING_TIMEOUT_SECONDS));
    let ping_timeout = ping_timeout.unwrap_or(Duration::from_secs(PING_TIMEOUT_SECONDS.unsigned_abs()));
    Protocols::Http2(Http2HealthCheck { read_idle_timeout, ping_timeout })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_at_the_own_host_are_offered_http2() {
        let check = |target: WebhookTarget, expect: bool| {
            let config = WebhookClientConfig { target, authorities: Vec::new() };
            assert_eq!(webhook_protocols(&config) != Protocols::Http1, expect, "{config:?}");
        };
        for (url, expect) in [
            ("https://localhost/a", true),
            ("https://LOCALHOST:8443", true),
            ("https://127.0.0.1:8443/a?b=c", true),
            ("https://127.8.9.10", true),
            ("https://127.0.0.01", true),
            ("https://[::1]:8443", true),
            ("https://[::ffff:127.0.0.1]", true),
            ("https://localhost.example.com", false),
            ("https://10.0.0.1", false),
            ("https://[2001:db8::1]", false),
            ("https://hook.default.svc", false),
            ("not a url", false),
        ] {
            check(WebhookTarget::Url(url.into()), expect);
        }
        let (namespace, name) = ("default".into(), "localhost".into());
        check(WebhookTarget::Service { namespace, name, port: 443, path: "".into() }, false);
    }

    #[test]
    fn the_environment_configures_http2() {
        let check = |variables: &[(&str, &str)], expect: Option<(Option<u64>, u64)>| {
            let value =
                |name: &str| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).into());
            let expect = expect.map_or(Protocols::Http1, |(read_idle, ping)| {
                let read_idle_timeout = read_idle.map(Duration::from_secs);
                Protocols::Http2(Http2HealthCheck { read_idle_timeout, ping_timeout: Duration::from_secs(ping) })
            });
            assert_eq!(from_variables(value), expect, "{variables:?}");
        };
        let (idle, ping) = ("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "HTTP2_PING_TIMEOUT_SECONDS");
        check(&[], Some((Some(30), 15)));
        check(&[("DISABLE_HTTP2", "")], Some((Some(30), 15)));
        check(&[("DISABLE_HTTP2", "0")], None);
        check(&[(idle, "7"), (ping, "3")], Some((Some(7), 3)));
        check(&[(idle, "0"), (ping, "0")], Some((None, 15)));
        check(&[(idle, "soon"), (ping, "-1")], Some((Some(30), 15)));
    }
}
