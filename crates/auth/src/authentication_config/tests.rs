//! Upstream's rules, with the cases of its `validation_test.go`.

use super::*;

fn parse(text: &str) -> Result<AuthenticationConfiguration, String> {
    let header = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\n";
    load(format!("{header}{text}").as_bytes())
}

/// The errors of a configuration, without their common beginning.
#[track_caller]
fn check(text: &str, expect: &[&str]) {
    let configuration = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let errors = validate(&configuration, &["https://accounts".into(), "https://a".into()], true);
    let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(found, expect, "{text}");
}

/// The errors of an issuer, whose fields are changed.
#[track_caller]
fn check_issuer(issuer: &str, expect: &[&str]) {
    let expect: Vec<_> = expect.iter().map(|error| format!("jwt[0].issuer.{error}")).collect();
    let expect: Vec<_> = expect.iter().map(String::as_str).collect();
    check(
        &format!("jwt: [{{issuer: {{{issuer}}}, claimMappings: {{username: {{claim: sub, prefix: ''}}}}}}]"),
        &expect,
    );
}

/// The errors of mappings and rules.
#[track_caller]
fn check_rules(rules: &str, expect: &[&str]) {
    let expect: Vec<_> = expect.iter().map(|error| format!("jwt[0].{error}")).collect();
    let expect: Vec<_> = expect.iter().map(String::as_str).collect();
    check(&format!("jwt: [{{issuer: {{url: 'https://i', audiences: [c]}}, {rules}}}]"), &expect);
}

