//! `kubectl apply` on the client's side, its dry runs, `kubectl diff`, and what the server says of fields that do not
//! belong.

use crate::client::Kubectl;

const SETTINGS: &str = "
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  a: one
  b: two
";

#[test]
fn apply_says_what_it_did() {
    let k = Kubectl::start();
    k.pipe("apply -f - --dry-run=server", SETTINGS).prints("configmap/settings created (server dry run)");
    k.pipe("apply -f - --dry-run=client", SETTINGS).prints("configmap/settings created (dry run)");
    k.prints("get cm -o name", "");
    k.pipe("apply -f -", SETTINGS).prints("configmap/settings created");
    k.pipe("apply -f -", SETTINGS).prints("configmap/settings unchanged");
    let edited = SETTINGS.replace("a: one", "a: three").replace("  b: two\n", "");
    k.pipe("apply -f - --dry-run=server", &edited).prints("configmap/settings configured (server dry run)");
    k.prints("get cm settings -o jsonpath={.data}", r#"{"a":"one","b":"two"}"#);
    k.pipe("apply -f -", &edited).prints("configmap/settings configured");
    // What left the manifest leaves the object, and what others added stays.
    k.prints("get cm settings -o jsonpath={.data}", r#"{"a":"three"}"#);
    k.works(r#"patch cm settings --type=merge -p '{"data": {"c": "theirs"}}'"#);
    k.pipe("apply -f -", SETTINGS).prints("configmap/settings configured");
    k.prints("get cm settings -o jsonpath={.data}", r#"{"a":"one","b":"two","c":"theirs"}"#);
    k.run("apply view-last-applied cm settings").has_lines("data:\n  a: one\n  b: two");
}

#[test]
fn diff_shows_what_apply_would_do() {
    let k = Kubectl::start();
    let lines = |output: &str| -> Vec<String> {
        output
            .lines()
            .filter(|l| l.starts_with([' ', '+', '-']) && !l.starts_with("+++") && !l.starts_with("---"))
            .map(str::to_owned)
            .collect()
    };
    let new = k.pipe("diff -f -", SETTINGS);
    assert_eq!(new.code, 1, "{}", new.stderr);
    assert!(lines(&new.stdout).contains(&"+  a: one".to_owned()), "{}", new.stdout);
    k.pipe("apply -f -", SETTINGS).works();
    k.pipe("diff -f -", SETTINGS).prints("");
    let changed = k.pipe("diff -f -", &SETTINGS.replace("a: one", "a: three"));
    assert_eq!(changed.code, 1, "{}", changed.stderr);
    let expect =
        [" apiVersion: v1", " data:", "-  a: one", "+  a: three", "   b: two", " kind: ConfigMap", " metadata:"];
    assert_eq!(lines(&changed.stdout), expect);
}

#[test]
fn fields_that_do_not_belong_are_refused_or_warned_of() {
    let k = Kubectl::start();
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a", "image": "b", "bogus": 1}]}}"#;
    let unknown = r#"unknown field "spec.containers[0].bogus""#;
    let strict = format!(
        r#"Error from server (BadRequest): error when creating "STDIN": Pod in version "v1" cannot be handled as a Pod: strict decoding error: {unknown}"#
    );
    k.pipe("create -f -", pod).fails(&strict);
    k.pipe("apply -f -", pod).fails(&strict);
    let warned = k.pipe("create -f - --validate=warn", pod).works();
    assert_eq!(warned.stderr, format!("Warning: {unknown}\n"));
    k.works("delete pod p --now");
    let silent = k.pipe("create -f - --validate=ignore", pod).works();
    assert_eq!(silent.stderr, "");
    k.prints("get pod p -o jsonpath={.spec.containers[0].bogus}", "");
}

#[test]
fn what_is_invalid_is_said_field_by_field() {
    let k = Kubectl::start();
    let pod =
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "P_"}, "spec": {"containers": [{"name": "a"}]}}"#;
    k.pipe("create -f -", pod).fails(
        "The Pod \"P_\" is invalid: \n\
        * metadata.name: Invalid value: \"P_\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
        characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
        validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n\
        * spec.containers[0].image: Required value",
    );
    let number = SETTINGS.replace("a: one", "a: 1");
    k.pipe("create -f -", &number).fails(
        r#"Error from server (BadRequest): error when creating "STDIN": ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string"#,
    );
    let kind = SETTINGS.replace("kind: ConfigMap", "kind: ConfigMop");
    k.pipe("create -f -", &kind).fails(
        "error: resource mapping not found for name: \"settings\" namespace: \"\" from \"STDIN\": no matches for kind \
        \"ConfigMop\" in version \"v1\"\nensure CRDs are installed first",
    );
}
