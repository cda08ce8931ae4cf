//! The cost of encryption at rest. Servers with and without it get the same requests in alternating rounds, and are
//! started with many stored Secrets. Each server has its own store.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde_json::{Value, json};

use super::megabytes;
use crate::Result;
use crate::client::{Protocol, get};
use crate::comparison::{Concurrency, alternate, alternate_creates};
use crate::kms_plugin::KmsPlugin;
use crate::load::{RoundResult, Workload, median, median_round};
use crate::objects::{create, fill, secret, secrets_path};
use crate::report::thousands;
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::{Server, ServerProcess};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "encryption",
    description: "creates and GETs of Secrets and starts with encryption at rest, beside the same without encryption",
    requires_binary: true,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

/// The number of clients.
const CLIENTS: usize = 16;
/// The number of stored Secrets when a start is timed, at most.
const STORED_SECRETS: usize = 100_000;
/// The budget for the CPU time of a create and of a GET, compared with another variant.
const REQUEST_BUDGET: f64 = 1.10;
/// The budget for the time of a start and for the memory afterwards, compared with no encryption.
const START_BUDGET: f64 = 1.5;

/// The names of the variants that others are compared with.
const PLAIN: &str = "no encryption";
const AESGCM: &str = "aesgcm";

/// A way to encrypt stored objects.
struct Variant {
    name: &'static str,
    /// The flags of its servers.
    flags: Vec<String>,
    /// A text in the metrics of a server that has encrypted a Secret in this way. Empty if there is none.
    metric: &'static str,
    /// The names of variants that its requests are compared with, and the budgets of the ratios.
    compared_with: &'static [(&'static str, Option<f64>)],
}

impl Variant {
    fn flags(&self) -> Vec<&str> {
        self.flags.iter().map(String::as_str).collect()
    }
}

/// The variants to measure, the one without encryption first.
fn variants(bench: &ScenarioContext, plugin: Option<&KmsPlugin>) -> Result<Vec<Variant>> {
    let configured = |name: &str, provider: Value| -> Result<Vec<String>> {
        let configuration = json!({
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": [{"resources": ["secrets"], "providers": [{name: provider}]}],
        });
        let file = bench.scratch().join(format!("encryption-{name}.json"));
        std::fs::write(&file, configuration.to_string())?;
        Ok(vec!["--encryption-provider-config".to_owned(), file.to_string_lossy().into_owned()])
    };
    let key = json!({"keys": [{"name": "key", "secret": STANDARD.encode([7; 32])}]});
    let mut variants = vec![
        Variant { name: PLAIN, flags: Vec::new(), metric: "", compared_with: &[] },
        Variant {
            name: AESGCM,
            flags: configured("aesgcm", key.clone())?,
            metric: "k8s:enc:aesgcm:v1:",
            compared_with: &[(PLAIN, Some(REQUEST_BUDGET))],
        },
        Variant {
            name: "secretbox",
            flags: configured("secretbox", key)?,
            metric: "k8s:enc:secretbox:v1:",
            compared_with: &[(PLAIN, None)],
        },
    ];
    if let Some(plugin) = plugin {
        let kms = json!({"apiVersion": "v2", "name": "bench", "endpoint": plugin.endpoint()});
        variants.push(Variant {
            name: "kms v2",
            flags: configured("kms", kms)?,
            metric: "k8s:enc:kms:v2:",
            compared_with: &[(PLAIN, None), (AESGCM, Some(REQUEST_BUDGET))],
        });
    }
    // etcd has no such encryption.
    if !bench.is_on_go_api_server() {
        let keys = store_keys(bench.scratch())?.to_string_lossy().into_owned();
        variants.push(Variant {
            name: "whole store",
            flags: vec!["--encrypt-store".to_owned(), "--store-key-file".to_owned(), keys],
            metric: "",
            compared_with: &[(PLAIN, None)],
        });
    }
    Ok(variants)
}

/// Writes a file with a key for the whole store. Only the owner may have access to it.
fn store_keys(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("store-keys");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    writeln!(file, "{}", STANDARD.encode([8; 32]))?;
    Ok(path)
}

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let plugin = match bench.kms_plugin.clone() {
        Some(program) => Some(KmsPlugin::start(&program).await?),
        None => {
            bench.report.remark("encryption: without kms, requires the program `encryption` beside --go-apiserver");
            None
        }
    };
    let variants = variants(bench, plugin.as_ref())?;
    measure_requests(bench, &variants).await?;
    if bench.is_on_go_api_server() {
        return Ok(());
    }
    measure_starts(bench, &variants).await
}

