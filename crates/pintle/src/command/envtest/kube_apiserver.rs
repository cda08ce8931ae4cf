//! The program `kube-apiserver` of a test environment: a server with kube-apiserver's flags and defaults. The program
//! `etcd` of the environment names its store, or it uses a real etcd. As with the original, no controllers of a
//! controller manager run, unless the variable `PINTLE_CONTROLLERS` is `auto`.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use pintle::certificates::{Certificates, write_private};
use pintle::{CertificateFiles, Durability, Engine, Options, StoreFolder};
use pintle_admission::AdmissionConfiguration;
use pintle_codec::json::DecodeOptions;
use pintle_outbound::{CallLimits, Client, ClientConfig, Dialer, ErrorCause, RequestError, ServerTrust};
use pintle_server::EgressType;
use pintle_value::Value;
use pintle_value::print::quote;
use pintle_versions::{EffectiveVersion, Minor};
use time::OffsetDateTime;

use super::etcd::STORE_PATH;
use super::flags::{FlagTable, FlagValues};
use crate::command::serve::{CommandError, Serve, run_until_signal};

/// The variable that enables the controllers on which the API relies.
const CONTROLLERS_VARIABLE: &str = "PINTLE_CONTROLLERS";
/// How long the server waits until etcd listens.
const ETCD_WAIT: Duration = Duration::from_secs(3);
/// The interval between attempts to connect to it.
const ETCD_RETRY_INTERVAL: Duration = Duration::from_millis(10);
const CALL_LIMITS: CallLimits = CallLimits { timeout: Duration::from_secs(5), max_body_bytes: 1 << 16 };

const AUTHORIZATION_MODE: &str = "authorization-mode";
const STORAGE_BACKEND: &str = "storage-backend";
const ETCD_PREFIX: &str = "etcd-prefix";
const ETCD_OVERRIDES: &str = "etcd-servers-overrides";
/// The default of `--etcd-prefix`.
const DEFAULT_ETCD_PREFIX: &str = "/registry";

/// Flags that are not passed on to `pintle serve`.
const OWN_FLAGS: [&str; 5] = ["etcd-servers", STORAGE_BACKEND, "cert-dir", "help", "version"];

/// Defaults of kube-apiserver that differ from the defaults of `pintle serve`.
const DEFAULTS: [(&str, &str); 3] =
    [("bind-address", "0.0.0.0"), (AUTHORIZATION_MODE, "AlwaysAllow"), ("allow-privileged", "false")];

/// The plugin that kube-apiserver does not enable by default, but `pintle serve` does.
const NODE_RESTRICTION_PLUGIN: &str = "NodeRestriction";
/// The plugin that a server without controllers disables, unless it is named.
const SERVICE_ACCOUNT_PLUGIN: &str = "ServiceAccount";

/// Runs the program, which was called by a path, with the arguments after its name.
pub(crate) fn run(program: &Path, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let version = match super::version_of(program) {
        Ok(version) => version,
        Err(error) => return fail(&error),
    };
    let table = table(version);
    let flags = match table.parse(super::KUBE_APISERVER, arguments) {
        Ok(flags) => flags,
        Err(error) => return fail(&error),
    };
    let printed = if flags.is_set("help") {
        help(&table)
    } else if flags.value("version") == Some("raw") {
        raw_version(&pintle_server::version(EffectiveVersion::of(version)))
    } else if flags.is_set("version") {
        format!("Kubernetes {}\n", pintle_server::version(EffectiveVersion::of(version)).str_at(&["gitVersion"]))
    } else {
        return match start(&table, &flags) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error),
        };
    };
    match std::io::stdout().write_all(printed.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "Error: {error}");
    ExitCode::FAILURE
}

/// The flags of kube-apiserver in a version.
pub(super) fn table(version: Minor) -> FlagTable {
    FlagTable::from_tsv(include_str!("kube-apiserver-flags.tsv"), version)
}

