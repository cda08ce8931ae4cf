//! Decoding, defaults, validation and match conditions of the structured configuration of authorizers, with the content
//! of upstream's tables (`load_test.go`, `validation_test.go`, `cel/compile_test.go`).

use pintle_auth::authorization_config::{AuthorizationConfiguration, MatchConditions, load};
use pintle_value::{FieldPath, Str, Value, object};

/// One path is a file that exists, one is a folder, and all others do not exist.
fn files(path: &str) -> Result<bool, String> {
    match path {
        "/kubeconfig" => Ok(true),
        "/folder" => Ok(false),
        path => Err(format!("stat {path}: no such file or directory")),
    }
}

fn load_text(text: &str) -> Result<AuthorizationConfiguration, String> {
    load(text.as_bytes(), &[], &files)
}

/// A configuration with these authorizers.
fn config(authorizers: &str) -> String {
    format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: {authorizers}")
}

const WEBHOOK: &str = "timeout: 5s, subjectAccessReviewVersion: v1, failurePolicy: Deny, \
     matchConditionSubjectAccessReviewVersion: v1, connectionInfo: {type: KubeConfigFile, kubeConfigFile: /kubeconfig}";

/// The webhook with one member replaced or added.
fn webhook(member: &str, value: &str) -> String {
    let key = format!("{member}: ");
    let members: Vec<_> = WEBHOOK.split(", ").filter(|other| !other.starts_with(&key)).collect();
    let members = if member == "connectionInfo" { &members[..members.len() - 1] } else { &members[..] };
    let added = if value.is_empty() { String::new() } else { format!(", {key}{value}") };
    config(&format!("[{{type: Webhook, name: hook, webhook: {{{}{added}}}}}]", members.join(", ")))
}

#[test]
fn a_configuration_is_decoded_with_defaults() {
    for version in ["v1alpha1", "v1beta1", "v1"] {
        let text = config(&format!(
            "[{{type: Webhook, name: hook, webhook: {{{WEBHOOK}, matchConditions: [{{expression: 'true'}}]}}}}, \
             {{type: Node, name: node}}]"
        ));
        let text = text.replace("k8s.io/v1", &format!("k8s.io/{version}"));
        let found = load_text(&text).expect("a configuration").authorizers;
        assert_eq!(found.iter().map(|authorizer| &*authorizer.name).collect::<Vec<_>>(), ["hook", "node"]);
        let hook = found[0].webhook.clone().expect("a webhook");
        assert_eq!((hook.authorized_ttl.to_string(), hook.unauthorized_ttl.to_string()), ("5m0s".into(), "30s".into()));
        assert_eq!((hook.cache_authorized, hook.cache_unauthorized), (true, true));
        assert_eq!((hook.timeout.to_string(), &*hook.failure_policy), ("5s".into(), "Deny"));
        assert_eq!(
            (hook.kubeconfig_file.as_deref(), hook.match_conditions),
            (Some("/kubeconfig"), vec!["true".into()])
        );
        assert_eq!(found[1].webhook, None);
    }
    let text = webhook("authorizedTTL", "1m, cacheAuthorizedRequests: false, unauthorizedTTL: 0s");
    let hook = load_text(&text).expect("a configuration").authorizers[0].webhook.clone().expect("a webhook");
    assert_eq!((hook.authorized_ttl.to_string(), hook.cache_authorized), ("1m0s".into(), false));
    assert_eq!(hook.unauthorized_ttl.to_string(), "30s");
    let json = r#"{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthorizationConfiguration","authorizers":[{"type":"RBAC","name":"rbac"}]}"#;
    assert_eq!(load_text(json).map(|found| found.authorizers.len()), Ok(1));
}

#[test]
fn a_configuration_that_cannot_be_decoded_is_an_error() {
    let scheme = "in scheme \"k8s.io/apiserver/pkg/apis/apiserver/load/load.go:32\"";
    let other_kind = config("[]").replace("AuthorizationC", "C");
    for (text, expect) in [
        ("{", "couldn't get version/kind; json parse error: unexpected end of JSON input".to_owned()),
        ("a: b", "Object 'Kind' is missing in 'a: b'".to_owned()),
        ("kind: Foo", "Object 'apiVersion' is missing in 'kind: Foo'".to_owned()),
        (
            &*other_kind,
            format!("no kind \"Configuration\" is registered for version \"apiserver.config.k8s.io/v1\" {scheme}"),
        ),
        (
            "kind: AuthorizationConfiguration\napiVersion: apiserver.config.k8s.io/v9",
            format!(
                "no kind \"AuthorizationConfiguration\" is registered for version \"apiserver.config.k8s.io/v9\" {scheme}"
            ),
        ),
        (
            &*config("[{type: RBAC, name: rbac, extra: 1}]"),
            "strict decoding error: unknown field \"authorizers[0].extra\"".to_owned(),
        ),
        (
            &*config("[{type: RBAC, name: rbac, name: rbac}]"),
            "strict decoding error: yaml: unmarshal errors:\n  line 3: key \"name\" already set in map".to_owned(),
        ),
        (
            &*config("{}"),
            "json: cannot unmarshal object into Go struct field AuthorizationConfiguration.authorizers of type \
             []v1.AuthorizerConfiguration"
                .to_owned(),
        ),
    ] {
        let expect = format!("failed to load AuthorizationConfiguration from file: {expect}");
        assert_eq!(load_text(text), Err(expect), "{text}");
    }
}

