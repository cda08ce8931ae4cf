//! Scalars that are texts with their own syntax: quantities, durations, times, addresses, names and JSONPaths.

use std::collections::BTreeSet;

use pintle_extensions::JsonPath;
use pintle_value::time::{Duration, Time};
use pintle_value::{FieldPath, IntOrString, Quantity, Value, ip, names, object};

use crate::{MemoryLimit, with_memory_limit};

const LIMIT: MemoryLimit = MemoryLimit { per_byte: 400, base: 16 << 10 };

pub(super) fn quantity(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(mut quantity) = with_memory_limit(text.len(), LIMIT, || Quantity::parse(text)) else { return };
    let written = quantity.canonical();
    let again = Quantity::parse(&written).unwrap_or_else(|e| panic!("{written:?}: {e}"));
    assert_eq!(again.canonical(), written);
    // There is no suffix above E: upstream writes 1e21 as `1` too.
    if quantity.as_float().abs() < 1e20 {
        assert_eq!(again.cmp(&quantity), std::cmp::Ordering::Equal, "{written:?}");
    }
    let _ = (quantity.value(), quantity.milli_value(), quantity.scaled_value(-9), quantity.as_int());
    let _ = (quantity.as_float(), quantity.sign(), quantity.is_zero(), quantity.cmp_int(1));
    let negative = {
        let mut negative = quantity.clone();
        negative.neg();
        negative
    };
    quantity.add(&negative);
    assert!(quantity.is_zero(), "{written:?} less itself");
    let (mut product, mut rounded) = (again.clone(), again);
    let _ = product.mul(i64::MIN);
    let _ = rounded.round_up(-3);
    let _ = (product.canonical(), rounded.canonical());
}

pub(super) fn time(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(duration) = Duration::parse(text) {
        let written = duration.to_string();
        assert_eq!(Duration::parse(&written).map_err(|e| e.to_string()), Ok(duration), "{written:?}");
        let _ = Time::ZERO.plus(duration);
    }
    let parsers = [Time::parse_rfc3339, Time::parse_rfc3339_micro, Time::parse_local, Time::parse_date];
    for time in parsers.into_iter().filter_map(|parse| parse(text).ok()) {
        let _ = (time.since(Time::ZERO), Time::ZERO.since(time), time.rfc3339_micro());
        // Years beyond 9999 can be written, but not read.
        if let Ok(again) = Time::parse_rfc3339(&time.rfc3339_nano()) {
            assert_eq!(again, time, "{}", time.rfc3339_nano());
        }
    }
}

pub(super) fn name(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let path = FieldPath::new("spec");
    let _ = (ip::valid_ip(&path, text), ip::valid_cidr(&path, text), ip::valid_interface_address(&path, text));
    let _ = (ip::ip_warnings(&path, text), ip::cidr_warnings(&path, text));
    for strict in [false, true] {
        let _ = ip::valid_legacy_ip(&path, text, strict, &BTreeSet::new());
        let _ = ip::valid_legacy_cidr(&path, text, strict, &BTreeSet::new());
    }
    for rule in [
        names::dns1123_label,
        names::dns1123_subdomain,
        names::dns1123_subdomain_with_underscore,
        names::dns1035_label,
        names::wildcard_dns1123_subdomain,
        names::long_name,
        names::long_name_caseless,
        names::short_name,
        names::qualified_name,
        names::label_key,
        names::label_value,
        names::port_name,
        names::percent,
        names::http_header_name,
        names::env_var_name,
        names::relaxed_env_var_name,
        names::config_map_key,
        names::c_identifier,
        names::decimal_integer,
    ] {
        let _ = rule(text);
    }
    for rule in [names::dns1123_subdomain_name, names::dns1035_label_name, names::path_segment_name] {
        let _ = (rule(text, false), rule(text, true));
    }
    let _ = (names::fully_qualified_name(&path, text), names::fully_qualified_domain_name(&path, text));
    let _ = (names::domain_prefixed_path(&path, text), names::domain_prefixed_key(&path, text));
    let number = IntOrString::parse(text);
    let _ = (number.int_value(), number.percent(), number.scaled_value(i64::MAX, true), number.scaled_value(7, false));
    let _ = pintle_value::atoi(text);
}

pub(super) fn json_path(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Some(path) = with_memory_limit(text.len(), LIMIT, || JsonPath::parse(text)) else { return };
    let item = |name: &str, n: i64| object! { "name": name, "n": n, "status": "True", "tags": vec!["a", "b"] };
    let value = object! {
        "metadata": object! { "annotations": object! { "a.b/c": "x" }, "empty": Value::Null },
        "spec": object! { "n": 3, "list": vec![1, 2, 3, 4], "f": 1.5 },
        "status": object! { "conditions": vec![item("Ready", 1), item("Synced", 2), Value::Null] },
    };
    let _ = with_memory_limit(text.len(), LIMIT, || path.find(&value).len());
}

pub(super) fn quantity_seeds() -> Vec<Vec<u8>> {
    to_bytes(&[
        "0",
        "100m",
        "1.5Gi",
        "-3e-9",
        "+.5",
        "12345678901234567890123E",
        "1e3",
        "9n",
        "1_0",
        "0x1",
        "5Ki",
        "1u",
    ])
}

pub(super) fn time_seeds() -> Vec<Vec<u8>> {
    to_bytes(&[
        "2001-02-03T04:05:06Z",
        "2001-02-03T4:05:06,123456789+23:59",
        "9999-12-31T23:59:59.999999Z",
        "0000-01-01T00:00:00.000000-00:00",
        "2001-02-29",
        "2000-02-29T04:05:06",
        "1h2m3.5s",
        "-2562047h47m16.854775808s",
        "300ms1us5ns2µs3μs",
        "+.5s",
        "0",
    ])
}

pub(super) fn name_seeds() -> Vec<Vec<u8>> {
    to_bytes(&[
        "example.com/name_1",
        "*.example.com.",
        "a-b-c",
        "10.0.0.1/24",
        "010.001.0.1",
        "2001:db8::1%eth0",
        "::ffff:1.2.3.4/96",
        "2001:db8:0:0:0:0:0:1/64",
        "25%",
        "-9223372036854775808",
        "http-80",
        "X_Y.z",
    ])
}

pub(super) fn json_path_seeds() -> Vec<Vec<u8>> {
    to_bytes(&[
        ".status.conditions[?(@.name==\"Ready\")].status",
        ".metadata.annotations.a\\.b/c",
        ".spec['n','list'][0:-1:2]",
        "..[*]..n",
        ".status.conditions[?(@.n >= 1.5)].tags[-1]",
        ".status.conditions[?(@.tags[?(@ == 'a')])]",
        "$.spec.list[::2]",
    ])
}

fn to_bytes(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