/// The errors of mappings.
#[track_caller]
fn check_mappings(mappings: &str, expect: &[&str]) {
    let expect: Vec<_> = expect.iter().map(|error| format!("claimMappings.{error}")).collect();
    check_rules(&format!("claimMappings: {{{mappings}}}"), &expect.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn files_are_decoded_strictly() {
    for (text, expect) in [
        ("jwt: []", Ok(0)),
        ("jwt: null", Ok(0)),
        ("jwt: [{}, {}]", Ok(2)),
        ("jwt: [{issuer: {uri: x}}]", Err("strict decoding error: unknown field \"jwt[0].issuer.uri\"")),
        (
            "jwt: [{issuer: {audienceMatchPolicy: 1}}]",
            Err("json: cannot unmarshal number into Go struct field Issuer.jwt.issuer.audienceMatchPolicy of type \
                 v1beta1.AudienceMatchPolicyType"),
        ),
        (
            "jwt: []\njwt: []",
            Err("strict decoding error: yaml: unmarshal errors:\n  line 4: key \"jwt\" already set in map"),
        ),
    ] {
        let found = parse(text).map(|configuration| configuration.jwt.len());
        assert_eq!(found, expect.map_err(str::to_owned), "{text}");
    }
    assert_eq!(load(b""), Err("empty config data".to_owned()));
    for (api_version, error) in [
        ("a/b/c", "unexpected GroupVersion string: a/b/c"),
        ("/", "Object 'apiVersion' is missing in 'apiVersion: /\nkind: X'"),
        ("a/", "Object 'apiVersion' is missing in 'apiVersion: a/\nkind: X'"),
        ("/v1", "no kind \"X\" is registered for version \"v1\" in scheme "),
    ] {
        let found = load(format!("apiVersion: {api_version}\nkind: X").as_bytes()).unwrap_err();
        assert!(found.starts_with(error), "{api_version}: {found}");
    }
    let other = load(b"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration");
    assert!(other.is_err_and(|error| error.starts_with("no kind \"AuthorizationConfiguration\" is registered")));
}

#[test]
fn issuers_are_validated() {
    check_issuer("url: 'https://i', audiences: [c]", &[]);
    check_issuer("audiences: [c]", &["url: Required value"]);
    check_issuer(
        "url: 'http://u:p@i?q#f', audiences: [c]",
        &[
            "url: Invalid value: \"http://u:p@i?q#f\": URL scheme must be https",
            "url: Invalid value: \"http://u:p@i?q#f\": URL must not contain a username or password",
            "url: Invalid value: \"http://u:p@i?q#f\": URL must not contain a query",
            "url: Invalid value: \"http://u:p@i?q#f\": URL must not contain a fragment",
        ],
    );
    check_issuer(
        "url: 'https://a', audiences: [c]",
        &[
            "url: Invalid value: \"https://a\": URL must not overlap with disallowed issuers: [https://a https://accounts]",
        ],
    );
    check_issuer(
        "url: 'https://i:x', audiences: [c]",
        &["url: Invalid value: \"https://i:x\": parse \"https://i:x\": invalid port \":x\" after host"],
    );
    check_issuer("url: 'https://i', discoveryURL: 'https://i/d', audiences: [c]", &[]);
    check_issuer(
        "url: 'https://i', discoveryURL: 'https://i/', audiences: [c]",
        &["discoveryURL: Invalid value: \"https://i/\": discoveryURL must be different from URL"],
    );
    // A discovery URL may be the URL of an issuer of service account tokens.
    check_issuer("url: 'https://i', discoveryURL: 'https://a', audiences: [c]", &[]);
    check_issuer(
        "url: 'https://i', audiences: []",
        &["audiences: Required value: at least one jwt[0].issuer.audiences is required"],
    );
    check_issuer(
        "url: 'https://i', audiences: ['', c, c], audienceMatchPolicy: MatchAny",
        &["audiences[0]: Required value", "audiences[2]: Duplicate value: \"c\""],
    );
    check_issuer(
        "url: 'https://i', audiences: [c, d]",
        &["audienceMatchPolicy: Invalid value: \"\": audienceMatchPolicy must be MatchAny for multiple audiences"],
    );
    check_issuer(
        "url: 'https://i', audiences: [c], audienceMatchPolicy: x",
        &[
            "audienceMatchPolicy: Invalid value: \"x\": audienceMatchPolicy must be empty or MatchAny for single audience",
        ],
    );
    check_issuer(
        "url: 'https://i', audiences: [c], certificateAuthority: x",
        &[
            "certificateAuthority: Invalid value: \"<omitted>\": data does not contain any valid RSA or ECDSA certificates",
        ],
    );
    check_issuer("url: 'https://i', audiences: [c], egressSelectorType: cluster", &[]);
    check_issuer(
        "url: 'https://i', audiences: [c], egressSelectorType: etcd",
        &["egressSelectorType: Invalid value: \"etcd\": egress selector must be either controlplane or cluster"],
    );
}

#[test]
fn issuers_have_no_network_while_the_feature_is_off() {
    let errors = |network: &str| {
        let issuer = format!("{{url: 'https://i', audiences: [c], egressSelectorType: '{network}'}}");
        let text = format!("jwt: [{{issuer: {issuer}, claimMappings: {{username: {{claim: sub, prefix: ''}}}}}}]");
        let errors = validate(&parse(&text).expect("a configuration"), &[], false);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(errors("").is_empty());
    let detail = "egress selector is not supported when StructuredAuthenticationConfigurationEgressSelector feature gate \
                  is disabled";
    assert_eq!(errors("cluster"), [format!("jwt[0].issuer.egressSelectorType: Invalid value: \"cluster\": {detail}")]);
}

#[test]
fn issuers_are_unique() {
    let jwt = |url: &str, discovery: &str| {
        format!(
            "{{issuer: {{url: 'https://{url}', discoveryURL: 'https://{discovery}', audiences: [c]}}, claimMappings: \
             {{username: {{claim: sub, prefix: ''}}}}}}"
        )
    };
    check(&format!("jwt: [{}, {}]", jwt("i", "d"), jwt("j", "e")), &[]);
    check(
        &format!("jwt: [{}, {}]", jwt("i", "d"), jwt("i", "d")),
        &[
            "jwt[1].issuer.url: Duplicate value: \"https://i\"",
            "jwt[1].issuer.discoveryURL: Duplicate value: \"https://d\"",
        ],
    );
    let many: Vec<_> = (0..65).map(|i| jwt(&format!("i{i}"), &format!("d{i}"))).collect();
    check(&format!("jwt: [{}]", many.join(", ")), &["jwt: Too many: 65: must have at most 64 items"]);
}

#[test]
fn mappings_are_validated() {
    check_mappings("username: {claim: sub, prefix: ''}", &[]);
    check_mappings("", &["username: Required value: claim or expression is required"]);
    check_mappings(
        "username: {claim: sub}",
        &[
            "username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to \
           disable prefixing",
        ],
    );
    check_mappings(
        "username: {claim: sub, expression: claims.sub}",
        &["username: Invalid value: \"\": claim and expression can't both be set"],
    );
    check_mappings(
        "username: {expression: claims.sub, prefix: x}",
        &["username.prefix: Invalid value: \"x\": may not be specified when expression is set"],
    );
    check_mappings(
        "username: {expression: foo.bar}",
        &[
            "username.expression: Invalid value: \"foo.bar\": compilation failed: ERROR: <input>:1:1: undeclared reference \
           to 'foo' (in container '')\n | foo.bar\n | ^",
        ],
    );
    let username = "username: {claim: sub, prefix: ''}";
    check_mappings(
        &format!("{username}, groups: {{claim: g}}, uid: {{claim: a, expression: b}}"),
        &[
            "groups.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to \
             disable prefixing",
            "uid: Invalid value: \"\": claim and expression can't both be set",
        ],
    );
    let extra = |items: &str, expect: &[&str]| check_mappings(&format!("{username}, extra: [{items}]"), expect);
    extra("{key: x.org/a, valueExpression: claims.a}", &[]);
    extra("{key: x.org/a}", &["extra[0].valueExpression: Required value"]);
    extra("{key: '', valueExpression: claims.a}", &["extra[0].key: Required value"]);
    extra(
        "{key: a, valueExpression: claims.a}",
        &["extra[0].key: Invalid value: \"a\": must be a domain-prefixed path (such as \"acme.io/foo\")"],
    );
    extra(
        "{key: x.org/A, valueExpression: claims.a}",
        &["extra[0].key: Invalid value: \"x.org/A\": must be lowercase"],
    );
    let reserved = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
    for key in ["k8s.io/a", "x.k8s.io/a", "kubernetes.io/a", "y.x.kubernetes.io/a"] {
        let error = format!("extra[0].key: Invalid value: \"{key}\": {reserved}");
        extra(&format!("{{key: {key}, valueExpression: claims.a}}"), &[&error]);
    }
    extra("{key: xk8s.io/a, valueExpression: claims.a}", &[]);
    extra(
        "{key: x.org/a, valueExpression: claims.a}, {key: x.org/a, valueExpression: claims.b}",
        &["extra[1].key: Duplicate value: \"x.org/a\""],
    );
}

#[test]
fn an_email_has_to_be_verified() {
    let error = "claimMappings.username.expression: Invalid value: \"claims.email\": claims.email_verified must be used \
                 in claimMappings.username.expression or claimMappings.extra[*].valueExpression or \
                 claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression";
    let with = |username: &str, rest: &str, expect: &[&str]| {
        check_rules(&format!("claimMappings: {{username: {{expression: '{username}'}}{rest}"), expect);
    };
    with("claims.email", "}", &[error]);
    with("claims.email", "}, claimValidationRules: [{expression: claims.email_verified == true}]", &[]);
    with("claims.email", ", extra: [{key: x.org/a, valueExpression: 'string(claims.email_verified)'}]}", &[]);
    with("claims.email", ", groups: {expression: 'string(claims.email_verified)'}}", &[error]);
    with("claims.?email_verified.orValue(true) == true ? claims.email : claims.sub", "}", &[]);
    with("has(claims.email_verified) && claims.email_verified == true ? claims.email : \"\"", "}", &[]);
    // As in upstream, the index operator is not noticed.
    with("claims[\"email\"]", "}", &[]);
}

#[test]
fn rules_are_validated() {
    let rules = |rules: &str, expect: &[&str]| {
        check_rules(&format!("claimMappings: {{username: {{claim: sub, prefix: ''}}}}, {rules}"), expect);
    };
    rules("claimValidationRules: [{claim: a, requiredValue: b}, {expression: 'claims.a == \"b\"', message: m}]", &[]);
    rules(
        "claimValidationRules: [{claim: a, expression: b}, {}, {claim: a, message: m}, {claim: a}]",
        &[
            "claimValidationRules[0]: Invalid value: \"a\": claim and expression can't both be set",
            "claimValidationRules[1]: Required value: claim or expression is required",
            "claimValidationRules[2].message: Invalid value: \"m\": may not be specified when claim is set",
            "claimValidationRules[3].claim: Duplicate value: \"a\"",
        ],
    );
    rules(
        "claimValidationRules: [{expression: 'claims.a == 1', requiredValue: b}, {expression: 'claims.a == 1'}, \
         {expression: claims.a}]",
        &[
            "claimValidationRules[0].requiredValue: Invalid value: \"b\": may not be specified when expression is set",
            "claimValidationRules[1].expression: Duplicate value: \"claims.a == 1\"",
            "claimValidationRules[2].expression: Invalid value: \"claims.a\": must evaluate to bool",
        ],
    );
    rules("userValidationRules: [{expression: 'user.username == \"a\" && \"b\" in user.groups'}]", &[]);
    rules(
        "userValidationRules: [{}, {expression: 'true'}, {expression: 'true'}, {expression: user.uid}]",
        &[
            "userValidationRules[0].expression: Required value",
            "userValidationRules[2].expression: Duplicate value: \"true\"",
            "userValidationRules[3].expression: Invalid value: \"user.uid\": must evaluate to bool",
        ],
    );
}

#[test]
fn conditions_need_anonymous_requests() {
    check("anonymous: {enabled: true, conditions: [{path: /livez}]}", &[]);
    check("anonymous: {enabled: false}", &[]);
    check(
        "anonymous: {enabled: false, conditions: [{path: /livez}]}",
        &[
            "anonymous.conditions: Invalid value: [{\"Path\":\"/livez\"}]: enabled should be set to true when conditions are \
           defined",
        ],
    );
}

/// The values of claims are `google.protobuf.Any`. They are dynamic, but a comprehension cannot iterate over them.
#[test]
fn claims_are_checked_as_any() {
    let errors = |expression: &str| {
        let expression = expression.replace('\'', "''");
        let text = format!(
            "jwt: [{{issuer: {{url: 'https://i', audiences: [c]}}, claimMappings: {{username: {{expression: '{expression}'}}}}}}]"
        );
        let errors = validate(&parse(&text).expect("a configuration"), &[], true);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    for expression in [
        "claims.a.b.map(x, x)",
        "dyn(claims.a).map(x, x)",
        "(claims.a + [1]).map(x, x)",
        "claims.map(k, claims[k])",
        "claims.?a.b.orValue([]).map(g, g)",
        "claims.a ? 'x' : claims.b",
        "claims.?a.or(optional.of('x')).value().startsWith('x')",
        "[claims.a, claims.b]",
        "claims.a && claims.b || !claims.c",
        "'x' in claims.a",
        "'%d'.format([dyn(claims.a)])",
    ] {
        assert_eq!(errors(expression), "", "{expression}");
    }
    let no_range = "expression of type 'any' cannot be range of a comprehension (must be list, map, or dynamic)";
    for (expression, at, error) in [
        ("claims.a.map(x, x)", 7, no_range),
        ("claims.?a.orValue([]).all(g, g == 'x')", 18, no_range),
        ("(claims.a == 'x' ? ['a'] : claims.b).map(x, x)", 18, no_range),
        ("[claims.a].map(x, x.map(y, y))", 19, no_range),
        ("[claims.a, 1]", 12, "expected type 'any' but found 'int'"),
        ("[claims.?a, optional.of(1)]", 24, "expected type 'optional_type(any)' but found 'optional_type(int)'"),
        (
            "'%d'.format([claims.a])",
            20,
            "error during formatting: decimal clause can only be used on integers, was given google.protobuf.Any",
        ),
        (
            "'%s'.format([claims.a])",
            20,
            "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, \
             types, durations, and timestamps, was given google.protobuf.Any",
        ),
    ] {
        let found = errors(expression);
        assert!(found.contains(&format!("<input>:1:{at}: {error}")), "{expression}: {found}");
    }
}
