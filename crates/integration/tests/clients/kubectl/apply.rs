//! Client-side `kubectl apply`, its dry runs, `kubectl diff`, and field validation.

use super::client::Kubectl;

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
fn apply_creates_configures_or_leaves_unchanged() {
    let k = Kubectl::start();
    k.run_with_stdin("apply -f - --dry-run=server", SETTINGS).prints("configmap/settings created (server dry run)");
    k.run_with_stdin("apply -f - --dry-run=client", SETTINGS).prints("configmap/settings created (dry run)");
    k.prints("get cm -o name", "");
    k.run_with_stdin("apply -f -", SETTINGS).prints("configmap/settings created");
    k.run_with_stdin("apply -f -", SETTINGS).prints("configmap/settings unchanged");
    let edited = SETTINGS.replace("a: one", "a: three").replace("  b: two\n", "");
    k.run_with_stdin("apply -f - --dry-run=server", &edited).prints("configmap/settings configured (server dry run)");
    k.prints("get cm settings -o jsonpath={.data}", r#"{"a":"one","b":"two"}"#);
    k.run_with_stdin("apply -f -", &edited).prints("configmap/settings configured");
    // Fields removed from the manifest are removed from the object. Fields of other clients stay.
    k.prints("get cm settings -o jsonpath={.data}", r#"{"a":"three"}"#);
    k.succeeds(r#"patch cm settings --type=merge -p '{"data": {"c": "theirs"}}'"#);
    k.run_with_stdin("apply -f -", SETTINGS).prints("configmap/settings configured");
    k.prints("get cm settings -o jsonpath={.data}", r#"{"a":"one","b":"two","c":"theirs"}"#);
    k.run("apply view-last-applied cm settings").has_lines("data:\n  a: one\n  b: two");
}

#[test]
fn diff_shows_the_changes_of_apply() {
    let k = Kubectl::start();
    let lines = |output: &str| -> Vec<String> {
        output
            .lines()
            .filter(|l| l.starts_with([' ', '+', '-']) && !l.starts_with("+++") && !l.starts_with("---"))
            .map(str::to_owned)
            .collect()
    };
    let new = k.run_with_stdin("diff -f -", SETTINGS);
    assert_eq!(new.code, 1, "{}", new.stderr);
    assert!(lines(&new.stdout).contains(&"+  a: one".to_owned()), "{}", new.stdout);
    k.run_with_stdin("apply -f -", SETTINGS).succeeds();
    k.run_with_stdin("diff -f -", SETTINGS).prints("");
    let changed = k.run_with_stdin("diff -f -", &SETTINGS.replace("a: one", "a: three"));
    assert_eq!(changed.code, 1, "{}", changed.stderr);
    let expect =
        [" apiVersion: v1", " data:", "-  a: one", "+  a: three", "   b: two", " kind: ConfigMap", " metadata:"];
    assert_eq!(lines(&changed.stdout), expect);
}

#[test]
fn unknown_fields_are_errors_or_warnings() {
    let k = Kubectl::start();
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a", "image": "b", "bogus": 1}]}}"#;
    let unknown = r#"unknown field "spec.containers[0].bogus""#;
    let strict = format!(
        r#"Error from server (BadRequest): error when creating "STDIN": Pod in version "v1" cannot be handled as a Pod: strict decoding error: {unknown}"#
    );
    k.run_with_stdin("create -f -", pod).fails(&strict);
    k.run_with_stdin("apply -f -", pod).fails(&strict);
    let warned = k.run_with_stdin("create -f - --validate=warn", pod).succeeds();
    assert_eq!(warned.stderr, format!("Warning: {unknown}\n"));
    k.succeeds("delete pod p --now");
    let silent = k.run_with_stdin("create -f - --validate=ignore", pod).succeeds();
    assert_eq!(silent.stderr, "");
    k.prints("get pod p -o jsonpath={.spec.containers[0].bogus}", "");
}

#[test]
fn validation_errors_name_each_field() {
    let k = Kubectl::start();
    let pod =
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "P_"}, "spec": {"containers": [{"name": "a"}]}}"#;
    k.run_with_stdin("create -f -", pod).fails(
        "The Pod \"P_\" is invalid: \n\
        * metadata.name: Invalid value: \"P_\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
        characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
        validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n\
        * spec.containers[0].image: Required value",
    );
    let number = SETTINGS.replace("a: one", "a: 1");
    k.run_with_stdin("create -f -", &number).fails(
        r#"Error from server (BadRequest): error when creating "STDIN": ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string"#,
    );
    let kind = SETTINGS.replace("kind: ConfigMap", "kind: ConfigMop");
    k.run_with_stdin("create -f -", &kind).fails(
        "error: resource mapping not found for name: \"settings\" namespace: \"\" from \"STDIN\": no matches for kind \
        \"ConfigMop\" in version \"v1\"\nensure CRDs are installed first",
    );
}
