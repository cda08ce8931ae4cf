//! Compares decoding of JSON, YAML and Protobuf, and encoding of YAML, with upstream's libraries. Inputs are mutations,
//! or the files of a directory:
//!
//! ```text
//! cd tools/codec-texts && go build -o /tmp/upstream .
//! cargo run --release -p pintle-fuzz --example differential -- /tmp/upstream yaml 100000 [SEED | FOLDER]
//! ```
#![allow(clippy::print_stdout)] // the output is a report

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use pintle_codec::{json, protobuf, yaml};
use pintle_fuzz::{Random, TARGETS, mutate};
use pintle_schema::base64;
use pintle_value::Value;

/// The result of decoding an input: the value as JSON or the error, the strict decoding errors, and the value encoded
/// again.
#[derive(Debug, Default, PartialEq)]
struct DecodeResult {
    json: String,
    error: String,
    strict: String,
    written: String,
}

fn json(text: &[u8]) -> DecodeResult {
    match json::decode(text, json::DecodeOptions::default()) {
        Err(error) => DecodeResult { error: error.to_string(), ..DecodeResult::default() },
        Ok(read) => DecodeResult {
            json: String::from_utf8_lossy(&json::encode(&read.value)).into_owned(),
            strict: json::decode_strict_untyped(text).map(|found| found.strict_errors.join("\n")).unwrap_or_default(),
            ..DecodeResult::default()
        },
    }
}

fn yaml(text: &[u8]) -> DecodeResult {
    match yaml::decode(text) {
        Err(error) => DecodeResult { error: error.to_string(), ..DecodeResult::default() },
        Ok(read) => DecodeResult {
            json: String::from_utf8_lossy(&json::encode(&read.value)).into_owned(),
            strict: read.strict_error.unwrap_or_default(),
            written: String::from_utf8_lossy(&yaml::encode(&read.value)).into_owned(),
            ..DecodeResult::default()
        },
    }
}

fn protobuf(body: &[u8]) -> DecodeResult {
    let catalog = pintle_catalog::shared();
    let read = || {
        if body.strip_prefix(&protobuf::PREFIX).is_none_or(<[u8]>::is_empty) {
            return Err("no envelope".to_owned());
        }
        let envelope = protobuf::open_envelope(body).map_err(|e| e.to_string())?;
        let (group, version) = envelope.api_version.split_once('/').unwrap_or(("", &envelope.api_version));
        let kind = catalog.kind_type(group, version, &envelope.kind).ok_or("no kind")?;
        let value = protobuf::decode_object(&envelope, catalog.types(), kind).map_err(|e| e.to_string())?;
        Ok(String::from_utf8_lossy(&json::encode(&value)).into_owned())
    };
    match read() {
        Err(error) => DecodeResult { error, ..DecodeResult::default() },
        Ok(json) => DecodeResult { json, ..DecodeResult::default() },
    }
}

fn typed(text: &[u8]) -> DecodeResult {
    let error = |error: String| DecodeResult { error, ..DecodeResult::default() };
    let read = json::decode(text, json::DecodeOptions::default()).ok();
    let Some(meta) = read.and_then(|read| json::type_meta(&read.value).ok()) else {
        return error("no kind".to_owned());
    };
    let (group, version) = meta.api_version.split_once('/').unwrap_or(("", &meta.api_version));
    let catalog = pintle_catalog::shared();
    let Some(kind) = catalog.kind_type(group, version, &meta.kind) else { return error("no kind".to_owned()) };
    match json::decode_typed(text, catalog.types(), kind) {
        Err(e) => error(e.to_string()),
        Ok(read) => {
            let json = String::from_utf8_lossy(&json::encode(&read.value)).into_owned();
            DecodeResult { json, strict: read.strict_errors.join("\n"), ..DecodeResult::default() }
        }
    }
}

struct Upstream {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Upstream {
    fn start(program: &str, codec: &str) -> Self {
        let mut process =
            Command::new(program).arg(codec).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect(program);
        let (input, output) = (process.stdin.take().expect("piped"), process.stdout.take().expect("piped"));
        Self { process, input, output: BufReader::new(output) }
    }