/// The version with all its parts, as Go prints a struct.
fn raw_version(version: &Value) -> String {
    let fields = [
        "major",
        "minor",
        "emulationMajor",
        "emulationMinor",
        "minCompatibilityMajor",
        "minCompatibilityMinor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ];
    let fields = fields.map(|field| {
        let (first, rest) = field.split_at(1);
        format!("{}{rest}:{}", first.to_ascii_uppercase(), quote(version.str_at(&[field])))
    });
    format!("version.Info{{{}}}\n", fields.join(", "))
}

fn help(table: &FlagTable) -> String {
    format!(
        "The Kubernetes API server of Pintle, with the flags of kube-apiserver.\n\n\
         Usage:\n  kube-apiserver [flags]\n{}",
        table.help()
    )
}

/// Starts the server that the flags describe, and runs it until a signal ends it.
fn start(table: &FlagTable, flags: &FlagValues) -> Result<(), CommandError> {
    check_authorization(flags)?;
    check_service_accounts(flags)?;
    check_storage_backend(flags)?;
    let mut arguments = flags.to_arguments(&OWN_FLAGS);
    let missing = DEFAULTS.iter().filter(|(name, _)| flags.value(name).is_none());
    arguments.extend(
        missing.filter(|(name, _)| is_default_wanted(flags, name)).map(|(name, value)| format!("--{name}={value}")),
    );
    arguments.push(format!("--kubernetes-version={}", table.version));
    let serve = Serve::parse_flags(arguments).map_err(|error| message(&error.to_string()))?;
    serve.start_logging();
    for (flag, why) in &flags.ignored {
        tracing::warn!(target: "pintle::start", flag, why, "Flag has no effect in this server");
    }
    let controllers = controllers(std::env::var_os(CONTROLLERS_VARIABLE))?;
    let servers = flags.list("etcd-servers");
    let etcd = serve.etcd_of(servers.clone())?;
    let mut options = serve.options()?;
    let engine = match find_stand_in(&servers, options.egress.dialer(EgressType::Etcd))? {
        None => Engine::Etcd(etcd),
        Some(store) => {
            check_stand_in(flags)?;
            Engine::EmbeddedIn(store)
        }
    };
    let files = match options.tls.certificate.take() {
        Some(files) => files,
        None => certificate_in(Path::new(flags.value("cert-dir").unwrap_or("/var/run/kubernetes")), &options)?,
    };
    // Clients in the cluster trust the certificates that the server presents: no other file may have its authority.
    let read = std::fs::read_to_string(&files.certificate);
    options.root_ca = Some(read.map_err(|error| format!("{}: {error}", files.certificate.display()))?);
    options.tls.certificate = Some(files);
    options.controllers = controllers;
    options.admission = with_upstream_defaults(options.admission);
    options.flags = Some(table.effective(flags));
    // The server writes no other files.
    run_until_signal(Options { data_dir: None, engine, ..options }, |_| Ok(()))
}

/// Whether to use kube-apiserver's default of a flag. With a configuration file of authorizers, `--authorization-mode`
/// has no default.
fn is_default_wanted(flags: &FlagValues, name: &str) -> bool {
    name != AUTHORIZATION_MODE || flags.value("authorization-config").is_none()
}

/// An error of the command line on one line, without the usage text.
fn message(error: &str) -> String {
    let lines =
        error.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let text = lines.join(" ");
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}

/// Refuses an empty list of authorizers, which would otherwise get the default and allow everything.
fn check_authorization(flags: &FlagValues) -> Result<(), String> {
    if flags.is_given(AUTHORIZATION_MODE) && flags.value(AUTHORIZATION_MODE).is_none() {
        return Err("at least one authorization-mode must be passed".to_owned());
    }
    Ok(())
}

/// Checks that tokens of service accounts can be issued (upstream: `validateTokenRequest`, and the authenticators'
/// `Validate`).
fn check_service_accounts(flags: &FlagValues) -> Result<(), String> {
    let has_value = |name: &str| flags.value(name).is_some_and(|value| !value.is_empty());
    let (issuer, key) = (has_value("service-account-issuer"), has_value("service-account-signing-key-file"));
    let mut errors = Vec::new();
    if !issuer {
        errors.push("service-account-issuer is a required flag");
    }
    if !issuer && !key && !has_value("api-audiences") {
        errors.push("--service-account-signing-key-file and --service-account-issuer are required flags");
    } else if !(issuer && key) {
        errors.push(
            "--service-account-signing-key-file, --service-account-issuer, and --api-audiences should be specified together",
        );
    }
    match errors.as_slice() {
        [] => Ok(()),
        [error] => Err((*error).to_owned()),
        errors => Err(format!("[{}]", errors.join(", "))),
    }
}

/// Whether the controllers on which the API relies run, for a value of `PINTLE_CONTROLLERS`.
fn controllers(value: Option<OsString>) -> Result<bool, String> {
    match value.as_deref().map(|value| value.to_str()) {
        None | Some(Some("" | "never")) => Ok(false),
        Some(Some("auto")) => Ok(true),
        Some(_) => Err(format!("{CONTROLLERS_VARIABLE} must be auto or never")),
    }
}

/// The serving certificate in a directory. It is created there if there is none (upstream:
/// `MaybeDefaultWithSelfSignedCerts`).
fn certificate_in(directory: &Path, options: &Options) -> Result<CertificateFiles, CommandError> {
    let files = CertificateFiles { certificate: directory.join("apiserver.crt"), key: directory.join("apiserver.key") };
    match (files.certificate.try_exists()?, files.key.try_exists()?) {
        (true, true) => return Ok(files),
        (false, false) => {}
        (has_certificate, _) => {
            let missing = if has_certificate { &files.key } else { &files.certificate };
            let missing = missing.display();
            return Err(format!("error reading {missing}, certificate and key must be supplied as a pair").into());
        }
    }
    let addresses = options.advertise_address.into_iter().chain(options.services.kubernetes_address());
    let mut names = vec![gethostname::gethostname().to_string_lossy().to_lowercase()];
    names.extend(addresses.map(|address| address.to_string()));
    let generated = Certificates::generate(&names, OffsetDateTime::now_utc())?;
    std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    write_private(&files.key, &generated.serving.key)?;
    // The authority is at the end of the chain, so that clients can trust the file.
    let chain = generated.serving.certificate + &generated.authority.certificate;
    std::fs::write(&files.certificate, chain).map_err(|error| format!("{}: {error}", files.certificate.display()))?;
    Ok(files)
}

/// Enables and disables plugins as kube-apiserver does by default.
fn with_upstream_defaults(mut admission: AdmissionConfiguration) -> AdmissionConfiguration {
    let is_named = |names: &[String], plugin: &str| names.iter().any(|name| name == plugin);
    if !is_named(&admission.enabled, NODE_RESTRICTION_PLUGIN) && !is_named(&admission.disabled, NODE_RESTRICTION_PLUGIN)
    {
        admission.disabled.push(NODE_RESTRICTION_PLUGIN.to_owned());
    }
    if !is_named(&admission.enabled, SERVICE_ACCOUNT_PLUGIN) && !is_named(&admission.disabled, SERVICE_ACCOUNT_PLUGIN) {
        admission.enabled.push(SERVICE_ACCOUNT_PLUGIN.to_owned());
    }
    admission
}

/// Checks the storage backend (upstream: `EtcdOptions.Validate`).
fn check_storage_backend(flags: &FlagValues) -> Result<(), String> {
    match flags.value(STORAGE_BACKEND) {
        None | Some("" | "etcd3") => Ok(()),
        Some(_) => {
            let error =
                "--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'";
            Err(error.to_owned())
        }
    }
}

/// Checks that the store of the program `etcd` can hold all objects. Servers with different prefixes would share the
/// objects of this store, so another prefix is refused.
fn check_stand_in(flags: &FlagValues) -> Result<(), String> {
    if flags.is_given(ETCD_OVERRIDES) {
        return Err(format!("--{ETCD_OVERRIDES}: the etcd of 'pintle envtest' has all objects"));
    }
    match flags.value(ETCD_PREFIX) {
        None | Some(DEFAULT_ETCD_PREFIX) => Ok(()),
        Some(prefix) => Err(format!(
            "--{ETCD_PREFIX}={prefix}: the etcd of 'pintle envtest' has no prefixes, so servers with different ones would \
             share objects"
        )),
    }
}

/// Asks the program `etcd` where its store is. `None` if the servers belong to a real etcd: only a real etcd has
/// several servers or serves HTTPS.
fn find_stand_in(servers: &[String], dialer: Dialer) -> Result<Option<StoreFolder>, String> {
    let [server] = servers else { return Ok(None) };
    if !server.starts_with("http://") {
        return Ok(None);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let answer = runtime.map_err(|error| error.to_string())?.block_on(ask(server, dialer));
    let answer = answer.map_err(|error| format!("--etcd-servers={server}: {error}"))?;
    Ok(store_of(&answer))
}

/// The store that the program `etcd` names. `None` if another program answers.
fn store_of(answer: &Value) -> Option<StoreFolder> {
    let path = Some(answer.str_at(&["directory"])).filter(|directory| !directory.is_empty())?;
    let durability = if answer.bool_at(&["unsynced"]) { Durability::Unsynced } else { Durability::Synced };
    Some(StoreFolder { path: path.into(), durability })
}

/// The answer of an etcd server. `Null` if it does not know the path, like the real etcd.
async fn ask(server: &str, dialer: Dialer) -> Result<Value, String> {
    let url = format!("{}{STORE_PATH}", server.trim_end_matches('/'));
    // The scheme is HTTP, so there is no certificate to verify, and the system's authorities need not be read.
    let server_trust = ServerTrust::InsecureSkipVerify;
    let client = Client::new(&ClientConfig { server_trust, dialer, ..ClientConfig::default() });
    let client = client.map_err(|error| error.to_string())?;
    let give_up = Instant::now() + ETCD_WAIT;
    loop {
        let request = Request::get(&url).body(Bytes::new()).map_err(|error| error.to_string())?;
        match client.send(request, CALL_LIMITS).await {
            Ok(response) if response.status().is_success() => {
                let decoded = pintle_codec::json::decode(&response.body().bytes, DecodeOptions::default());
                return Ok(decoded.map_or(Value::Null, |decoded| decoded.value));
            }
            Ok(_) => return Ok(Value::Null),
            Err(RequestError { cause: ErrorCause::Dial { .. }, .. }) if Instant::now() < give_up => {
                tokio::time::sleep(ETCD_RETRY_INTERVAL).await;
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(command_line: &[&str]) -> FlagValues {
        table(Minor::DEFAULT).parse("kube-apiserver", command_line.iter().map(OsString::from)).expect("flags")
    }

    #[test]
    fn every_line_of_the_flags_is_read() {
        let lines = include_str!("kube-apiserver-flags.tsv").lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(table(Minor::DEFAULT).len(), lines);
    }

    #[test]
    fn the_document_lists_all_flags() {
        let document = include_str!("../../../../../docs/flags.md");
        let (_, tables) = document.split_once("\n## ").expect("a section");
        assert_eq!(format!("\n## {tables}"), table(Minor::DEFAULT).markdown());
    }

    #[test]
    fn help_lists_flags_as_envtest_looks_for_them() {
        let lists = |flag: &str| {
            help(&table(Minor::DEFAULT)).lines().any(|line| line.trim_start().starts_with(&format!("--{flag} ")))
        };
        assert!(lists("secure-port"));
        assert!(!lists("insecure-port"));
    }

    #[test]
    fn the_raw_version_has_all_fields() {
        let version = pintle_server::version(EffectiveVersion::default());
        let raw = raw_version(&version);
        assert!(raw.starts_with("version.Info{Major:\"1\", Minor:\"36\", EmulationMajor:\"1\", "), "{raw}");
        assert!(raw.ends_with("Compiler:\"rustc\", Platform:\"linux/amd64\"}\n"), "{raw}");
        assert_eq!(raw.matches(":\"").count(), version.as_object().expect("an object").len());
    }

    #[test]
    fn every_honoured_flag_is_one_of_serve() {
        let serve: Vec<String> = Serve::flag_names();
        let known = |name: &str| OWN_FLAGS.contains(&name) || serve.iter().any(|flag| flag == name);
        let unknown: Vec<_> = table(Minor::DEFAULT).honoured().filter(|name| !known(name)).map(str::to_owned).collect();
        assert_eq!(unknown, Vec::<String>::new());
    }

    #[test]
    fn a_list_of_authorizers_has_to_have_one() {
        assert_eq!(check_authorization(&parse(&["--authorization-mode=RBAC", "--authorization-mode="])), Ok(()));
        assert_eq!(check_authorization(&parse(&[])), Ok(()));
        let error = check_authorization(&parse(&["--authorization-mode="])).unwrap_err();
        assert_eq!(error, "at least one authorization-mode must be passed");
    }

    #[test]
    fn tokens_need_an_issuer_and_a_key() {
        let check = |command_line: &[&str]| check_service_accounts(&parse(command_line));
        assert_eq!(check(&["--service-account-issuer=i", "--service-account-signing-key-file=k"]), Ok(()));
        let required = "--service-account-signing-key-file and --service-account-issuer are required flags";
        assert_eq!(check(&[]).unwrap_err(), format!("[service-account-issuer is a required flag, {required}]"));
        let together = "--service-account-signing-key-file, --service-account-issuer, and --api-audiences should be specified together";
        assert_eq!(check(&["--service-account-issuer=i"]).unwrap_err(), together);
    }

    #[test]
    fn plugins_are_those_of_kube_apiserver() {
        let changed = with_upstream_defaults(AdmissionConfiguration::default());
        assert_eq!(
            (changed.enabled, changed.disabled),
            (vec!["ServiceAccount".to_owned()], vec!["NodeRestriction".to_owned()])
        );
        let named = AdmissionConfiguration {
            enabled: vec!["NodeRestriction".to_owned()],
            disabled: vec!["ServiceAccount".to_owned()],
            ..AdmissionConfiguration::default()
        };
        let unchanged = with_upstream_defaults(named.clone());
        assert_eq!((unchanged.enabled, unchanged.disabled), (named.enabled, named.disabled));
    }

    #[test]
    fn a_missing_serving_certificate_is_created_and_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options { advertise_address: Some([10, 9, 8, 7].into()), ..Options::default() };
        let certificate = || certificate_in(&folder.path().join("a"), &options);
        let files = certificate().expect("a certificate");
        let created = std::fs::read(&files.certificate).expect("the file");
        assert_eq!(certificate().expect("the certificate"), files);
        assert_eq!(std::fs::read(&files.certificate).expect("the file"), created);
        std::fs::remove_file(&files.key).expect("the file");
        let error = certificate().expect_err("half a pair").to_string();
        assert!(error.ends_with("apiserver.key, certificate and key must be supplied as a pair"), "{error}");
        assert_eq!(std::fs::read(&files.certificate).expect("the file"), created);
    }

    #[test]
    fn the_store_is_the_one_that_etcd_names() {
        let store = |text: &str| {
            let decoded = pintle_codec::json::decode(text.as_bytes(), DecodeOptions::default());
            store_of(&decoded.expect("JSON").value)
        };
        let in_directory = |durability| Some(StoreFolder { path: "/d".into(), durability });
        assert_eq!(store(r#"{"directory":"/d","unsynced":true}"#), in_directory(Durability::Unsynced));
        assert_eq!(store(r#"{"directory":"/d","unsynced":false}"#), in_directory(Durability::Synced));
        assert_eq!(store(r#"{"directory":"/d"}"#), in_directory(Durability::Synced));
        assert_eq!(store(r#"{"etcdserver":"3.6.5"}"#), None);
        for servers in [&["https://127.0.0.1:2379"][..], &["http://127.0.0.1:1", "http://127.0.0.1:2"]] {
            let servers: Vec<String> = servers.iter().map(|server| (*server).to_owned()).collect();
            assert_eq!(find_stand_in(&servers, Dialer::Direct), Ok(None));
        }
    }

    #[test]
    fn storage_is_etcd3() {
        for (value, is_valid) in [("", true), ("etcd3", true), ("embedded", false), ("memory", false)] {
            let checked = check_storage_backend(&parse(&[&format!("--storage-backend={value}")]));
            assert_eq!(checked.is_ok(), is_valid, "{value}");
        }
        assert_eq!(check_stand_in(&parse(&["--etcd-prefix=/registry"])), Ok(()));
        let error = check_stand_in(&parse(&["--etcd-prefix=/other"])).unwrap_err();
        assert!(error.starts_with("--etcd-prefix=/other: the etcd of 'pintle envtest' has no prefixes"), "{error}");
    }

    #[test]
    fn controllers_are_off_or_auto() {
        for (value, expect) in
            [(None, Some(false)), (Some(""), Some(false)), (Some("auto"), Some(true)), (Some("true"), None)]
        {
            assert_eq!(controllers(value.map(OsString::from)).ok(), expect, "{value:?}");
        }
    }

    #[test]
    fn lists_reach_the_server_with_their_commas() {
        let flags = parse(&["--cors-allowed-origins=\"^//a{1,3}$\",//b$", "--cors-allowed-origins=//c$"]);
        let serve = Serve::parse_flags(flags.to_arguments(&OWN_FLAGS)).expect("flags");
        let options = serve.options().expect("options");
        assert_eq!(options.cors_allowed_origins, ["^//a{1,3}$", "//b$", "//c$"]);
    }

    #[test]
    fn headers_with_uids_need_their_feature() {
        let options = |gates: &str| {
            let flags = parse(&["--requestheader-uid-headers=X-Remote-Uid", gates]);
            Serve::parse_flags(flags.to_arguments(&OWN_FLAGS)).expect("flags").options().map(drop)
        };
        assert!(options("--feature-gates=RemoteRequestHeaderUID=true").is_ok());
        let error = options("--feature-gates=RemoteRequestHeaderUID=false").unwrap_err().to_string();
        assert!(error.contains("requires the \"RemoteRequestHeaderUID\" feature to be enabled"), "{error}");
    }

    #[test]
    fn errors_of_the_command_line_name_the_flag() {
        let error = |flag: &str| message(&Serve::parse_flags([flag.to_owned()]).err().expect("an error").to_string());
        assert!(error("--logging-format=foo").contains("[possible values: text, json]"));
        assert!(error("--tls-cert-file=/x").contains("--tls-private-key-file"));
    }
}
