//! Encoding and decoding of ordinary objects, in this process: no server takes part. Reading is from the body of a request
//! to the object as rules see it; writing is the way back.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pintle_codec::{cbor, json, protobuf, yaml};
use pintle_schema::{Problems, TypeId, Types, normalise};
use pintle_value::Value;

use crate::Result;
use crate::objects::{deployment, pod};
use crate::scenario::{Bench, Scenario};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "codecs",
    does: "reading and writing a pod and a deployment in JSON, Protobuf, YAML and CBOR, without a server",
    starts_servers: true,
    run: |bench| Box::pin(async move { run(bench) }),
};

/// A kind's object and its type.
struct Sample {
    value: Value,
    types: &'static Types,
    id: TypeId,
}

impl Sample {
    fn of(group: &str, kind: &str, body: &[u8]) -> Result<Self> {
        let catalog = pintle_catalog::shared();
        let id = catalog.kind_type(group, "v1", kind).ok_or("the kind is not known")?;
        let types = catalog.types();
        let value = json::decode_typed(body, types, id)?.value;
        Ok(Self { value, types, id })
    }

    /// A tree that was read, as its kind's rules see it.
    fn normal(&self, mut value: Value) -> Value {
        normalise(self.types, self.id, &mut value, &mut Problems::default());
        value
    }
}

fn run(bench: &mut Bench) -> Result<()> {
    let time = bench.plan.time / 8;
    let samples =
        [("pod", "", "Pod", pod("web", "node-1", 1)), ("deployment", "apps", "Deployment", deployment("web", 3, 1))];
    for (name, group, kind, body) in samples {
        let sample = Sample::of(group, kind, &body)?;
        let Sample { value, types, id } = &sample;
        let go = Go::time(bench, value)?;
        bench.report.section(format!("reading and writing a {name}, best of many"));
        let mut out = Vec::with_capacity(16 << 10);

        let mut text = Vec::new();
        json::encode_typed(value, types, *id, &mut text);
        let tree: serde_json::Value = serde_json::from_slice(&text)?;
        let theirs = nanos(time, || drop(black_box(serde_json::from_slice::<serde_json::Value>(&text))));
        let read = nanos(time, || drop(black_box(json::decode_typed(&text, types, *id))));
        row(bench, "JSON, read", text.len(), read, &[go.of("JSON", "read"), tree_took(theirs)]);
        let theirs = nanos(time, || drop(black_box(serde_json::to_vec(&tree))));
        let written = nanos(time, || {
            out.clear();
            json::encode_typed(value, types, *id, &mut out);
            black_box(&out);
        });
        row(bench, "JSON, written", text.len(), written, &[go.of("JSON", "write"), tree_took(theirs)]);

        let mut message = Vec::new();
        protobuf::encode_object(value, types, *id, &mut message);
        let read = nanos(time, || {
            let envelope = protobuf::open_envelope(&message);
            drop(black_box(envelope.and_then(|envelope| protobuf::decode_object(&envelope, types, *id))));
        });
        row(bench, "Protobuf, read", message.len(), read, &[go.of("Protobuf", "read")]);
        let written = nanos(time, || {
            out.clear();
            protobuf::encode_object(value, types, *id, &mut out);
            black_box(&out);
        });
        row(bench, "Protobuf, written", message.len(), written, &[go.of("Protobuf", "write")]);
        let mut tape = json::Tape::default();
        let written = nanos(time, || {
            out.clear();
            black_box(protobuf::encode_json(&text, &mut tape, types, *id, &mut out));
        });
        row(bench, "Protobuf, written from stored JSON", message.len(), written, &[]);

        let lines = yaml::encode(value);
        let read = nanos(time, || drop(black_box(yaml::decode(&lines).map(|read| sample.normal(read.value)))));
        row(bench, "YAML, read", lines.len(), read, &[go.of("YAML", "read")]);
        let written = nanos(time, || drop(black_box(yaml::encode(value))));
        row(bench, "YAML, written", lines.len(), written, &[go.of("YAML", "write")]);

        let mut binary = cbor::SELF_DESCRIBED.to_vec();
        cbor::encode_typed(value, types, *id, &mut binary);
        let read = nanos(time, || {
            let read = cbor::decode_typed(&binary, types, *id, cbor::Limits::default());
            drop(black_box(read.map(|read| sample.normal(read.value))));
        });
        row(bench, "CBOR, read", binary.len(), read, &[go.of("CBOR", "read")]);
        let written = nanos(time, || {
            out.clear();
            cbor::encode_typed(value, types, *id, &mut out);
            black_box(&out);
        });
        row(bench, "CBOR, written", binary.len(), written, &[go.of("CBOR", "write")]);
    }
    Ok(())
}

/// What another program took, by its name, in nanoseconds; `None` where that is not known.
type Theirs = Option<(&'static str, f64)>;

fn tree_took(nanos: f64) -> Theirs {
    Some(("serde_json's tree", nanos))
}

/// What Go's serializers take for an object: by encoding, to read and to write it.
struct Go(serde_json::Value);

impl Go {
    /// Times them, if there is the program that does.
    fn time(bench: &Bench, object: &Value) -> Result<Self> {
        let Some(program) = &bench.go_codecs else { return Ok(Self(serde_json::Value::Null)) };
        let file = bench.scratch().join("object.json");
        std::fs::write(&file, json::encode(object))?;
        let timed = Command::new(program).arg(&file).stderr(Stdio::inherit()).output()?;
        if !timed.status.success() {
            return Err(format!("{}: {}", program.display(), timed.status).into());
        }
        Ok(Self(serde_json::from_slice(&timed.stdout)?))
    }

    fn of(&self, encoding: &str, work: &str) -> Theirs {
        self.0[encoding][work].as_f64().map(|nanos| ("Go", nanos))
    }
}

fn row(bench: &mut Bench, name: &str, bytes: usize, nanos: f64, theirs: &[Theirs]) {
    let theirs = theirs.iter().flatten().map(|(who, theirs)| format!("; {who} {theirs:.0} ns, {:.1}x", theirs / nanos));
    bench.report.row(name, nanos, "ns").note(format!("{bytes} bytes{}", theirs.collect::<String>()));
}

/// How long some work takes at its best, in nanoseconds: what else the machine does hardly matters then.
fn nanos(time: Duration, mut work: impl FnMut()) -> f64 {
    const TIMES: u32 = 20;
    let (started, mut best) = (Instant::now(), f64::INFINITY);
    while best.is_infinite() || started.elapsed() < time {
        let round = Instant::now();
        (0..TIMES).for_each(|_| work());
        best = best.min(round.elapsed().as_nanos() as f64 / f64::from(TIMES));
    }
    best
}
