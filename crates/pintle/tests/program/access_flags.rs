//! The program checks the flags of authentication, authorization, admission and audit, with kube-apiserver's messages.

use std::process::Command;

use super::PROGRAM;

/// The error of the program for these flags. `$DIR` in a flag is a folder with four files. File `w` is a broken
/// kubeconfig, `p` is a broken policy file, and `u` is an audit policy. File `a` is an admission configuration that names
/// a missing file.
fn error(flags: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, content: &str| std::fs::write(folder.path().join(name), content).expect("a file");
    write("w", "");
    write("p", "{\"user\": 1}\n");
    write("u", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n");
    let plugin = "{name: PodNodeSelector, path: gone.yaml}";
    write("a", &format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: [{plugin}]\n"));
    let flags = flags.replace("$DIR", &folder.path().to_string_lossy());
    let mut command = Command::new(PROGRAM);
    command.arg("serve").args(flags.split(' ')).arg("--data-dir").arg(folder.path().join("data"));
    command.args(["--storage-backend", "memory", "--secure-port", "0"]);
    let output = command.output().expect("the program runs");
    assert!(!output.status.success(), "{flags}");
    String::from_utf8_lossy(&output.stderr).replace(&*folder.path().to_string_lossy(), "$DIR")
}

#[test]
fn wrong_flags_of_admission_end_the_program_with_upstreams_messages() {
    let read = "failed to read plugin config: ";
    for (flags, expect) in [
        ("--enable-admission-plugins Magic", "enable-admission-plugins plugin \"Magic\" is unknown"),
        (
            "--enable-admission-plugins Priority --disable-admission-plugins Priority",
            "Priority in enable-admission-plugins and disable-admission-plugins overlapped",
        ),
        (
            "--enable-admission-plugins EventRateLimit",
            "couldn't init admission plugin \"EventRateLimit\": limits: Invalid value: null: must not be empty",
        ),
        (
            "--admission-control-config-file $DIR/c",
            &format!(
                "{read}unable to read admission control configuration from \"$DIR/c\" [open $DIR/c: no such file or \
                 directory]"
            ),
        ),
        ("--admission-control-config-file $DIR/p", &format!("{read}Object 'Kind' is missing in '{{\"user\": 1}}\n'")),
        (
            "--admission-control-config-file $DIR/a",
            "Couldn't open admission plugin configuration $DIR/gone.yaml: open $DIR/gone.yaml: no such file or directory",
        ),
    ] {
        let found = error(flags);
        assert!(found.contains(expect), "{flags}: {found}");
    }
}

#[test]
fn the_help_lists_the_plugins_as_upstream_does() {
    let output = Command::new(PROGRAM).args(["serve", "--help"]).output();
    let help = String::from_utf8(output.expect("the program runs").stdout).expect("a text");
    let help: String = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let enabled = "Admission plugins that should be enabled in addition to default enabled ones (NamespaceLifecycle, ";
    let listed = "Comma-delimited list of admission plugins: AlwaysAdmit, AlwaysDeny, AlwaysPullImages, ";
    for text in [enabled, listed, "The order of plugins in this flag does not matter"] {
        assert!(help.contains(text), "{text:?} is not in {help}");
    }
}

#[test]
fn wrong_flags_of_authorization_end_the_program_with_upstreams_messages() {
    let conflict = "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* \
                    flags are defined";
    let type_error = "json: cannot unmarshal number into Go struct field Policy.user of type string";
    for (flags, expect) in [
        ("--authorization-mode Magic", "authorization-mode \"Magic\" is not a valid mode"),
        ("--authorization-mode RBAC,RBAC", "authorization-mode [\"RBAC\" \"RBAC\"] has mode specified more than once"),
        ("--authorization-mode ABAC", "authorization-mode ABAC's authorization policy file not passed"),
        ("--authorization-mode Webhook", "authorization-mode Webhook's authorization config file not passed"),
        (
            "--authorization-policy-file $DIR/p --authorization-webhook-config-file $DIR/w",
            "[cannot specify --authorization-policy-file without mode ABAC, cannot specify \
             --authorization-webhook-config-file without mode Webhook]",
        ),
        ("--authorization-config $DIR/c --authorization-mode RBAC", conflict),
        ("--authorization-config $DIR/c --authorization-webhook-version v1", conflict),
        ("--authorization-config $DIR/c", "open $DIR/c: no such file or directory"),
        (
            "--authorization-config $DIR/w",
            "authorizers: Required value: at least one authorization mode must be defined",
        ),
        (
            "--authorization-mode ABAC --authorization-policy-file $DIR/p",
            &format!("error reading policy file $DIR/p, line 1: {{\"user\": 1}}: {type_error}"),
        ),
        (
            "--authorization-mode Webhook --authorization-webhook-config-file $DIR/w",
            "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable",
        ),
        (
            "--authorization-mode Webhook --authorization-webhook-config-file $DIR/w --authorization-webhook-version v2",
            "unsupported webhook authorizer version \"v2\", supported versions are \"v1\", \"v1beta1\"",
        ),
    ] {
        let found = error(flags);
        assert!(found.contains(expect), "{flags}: {found}");
    }
}

#[test]
fn wrong_flags_of_authentication_end_the_program_with_upstreams_messages() {
    let together = "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set";
    let invalid = "invalid authentication configuration: jwt[0].issuer.url: Invalid value: \"http://i\": URL scheme must be \
                   https";
    let issuer = "--oidc-issuer-url https://i --oidc-client-id c";
    for (flags, expect) in [
        ("--oidc-issuer-url https://i", together),
        ("--oidc-groups-claim g", together),
        ("--oidc-required-claim a=b", together),
        ("--oidc-issuer-url http://i --oidc-client-id c", invalid),
        (&format!("{issuer} --oidc-signing-algs RS256,HS256"), "oidc: unsupported signing alg: \"HS256\""),
        (&format!("{issuer} --oidc-ca-file $DIR/c"), "open $DIR/c: no such file or directory"),
        (&format!("{issuer} --oidc-required-claim a"), "malformed pair, expect string=string"),
        (
            &format!("{issuer} --authentication-config $DIR/w"),
            "authentication-config file and oidc-* flags are mutually exclusive",
        ),
        (
            "--authentication-config $DIR/w",
            "failed to load authentication configuration from file \"$DIR/w\": empty config data",
        ),
        (
            "--authentication-token-webhook-config-file $DIR/w",
            "invalid configuration: no configuration has been provided",
        ),
        ("--authentication-token-webhook-cache-ttl x", "--authentication-token-webhook-cache-ttl"),
    ] {
        let found = error(flags);
        assert!(found.contains(expect), "{flags}: {found}");
    }
}

#[test]
fn wrong_flags_of_audit_end_the_program_with_upstreams_messages() {
    let mode = "invalid audit log mode x, allowed modes are \"batch,blocking,blocking-strict\"";
    let size = "--audit-log-maxsize -1 can't be a negative number";
    let policy = "--audit-policy-file $DIR/u";
    for (flags, expect) in [
        ("--audit-log-path $DIR/l --audit-log-mode x", mode),
        ("--audit-log-path $DIR/l --audit-log-mode x --audit-log-maxsize -1", &format!("[{mode}, {size}]")),
        (
            "--audit-webhook-config-file $DIR/w --audit-webhook-version v2",
            "invalid group version, allowed versions are [\"audit.k8s.io/v1\"]",
        ),
        ("--audit-webhook-version a/b/c", "unexpected GroupVersion string: a/b/c"),
        (
            "--audit-policy-file $DIR/c",
            "loading audit policy file: failed to read file path \"$DIR/c\": open $DIR/c: no such file or directory",
        ),
        (
            "--audit-policy-file $DIR/p",
            "loading audit policy file: unknown group version field audit.k8s.io/__internal, Kind=Policy in policy: from file $DIR/p",
        ),
        (&format!("{policy} --audit-log-path $DIR/p/l"), "ensureLogFile: mkdir $DIR/p: not a directory"),
        (
            &format!("{policy} --audit-webhook-config-file $DIR/w"),
            "initializing audit webhook: invalid configuration: no configuration has been provided",
        ),
    ] {
        let found = error(flags);
        assert!(found.contains(expect), "{flags}: {found}");
    }
}
