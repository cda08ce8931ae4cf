//! Tests of the validation of names and of its messages.

use super::*;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const KEY: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

#[track_caller]
fn check(found: Vec<String>, expect: &[&str]) {
    assert_eq!(found, expect);
}

#[test]
fn dns_names_are_validated() {
    check(dns1123_label("a-1"), &[]);
    check(dns1123_label("a.b"), &["must not contain dots"]);
    check(dns1123_label(""), &[LABEL]);
    check(dns1123_label("Ä"), &[LABEL]);
    check(dns1123_label(&"a".repeat(64)), &["must be no more than 63 characters"]);
    check(short_name(&"a".repeat(64)), &["must be no more than 63 bytes"]);
    check(dns1123_subdomain("a.b-c.0"), &[]);
    check(dns1123_subdomain("a..b"), &[SUBDOMAIN]);
    check(dns1123_subdomain(&"-".repeat(254)), &["must be no more than 253 characters", SUBDOMAIN]);
    check(dns1123_subdomain_with_underscore("_a.b_c"), &[]);
    assert_eq!(dns1123_subdomain_with_underscore("__a").len(), 1);
    check(dns1035_label("a0"), &[]);
    assert_eq!(dns1035_label("0a").len(), 1);
    check(wildcard_dns1123_subdomain("*.a"), &[]);
    assert_eq!(wildcard_dns1123_subdomain("a.b").len(), 1);
    check(long_name_caseless("Example.COM"), &[]);
}

#[test]
fn generate_name_prefixes_may_end_in_a_dash() {
    check(dns1123_subdomain_name("web-", true), &[]);
    check(dns1123_subdomain_name("web-", false), &[SUBDOMAIN]);
    // Upstream drops the character before the dash, so this prefix is valid.
    check(dns1123_subdomain_name("web.-", true), &[]);
    check(dns1123_label_name("-", true), &[LABEL]);
    check(dns1123_label_name("ä-", true), &[LABEL]);
    check(path_segment_name("..", false), &["may not be '..'"]);
    check(path_segment_name("..", true), &[]);
    check(path_segment_name("a%/b", false), &["may not contain '/'", "may not contain '%'"]);
}

#[test]
fn label_keys_and_values_are_validated() {
    check(qualified_name("example.com/My_Name"), &[]);
    check(qualified_name(""), &["name part must be non-empty", &format!("name part {KEY}")]);
    check(qualified_name("/a"), &["prefix part must be non-empty"]);
    check(qualified_name("A/a"), &[&format!("prefix part {SUBDOMAIN}")]);
    check(
        qualified_name("a/b/c"),
        &[&format!(
            "a valid label key {KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )],
    );
    check(qualified_name(&"a".repeat(64)), &["name part must be no more than 63 bytes"]);
    check(label_value(""), &[]);
    check(label_value(&"a".repeat(64)), &["must be no more than 63 bytes"]);
    assert!(label_value("a b")[0].ends_with("'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"));
}

#[test]
fn ports_and_numbers_are_validated() {
    check(port_number(0), &["must be between 1 and 65535, inclusive"]);
    check(port_name("-"), &["must contain at least one letter (a-z)", "must not begin or end with a hyphen"]);
    check(
        port_name(""),
        &[
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
            "must contain at least one letter (a-z)",
        ],
    );
    check(port_name("http--x"), &["must not contain consecutive hyphens"]);
    check(user_id(-1), &["must be between 0 and 2147483647, inclusive"]);
    check(percent("10%"), &[]);
    assert_eq!(percent("%").len(), 1);
    check(decimal_integer("-12"), &[]);
    check(decimal_integer("012"), &["must be a valid decimal integer in canonical form"]);
    check(decimal_integer("-0"), &["must be a valid decimal integer in canonical form"]);
}

#[test]
fn keys_and_variable_names_are_validated() {
    check(config_map_key("a.b_c-D"), &[]);
    check(config_map_key(".."), &["must not be '..'"]);
    check(config_map_key("..a"), &["must not start with '..'"]);
    check(env_var_name("_A.b-1"), &[]);
    assert_eq!(env_var_name("1A").len(), 1);
    check(relaxed_env_var_name("1 a!"), &[]);
    check(relaxed_env_var_name(""), &["environment variable name must be non-empty"]);
    check(
        relaxed_env_var_name("a=b"),
        &["a valid environment variable name must consist only of printable ASCII characters other than '='"],
    );
    check(http_header_name("X-A"), &[]);
    assert_eq!(http_header_name("").len(), 1);
    check(c_identifier("_a1"), &[]);
    assert_eq!(c_identifier("1a").len(), 1);
}

#[test]
fn domains_are_validated() {
    let path = FieldPath::new("spec");
    #[track_caller]
    fn check(errors: &Errors, expect: &str) {
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "), expect);
    }
    check(&fully_qualified_name(&path, "a.b.c"), "");
    check(&fully_qualified_name(&path, ""), "spec: Required value");
    check(
        &fully_qualified_name(&path, "a.b"),
        "spec: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots",
    );
    check(&fully_qualified_domain_name(&path, "a.b."), "");
    check(
        &fully_qualified_domain_name(&path, &format!("{}.b", "a".repeat(64))),
        &format!("spec: Invalid value: \"{}\": must be no more than 63 characters", "a".repeat(64)),
    );
    check(&domain_prefixed_path(&path, "acme.io/foo/bar"), "");
    check(
        &domain_prefixed_path(&path, "acme.io/a b"),
        "spec: Invalid value: \"a b\": Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
    );
    check(
        &domain_prefixed_key(&path, "foo"),
        "spec: Invalid value: \"foo\": must be a domain-prefixed key (such as \"acme.io/foo\")",
    );
}
