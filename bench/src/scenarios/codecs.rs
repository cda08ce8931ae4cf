//! Encoding and decoding of typical objects in this process, without a server. Decoding goes from the bytes of a
//! request body to the normalised value. Encoding is the reverse.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pintle_codec::{cbor, json, protobuf, yaml};
use pintle_schema::{Problems, TypeId, Types, normalise};
use pintle_value::Value;

use crate::Result;
use crate::objects::{deployment, pod};
use crate::scenario::{Scenario, ScenarioContext};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "codecs",
    description: "decoding and encoding a Pod and a Deployment in JSON, Protobuf, YAML and CBOR, without a server",
    requires_binary: true,
    on_go_api_server: false,
    run: |bench| Box::pin(async move { run(bench) }),
};

/// An object with its schema type.
struct CodecSample {
    value: Value,
    types: &'static Types,
    id: TypeId,
}

impl CodecSample {
    fn of(group: &str, kind: &str, body: &[u8]) -> Result<Self> {
        let catalog = pintle_catalog::shared();
        let id = catalog.kind_type(group, "v1", kind).ok_or("unknown kind")?;
        let types = catalog.types();
        let value = json::decode_typed(body, types, id)?.value;
        Ok(Self { value, types, id })
    }

    /// Normalises a decoded value by its schema.
    fn normalised(&self, mut value: Value) -> Value {
        normalise(self.types, self.id, &mut value, &mut Problems::default());
        value
    }
}

fn run(bench: &mut ScenarioContext) -> Result<()> {
    let time = bench.plan.duration / 8;
    let samples =
        [("pod", "", "Pod", pod("web", "node-1", 1)), ("deployment", "apps", "Deployment", deployment("web", 3, 1))];
    for (name, group, kind, body) in samples {
        let sample = CodecSample::of(group, kind, &body)?;
        let CodecSample { value, types, id } = &sample;
        let go = GoTimings::time(bench, value)?;
        bench.report.section(format!("decoding and encoding a {name}, fastest of many runs"));
        let mut out = Vec::with_capacity(16 << 10);

        let mut text = Vec::new();
        json::encode_typed(value, types, *id, &mut text);
        let tree: serde_json::Value = serde_json::from_slice(&text)?;
        let theirs = nanos(time, || drop(black_box(serde_json::from_slice::<serde_json::Value>(&text))));
        let read = nanos(time, || drop(black_box(json::decode_typed(&text, types, *id))));
        row(bench, "JSON, decode", text.len(), read, &[go.of("JSON", "read"), serde_json_timing(theirs)]);
        let theirs = nanos(time, || drop(black_box(serde_json::to_vec(&tree))));
        let written = nanos(time, || {
            out.clear();
            json::encode_typed(value, types, *id, &mut out);
            black_box(&out);
        });
        row(bench, "JSON, encode", text.len(), written, &[go.of("JSON", "write"), serde_json_timing(theirs)]);

        let mut message = Vec::new();
        protobuf::encode_object(value, types, *id, &mut message);
        let read = nanos(time, || {
            let envelope = protobuf::open_envelope(&message);
            drop(black_box(envelope.and_then(|envelope| protobuf::decode_object(&envelope, types, *id))));
        });
        row(bench, "Protobuf, decode", message.len(), read, &[go.of("Protobuf", "read")]);
        let written = nanos(time, || {
            out.clear();
            protobuf::encode_object(value, types, *id, &mut out);
            black_box(&out);
        });
        row(bench, "Protobuf, encode", message.len(), written, &[go.of("Protobuf", "write")]);
        let mut tape = json::Tape::default();
        let written = nanos(time, || {
            out.clear();
            black_box(protobuf::encode_json(&text, &mut tape, types, *id, &mut out));
        });
        row(bench, "Protobuf, encode from stored JSON", message.len(), written, &[]);

        let lines = yaml::encode(value);
        let read = nanos(time, || drop(black_box(yaml::decode(&lines).map(|read| sample.normalised(read.value)))));
        row(bench, "YAML, decode", lines.len(), read, &[go.of("YAML", "read")]);
        let written = nanos(time, || drop(black_box(yaml::encode(value))));
        row(bench, "YAML, encode", lines.len(), written, &[go.of("YAML", "write")]);

        let mut binary = cbor::SELF_DESCRIBED.to_vec();
        cbor::encode_typed(value, types, *id, &mut binary);
        let read = nanos(time, || {
            let read = cbor::decode_typed(&binary, types, *id, cbor::Limits::default());
            drop(black_box(read.map(|read| sample.normalised(read.value))));
        });
        row(bench, "CBOR, decode", binary.len(), read, &[go.of("CBOR", "read")]);
        let written = nanos(time, || {
            out.clear();
            cbor::encode_typed(value, types, *id, &mut out);
            black_box(&out);
        });
        row(bench, "CBOR, encode", binary.len(), written, &[go.of("CBOR", "write")]);
    }
    Ok(())
}

/// The name of another implementation and its time in nanoseconds. `None` if it is not known.
type OtherTiming = Option<(&'static str, f64)>;

fn serde_json_timing(nanos: f64) -> OtherTiming {
    Some(("serde_json::Value", nanos))
}

/// The timings of apimachinery's serializers for an object: by encoding, for decoding and encoding.
struct GoTimings(serde_json::Value);

impl GoTimings {
    /// Runs the timing program, if it was built.
    fn time(bench: &ScenarioContext, object: &Value) -> Result<Self> {
        let Some(program) = &bench.go_codecs else { return Ok(Self(serde_json::Value::Null)) };
        let file = bench.scratch().join("object.json");
        std::fs::write(&file, json::encode(object))?;
        let timed = Command::new(program).arg(&file).stderr(Stdio::inherit()).output()?;
        if !timed.status.success() {
            return Err(format!("{}: {}", program.display(), timed.status).into());
        }
        Ok(Self(serde_json::from_slice(&timed.stdout)?))
    }

    fn of(&self, encoding: &str, work: &str) -> OtherTiming {
        self.0[encoding][work].as_f64().map(|nanos| ("Go", nanos))
    }
}

fn row(bench: &mut ScenarioContext, name: &str, bytes: usize, nanos: f64, theirs: &[OtherTiming]) {
    let theirs = theirs.iter().flatten().map(|(who, theirs)| format!("; {who} {theirs:.0} ns, {:.1}x", theirs / nanos));
    bench.report.row(name, nanos, "ns").note(format!("{bytes} bytes{}", theirs.collect::<String>()));
}

/// The fastest time of `work` in nanoseconds. The minimum is least affected by other processes.
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
