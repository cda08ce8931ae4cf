//! Compares how YAML is read and written with `sigs.k8s.io/yaml`, for texts that are made by mutation, or for the files of
//! a folder:
//!
//! ```text
//! cd tools/yaml && go build -o /tmp/upstream .
//! cargo run --release -p pintle-fuzz --example yaml_differential -- /tmp/upstream 100000 [SEED | FOLDER]
//! ```
#![allow(clippy::print_stdout)] // it is a report

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use pintle_codec::{json, yaml};
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

fn ours(text: &[u8]) -> Answer {
    match yaml::decode(text) {
        Err(error) => Answer { error: error.to_string(), ..Answer::default() },
        Ok(read) => Answer {
            json: String::from_utf8_lossy(&json::encode(&read.value)).into_owned(),
            strict: read.strict.unwrap_or_default(),
            written: String::from_utf8_lossy(&yaml::encode(&read.value)).into_owned(),
            ..Answer::default()
        },
    }
}

struct Upstream {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Upstream {
    fn start(program: &str) -> Self {
        let mut process = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect(program);
        let (input, output) = (process.stdin.take().expect("piped"), process.stdout.take().expect("piped"));
        Self { process, input, output: BufReader::new(output) }
    }

    fn ask(&mut self, text: &[u8]) -> Answer {
        writeln!(self.input, "{}", base64::encode(text)).expect("the program reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the program answers");
        let row = json::decode(line.as_bytes(), json::Options::default()).expect("JSON").value;
        let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Answer { json: text("json"), error: text("error"), strict: text("strict"), written: text("written") }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, rounds, rest @ ..] = &arguments[..] else { panic!("usage: PROGRAM ROUNDS [SEED | FOLDER]") };
    let rounds: usize = rounds.parse().expect("a number of rounds");
    let seed = rest.first().map_or("1", String::as_str);
    let mut upstream = Upstream::start(program);
    let texts: Box<dyn Iterator<Item = Vec<u8>>> = match seed.parse() {
        Ok(seed) => Box::new(mutated(seed).take(rounds)),
        Err(_) => {
            let mut files: Vec<_> = std::fs::read_dir(seed).expect("a folder").flatten().map(|f| f.path()).collect();
            files.sort();
            Box::new(files.into_iter().map(|file| std::fs::read(file).expect("a file")))
        }
    };
    let (mut asked, mut accepted, mut differing) = (0, 0, 0);
    for text in texts {
        let theirs = upstream.ask(&text);
        let mut ours = ours(&text);
        // goyaml reads the JSON that it writes, and so neither passes control characters nor NEL.
        if ours.json.contains(|c| matches!(c, '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}')) {
            ours.written.clone_from(&theirs.written);
        }
        asked += 1;
        accepted += usize::from(theirs.error.is_empty());
        if ours != theirs {
            differing += 1;
            println!(
                "b\"{}\"\n  ours   {}\n  theirs {}",
                text.escape_ascii(),
                short(&ours, &theirs),
                short(&theirs, &ours)
            );
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

fn mutated(seed: u64) -> impl Iterator<Item = Vec<u8>> {
    let seeds = TARGETS.iter().find(|target| target.name == "yaml").map(|target| (target.seeds)()).unwrap_or_default();
    let mut random = Random::new(seed);
    let mut inputs = seeds.clone();
    std::iter::repeat_with(move || {
        let (one, other) = (random.below(inputs.len()), random.below(seeds.len()));
        let text = mutate(&mut random, &inputs[one], &seeds[other]);
        if random.once_in(4) && text.len() < 2048 {
            let place = seeds.len() + random.below(512);
            if place < inputs.len() { inputs[place].clone_from(&text) } else { inputs.push(text.clone()) }
        }
        text
    })
}