    fn decode(&mut self, text: &[u8]) -> DecodeResult {
        writeln!(self.input, "{}", base64::encode(text)).expect("write to the upstream program");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("read from the upstream program");
        let row = json::decode(line.as_bytes(), json::DecodeOptions::default()).expect("JSON").value;
        let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        DecodeResult { json: text("json"), error: text("error"), strict: text("strict"), written: text("written") }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, codec, rounds, rest @ ..] = &arguments[..] else {
        panic!("usage: PROGRAM json|protobuf|typed|yaml ROUNDS [SEED | FOLDER]")
    };
    let ours = match codec.as_str() {
        "json" => json,
        "protobuf" => protobuf,
        "typed" => typed,
        _ => yaml,
    };
    let rounds: usize = rounds.parse().expect("a number of rounds");
    let seed = rest.first().map_or("1", String::as_str);
    let mut upstream = Upstream::start(program, codec);
    let mut inputs = match seed.parse() {
        Ok(seed) => Inputs::mutations_of(codec, seed, rounds),
        Err(_) => Inputs::files_in(seed),
    };
    let (mut total, mut accepted, mut differing) = (0, 0, 0);
    while let Some(text) = inputs.next() {
        let theirs = upstream.decode(&text);
        let mut ours = ours(&text);
        // goyaml decodes JSON before it encodes YAML. This fails for control characters and NEL.
        if ours.json.contains(|c| matches!(c, '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}')) {
            ours.written.clone_from(&theirs.written);
        }
        total += 1;
        // Neither upstream's scheme nor the catalog has all kinds.
        let unknown = ours.error == "no kind" || theirs.error == "no kind";
        if ours != theirs && !unknown {
            differing += 1;
            println!(
                "b\"{}\"\n  ours   {}\n  theirs {}",
                text.escape_ascii(),
                differing_fields(&ours, &theirs),
                differing_fields(&theirs, &ours)
            );
        }
        if theirs.error.is_empty() {
            accepted += 1;
            inputs.add_to_corpus(text);
        }
    }
    println!("{total} inputs, {accepted} accepted by upstream, {differing} differ");
    drop(upstream.input);
    let _ = upstream.process.wait();
}

/// Formats the fields that differ from the other result.
fn differing_fields(result: &DecodeResult, other: &DecodeResult) -> String {
    [
        ("json", &result.json, &other.json),
        ("error", &result.error, &other.error),
        ("strict", &result.strict, &other.strict),
        ("written", &result.written, &other.written),
    ]
    .into_iter()
    .filter(|(_, one, other)| one != other)
    .map(|(name, one, _)| format!("{name}: {one:?} "))
    .collect()
}

/// The source of inputs: mutations or files.
struct Inputs {
    random: Random,
    seeds: Vec<Vec<u8>>,
    /// Inputs that upstream accepted, for further mutation.
    corpus: Vec<Vec<u8>>,
    remaining: usize,
    files: std::vec::IntoIter<PathBuf>,
}

impl Inputs {
    fn mutations_of(codec: &str, seed: u64, remaining: usize) -> Self {
        let name = match codec {
            "protobuf" => "protobuf_object",
            "typed" => "json_object",
            other => other,
        };
        let target = TARGETS.iter().find(|target| target.name == name);
        let seeds = target.map(|target| (target.seeds)()).unwrap_or_default();
        Self { random: Random::new(seed), corpus: seeds.clone(), seeds, remaining, files: Vec::new().into_iter() }
    }

    fn files_in(folder: &str) -> Self {
        let mut files: Vec<_> = std::fs::read_dir(folder).expect("a folder").flatten().map(|f| f.path()).collect();
        files.sort();
        Self { random: Random::new(0), corpus: Vec::new(), seeds: Vec::new(), remaining: 0, files: files.into_iter() }
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.remaining == 0 {
            return self.files.next().map(|file| std::fs::read(file).expect("a file"));
        }
        self.remaining -= 1;
        let (one, other) = (self.random.below(self.corpus.len()), self.random.below(self.seeds.len()));
        Some(mutate(&mut self.random, &self.corpus[one], &self.seeds[other]))
    }

    fn add_to_corpus(&mut self, text: Vec<u8>) {
        if !text.is_empty() && text.len() < 2048 && self.random.once_in(4) {
            let index = self.seeds.len() + self.random.below(512);
            if index < self.corpus.len() { self.corpus[index] = text } else { self.corpus.push(text) }
        }
    }
}