#[test]
fn a_configuration_is_validated_with_upstreams_messages() {
    let types = r#"supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook""#;
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                     must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation \
                     is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let hook = format!("{{type: Webhook, name: hook, webhook: {{{WEBHOOK}}}}}");
    for (authorizers, expect) in [
        ("[]".to_owned(), "authorizers: Required value: at least one authorization mode must be defined".to_owned()),
        ("[{name: rbac}]".to_owned(), "authorizers[0].type: Required value".to_owned()),
        ("[{type: Foo, name: foo}]".to_owned(), format!("authorizers[0].type: Unsupported value: \"Foo\": {types}")),
        (
            "[{type: RBAC, name: rbac}, {type: RBAC, name: other}]".to_owned(),
            "authorizers[1].type: Duplicate value: \"RBAC\"".to_owned(),
        ),
        ("[{type: RBAC}]".to_owned(), "authorizers[0].name: Required value".to_owned()),
        (format!("[{hook}, {hook}]"), "authorizers[1].name: Duplicate value: \"hook\"".to_owned()),
        (
            hook.replace("name: hook", "name: A!").replace("{type: W", "[{type: W") + "]",
            format!("authorizers[0].name: Invalid value: \"A!\": authorizer name is invalid: {subdomain}"),
        ),
        (
            "[{type: Webhook, name: hook}]".to_owned(),
            "authorizers[0].webhook: Required value: required when type=Webhook".to_owned(),
        ),
        (
            format!("[{}]", hook.replace("Webhook", "RBAC").replace("name: hook", "name: rbac")),
            "authorizers[0].webhook: Invalid value: \"non-null\": may only be specified when type=Webhook".to_owned(),
        ),
        ("[{type: RBAC, name: other}]".to_owned(), "expected name rbac for authorizer RBAC instead of other".to_owned()),
        (
            "[{type: Node, name: a}, {type: ABAC, name: b}]".to_owned(),
            "[expected name node for authorizer Node instead of a, expected name abac for authorizer ABAC instead of b]"
                .to_owned(),
        ),
    ] {
        assert_eq!(load_text(&config(&authorizers)), Err(expect), "{authorizers}");
    }
    let required: Vec<Str> = vec!["RBAC".into(), "Node".into(), "ABAC".into()];
    let found = load(config("[{type: RBAC, name: rbac}]").as_bytes(), &required, &files);
    assert_eq!(found, Err("missing required types: [ABAC Node]".to_owned()));
}

