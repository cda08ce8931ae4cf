//! Compares how JSON, YAML and Protobuf are read, and YAML is written, with what upstream's libraries do, for texts that are made by
//! mutation, or for the files of a folder:
//!
//! ```text
//! cd tools/texts && go build -o /tmp/upstream .
//! cargo run --release -p pintle-fuzz --example differential -- /tmp/upstream yaml 100000 [SEED | FOLDER]
//! ```
#![allow(clippy::print_stdout)] // it is a report

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use pintle_codec::{json, protobuf, yaml};
use pintle_fuzz::{Random, TARGETS, mutate};
use pintle_schema::base64;
use pintle_value::Value;

/// What comes of a text: read as JSON or refused, the same strictly, written again.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    json: String,
    error: String,
    strict: String,
    written: String,
}

fn json(text: &[u8]) -> Answer {
    match json::decode(text, json::DecodeOptions::default()) {
        Err(error) => Answer { error: error.to_string(), ..Answer::default() },
        Ok(read) => Answer {
            json: String::from_utf8_lossy(&json::encode(&read.value)).into_owned(),
            strict: json::decode_strict_untyped(text).map(|found| found.strict_errors.join("\n")).unwrap_or_default(),
            ..Answer::default()
        },
    }
}

fn yaml(text: &[u8]) -> Answer {
    match yaml::decode(text) {
        Err(error) => Answer { error: error.to_string(), ..Answer::default() },
        Ok(read) => Answer {
            json: String::from_utf8_lossy(&json::encode(&read.value)).into_owned(),
            strict: read.strict_error.unwrap_or_default(),
            written: String::from_utf8_lossy(&yaml::encode(&read.value)).into_owned(),
            ..Answer::default()
        },
    }
}

fn protobuf(body: &[u8]) -> Answer {
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
        Err(error) => Answer { error, ..Answer::default() },
        Ok(json) => Answer { json, ..Answer::default() },
    }
}

fn typed(text: &[u8]) -> Answer {
    let error = |error: String| Answer { error, ..Answer::default() };
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
            Answer { json, strict: read.strict_errors.join("\n"), ..Answer::default() }
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

    fn ask(&mut self, text: &[u8]) -> Answer {
        writeln!(self.input, "{}", base64::encode(text)).expect("the program reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the program answers");
        let row = json::decode(line.as_bytes(), json::DecodeOptions::default()).expect("JSON").value;
        let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Answer { json: text("json"), error: text("error"), strict: text("strict"), written: text("written") }
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
    let mut texts = match seed.parse() {
        Ok(seed) => Texts::mutants_of(codec, seed, rounds),
        Err(_) => Texts::files_of(seed),
    };
    let (mut asked, mut accepted, mut differing) = (0, 0, 0);
    while let Some(text) = texts.next() {
        let theirs = upstream.ask(&text);
        let mut ours = ours(&text);
        // goyaml reads the JSON that it writes, and so neither passes control characters nor NEL.
        if ours.json.contains(|c| matches!(c, '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}')) {
            ours.written.clone_from(&theirs.written);
        }
        asked += 1;
        // Upstream's scheme does not have all kinds, nor has ours.
        let unknown = ours.error == "no kind" || theirs.error == "no kind";
        if ours != theirs && !unknown {
            differing += 1;
            println!(
                "b\"{}\"\n  ours   {}\n  theirs {}",
                text.escape_ascii(),
                short(&ours, &theirs),
                short(&theirs, &ours)
            );
        }
        if theirs.error.is_empty() {
            accepted += 1;
            texts.keep(text);
        }
    }
    println!("{asked} texts, {accepted} of them accepted by upstream, {differing} differ");
    drop(upstream.input);
    let _ = upstream.process.wait();
}

/// Of an answer what the other does not say.
fn short(answer: &Answer, other: &Answer) -> String {
    [
        ("json", &answer.json, &other.json),
        ("error", &answer.error, &other.error),
        ("strict", &answer.strict, &other.strict),
        ("written", &answer.written, &other.written),
    ]
    .into_iter()
    .filter(|(_, one, other)| one != other)
    .map(|(name, one, _)| format!("{name}: {one:?} "))
    .collect()
}

/// Where texts come from.
struct Texts {
    random: Random,
    seeds: Vec<Vec<u8>>,
    /// What was accepted lately, to go on from.
    kept: Vec<Vec<u8>>,
    left: usize,
    files: std::vec::IntoIter<PathBuf>,
}

impl Texts {
    fn mutants_of(codec: &str, seed: u64, left: usize) -> Self {
        let name = match codec {
            "protobuf" => "object",
            "typed" => "json_object",
            other => other,
        };
        let target = TARGETS.iter().find(|target| target.name == name);
        let seeds = target.map(|target| (target.seeds)()).unwrap_or_default();
        Self { random: Random::new(seed), kept: seeds.clone(), seeds, left, files: Vec::new().into_iter() }
    }

    fn files_of(folder: &str) -> Self {
        let mut files: Vec<_> = std::fs::read_dir(folder).expect("a folder").flatten().map(|f| f.path()).collect();
        files.sort();
        Self { random: Random::new(0), kept: Vec::new(), seeds: Vec::new(), left: 0, files: files.into_iter() }
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.left == 0 {
            return self.files.next().map(|file| std::fs::read(file).expect("a file"));
        }
        self.left -= 1;
        let (one, other) = (self.random.below(self.kept.len()), self.random.below(self.seeds.len()));
        Some(mutate(&mut self.random, &self.kept[one], &self.seeds[other]))
    }

    fn keep(&mut self, text: Vec<u8>) {
        if !text.is_empty() && text.len() < 2048 && self.random.once_in(4) {
            let place = self.seeds.len() + self.random.below(512);
            if place < self.kept.len() { self.kept[place] = text } else { self.kept.push(text) }
        }
    }
}