async fn measure_requests(bench: &mut ScenarioContext, variants: &[Variant]) -> Result<()> {
    let (mut targets, mut namespace) = (Vec::new(), String::new());
    for variant in variants {
        let mut target = bench.target_with(&variant.flags()).await?;
        // The name is the same on all servers.
        namespace = target.namespace("encryption").await?;
        targets.push(target);
    }
    let servers: Vec<&Server> = targets.iter().map(|target| &target.server).collect();
    let workload = |round| create_workload(&namespace, round);
    let creates = alternate_creates(&servers, workload, CLIENTS, &bench.plan).await?;
    for (server, variant) in servers.iter().zip(variants) {
        let metrics = server.connect().await?.fetch(get("/metrics"), StatusCode::OK).await?;
        if !String::from_utf8_lossy(&metrics).contains(variant.metric) {
            return Err(format!("{}: the server has encrypted nothing", variant.name).into());
        }
    }
    // The first Secret of the first client.
    let path = format!("{}/c0-0-0", secrets_path(&namespace));
    let concurrency = Concurrency { clients: CLIENTS, protocol: Protocol::Http1 };
    let gets = alternate(&servers, move || get(path.as_str()), concurrency, &bench.plan).await?;

    bench.report.section(format!("Encryption at rest: create and GET of a Secret of 1 KiB, {CLIENTS} clients"));
    report_requests(bench, "create", variants, &creates);
    report_requests(bench, "GET", variants, &gets);
    for target in targets {
        target.tear_down().await?;
    }
    Ok(())
}

/// A workload that creates Secrets with new names.
fn create_workload(namespace: &str, round: usize) -> Workload {
    let collection = secrets_path(namespace);
    Arc::new(move |client, sent| Some(create(collection.as_str(), secret(&format!("c{round}-{client}-{sent}"), sent))))
}

/// Adds the rows of the rounds of each variant.
fn report_requests(bench: &mut ScenarioContext, request: &str, variants: &[Variant], rounds: &[Vec<RoundResult>]) {
    let cpu = |round: &RoundResult| round.cpu_micros().unwrap_or_default();
    for (variant, of) in variants.iter().zip(rounds) {
        let name = format!("{request}: {}", variant.name);
        let middle = median_round(of.clone());
        bench.report.row(&name, middle.rate(), "/s").round(&middle);
        for (other, budget) in variant.compared_with {
            let position = variants.iter().position(|variant| variant.name == *other);
            let Some(others) = position.and_then(|position| rounds.get(position)) else { continue };
            let ratio = median(of.iter().zip(others).map(|(round, other)| cpu(round) / cpu(other)));
            let row = bench.report.row(format!("{name}: CPU, compared with {other}"), ratio, "");
            if let Some(budget) = budget {
                row.at_most(*budget);
            }
        }
    }
}

/// The starts of a variant.
#[derive(Default)]
struct Starts {
    /// The times until the server was ready, in milliseconds.
    times: Vec<f64>,
    /// The memory after the starts, in MB.
    memory: Vec<f64>,
}

async fn measure_starts(bench: &mut ScenarioContext, variants: &[Variant]) -> Result<()> {
    let (binary, count) = (bench.binary()?, bench.plan.stored_objects.min(STORED_SECRETS));
    let folder = |number: usize| bench.scratch().join(format!("encrypted-{number}"));
    for (number, variant) in variants.iter().enumerate() {
        let process = ServerProcess::pintle_with(&binary, &folder(number), &variant.flags()).await?;
        let object = |number| secret(&format!("stored-{number:06}"), number);
        fill(&process.server, &secrets_path("default"), count as u64, object).await?;
        process.stop().await?;
    }
    let mut starts: Vec<Starts> = variants.iter().map(|_| Starts::default()).collect();
    for _ in 0..bench.plan.starts {
        for (number, (variant, starts)) in variants.iter().zip(&mut starts).enumerate() {
            let process = ServerProcess::pintle_with(&binary, &folder(number), &variant.flags()).await?;
            starts.times.push(process.time_to_first_response.as_secs_f64() * 1e3);
            starts.memory.extend(process.server.settled_memory(&bench.plan).await?.map(megabytes));
            process.stop().await?;
        }
    }
    for number in 0..variants.len() {
        std::fs::remove_dir_all(folder(number))?;
    }
    let report = &mut bench.report;
    report.section(format!("Encryption at rest: start with {} Secrets of 1 KiB", thousands(count as f64)));
    type Samples = fn(&Starts) -> &Vec<f64>;
    let parts: [(&str, Samples, &str); 2] =
        [("start to ready", |starts| &starts.times, "ms"), ("memory after the start", |starts| &starts.memory, "MB")];
    for (part, samples, unit) in parts {
        for (variant, of) in variants.iter().zip(&starts) {
            let name = format!("{part}: {}", variant.name);
            report.row(&name, median(samples(of).iter().copied()), unit);
            if variant.name != PLAIN {
                let ratios = samples(of).iter().zip(samples(&starts[0])).map(|(sample, plain)| sample / plain);
                report.row(format!("{name}: compared with {PLAIN}"), median(ratios), "").at_most(START_BUDGET);
            }
        }
    }
    Ok(())
}