#[test]
fn a_webhook_is_validated_with_upstreams_messages() {
    for (member, value, expect) in [
        ("timeout", "", "timeout: Required value"),
        ("timeout", "31s", "timeout: Invalid value: \"31s\": must be > 0s and <= 30s"),
        ("timeout", "-1s", "timeout: Invalid value: \"-1s\": must be > 0s and <= 30s"),
        ("authorizedTTL", "-5m", "authorizedTTL: Invalid value: \"-5m0s\": must be > 0s"),
        ("unauthorizedTTL", "-1ms", "unauthorizedTTL: Invalid value: \"-1ms\": must be > 0s"),
        ("subjectAccessReviewVersion", "", "subjectAccessReviewVersion: Required value"),
        (
            "subjectAccessReviewVersion",
            "v2",
            "subjectAccessReviewVersion: Unsupported value: \"v2\": supported values: \"v1\", \"v1beta1\"",
        ),
        (
            "matchConditionSubjectAccessReviewVersion",
            "v1beta1",
            "matchConditionSubjectAccessReviewVersion: Unsupported value: \"v1beta1\": supported values: \"v1\"",
        ),
        ("failurePolicy", "", "failurePolicy: Required value"),
        (
            "failurePolicy",
            "Fail",
            "failurePolicy: Unsupported value: \"Fail\": supported values: \"NoOpinion\", \"Deny\"",
        ),
        ("connectionInfo", "", "connectionInfo.type: Required value"),
        (
            "connectionInfo",
            "{type: Magic}",
            "connectionInfo.type: Unsupported value: {\"KubeConfigFile\":null,\"Type\":\"Magic\"}: supported values: \
             \"InClusterConfig\", \"KubeConfigFile\"",
        ),
        (
            "connectionInfo",
            "{type: InClusterConfig, kubeConfigFile: /kubeconfig}",
            "connectionInfo.kubeConfigFile: Invalid value: \"/kubeconfig\": can only be set when type=KubeConfigFile",
        ),
        ("connectionInfo", "{type: KubeConfigFile}", "connectionInfo.kubeConfigFile: Required value"),
        (
            "connectionInfo",
            "{type: KubeConfigFile, kubeConfigFile: a}",
            "connectionInfo.kubeConfigFile: Invalid value: \"a\": must be an absolute path",
        ),
        (
            "connectionInfo",
            "{type: KubeConfigFile, kubeConfigFile: /a}",
            "connectionInfo.kubeConfigFile: Invalid value: \"/a\": error loading file: stat /a: no such file or directory",
        ),
        (
            "connectionInfo",
            "{type: KubeConfigFile, kubeConfigFile: /folder}",
            "connectionInfo.kubeConfigFile: Invalid value: \"/folder\": must be a regular file",
        ),
        ("matchConditions", "[{expression: ' '}]", "matchConditions[0].expression: Required value"),
        (
            "matchConditions",
            "[{expression: 'true'}, {expression: 'true'}]",
            "matchConditions[1].expression: Duplicate value: \"true\"",
        ),
        (
            "matchConditions",
            "[{expression: request.user}]",
            "matchConditions[0].expression: Invalid value: \"request.user\": must evaluate to bool but got string",
        ),
        (
            "matchConditions",
            "[{expression: request.foo == 1}]",
            "matchConditions[0].expression: Invalid value: \"request.foo == 1\": compilation failed: ERROR: \
             <input>:1:8: undefined field 'foo'\n | request.foo == 1\n | .......^",
        ),
    ] {
        assert_eq!(load_text(&webhook(member, value)), Err(format!("authorizers[0].{expect}")), "{member}: {value}");
    }
    let text = webhook("matchConditions", "[{expression: 'true'}]")
        .replace("matchConditionSubjectAccessReviewVersion: v1, ", "");
    let expect = "authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are \
                  specified";
    assert_eq!(load_text(&text), Err(expect.to_owned()));
    let many = vec!["{expression: 'true'}"; 65].join(",");
    assert_eq!(
        load_text(&webhook("matchConditions", &format!("[{many}]"))),
        Err("authorizers[0].matchConditions: Too many: 65: must have at most 64 items".to_owned())
    );
    assert!(load_text(&webhook("connectionInfo", "{type: InClusterConfig}")).is_ok());
}

#[test]
fn match_conditions_select_requests() {
    let list = object! {
        "user": "jane",
        "groups": Value::Array(vec!["dev".into()]),
        "extra": object! {"k": Value::Array(vec!["v".into()])},
        "resourceAttributes": object! {
            "verb": "list",
            "resource": "pods",
            "fieldSelector": object! {"requirements": Value::Array(vec![object! {
                "key": "spec.nodeName", "operator": "In", "values": Value::Array(vec!["n0".into()]),
            }])},
        },
    };
    let path = object! {"nonResourceAttributes": object! {"path": "/healthz", "verb": "get"}};
    let missing = "cel evaluation error: expression 'request.resourceAttributes.verb == \"get\"' resulted in error: no such \
                   key: resourceAttributes";
    for (spec, conditions, expect) in [
        (&list, &["request.user == 'jane'", "'dev' in request.groups"][..], Ok(true)),
        (&list, &["request.user == 'joe'"], Ok(false)),
        (&list, &["request.uid == '' && request.extra['k'] == ['v']"], Ok(true)),
        (&list, &["request.resourceAttributes.namespace == ''", "!has(request.nonResourceAttributes)"], Ok(true)),
        (
            &list,
            &[
                "request.resourceAttributes.fieldSelector.requirements.exists(r, r.key == 'spec.nodeName' && r.values == ['n0'])",
            ],
            Ok(true),
        ),
        (&list, &["has(request.resourceAttributes.labelSelector)"], Ok(false)),
        (&path, &["has(request.resourceAttributes)"], Ok(false)),
        (&path, &["request.nonResourceAttributes.path.startsWith('/health')", "request.user == ''"], Ok(true)),
        (&path, &["request.resourceAttributes.verb == \"get\""], Err(missing)),
        (&path, &["request.resourceAttributes.verb == \"get\"", "false"], Ok(false)),
        (&path, &[], Ok(true)),
    ] {
        let expressions: Vec<Str> = conditions.iter().map(|text| Str::from(*text)).collect();
        let (compiled, errors) = MatchConditions::compile(&FieldPath::new("w"), &expressions);
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(compiled.is_empty(), conditions.is_empty());
        let found = compiled.matches(spec).map_err(|error| error.to_string());
        assert_eq!(found, expect.map_err(str::to_owned), "{conditions:?}");
    }
}
