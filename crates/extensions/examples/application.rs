//! Measures an ordinary custom resource: the memory size of its schema, and the time to decode, default and validate an
//! object of about 2 KiB.

use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

use pintle_extensions::schema::{StructuralSchema, to_types};
use pintle_value::metadata::MissingFields;
use pintle_value::{Value, print};

fn main() -> std::io::Result<()> {
    let tree: Value = serde_json::from_str(include_str!("../tests/data/application-schema.json"))?;
    let object: Value = serde_json::from_str(include_str!("../tests/data/application.json"))?;
    let schema = StructuralSchema::parse(&tree).map_err(std::io::Error::other)?;
    let mut out = std::io::stdout().lock();
    let (text, size, nodes) = (print::json(&tree).len(), schema.size(), schema.len());
    writeln!(out, "schema: {text} bytes of JSON, {nodes} nodes, {size} bytes, {} per node", size / nodes.max(1))?;
    writeln!(out, "object: {} bytes of JSON", print::json(&object).len())?;
    writeln!(out, "errors: {:?}", schema.validate(&object).message())?;

    let mut time = |what: &str, work: &dyn Fn()| -> std::io::Result<f64> {
        const ROUNDS: u32 = 20_000;
        (0..ROUNDS / 10).for_each(|_| work());
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| work());
        let micros = start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS);
        writeln!(out, "{what}: {micros:.1} µs")?;
        Ok(micros)
    };
    let copy = time("copy", &|| drop(black_box(object.clone())))?;
    let all = time("copy, prune, default, validate", &|| {
        let mut object = object.clone();
        black_box(schema.prune(&mut object));
        schema.default(&mut object);
        black_box((
            schema.validate(&object),
            schema.validate_embedded(&object, MissingFields::Invalid),
            schema.validate_lists(&object),
        ));
    })?;
    time("validate", &|| drop(black_box(schema.validate(&object))))?;
    time("validate an update", &|| drop(black_box(schema.validate_update(&object, &object))))?;
    time("validate embedded resources", &|| {
        drop(black_box(schema.validate_embedded(&object, MissingFields::Invalid)))
    })?;
    time("validate lists", &|| drop(black_box(schema.validate_lists(&object))))?;
    time("copy, conform", &|| drop(black_box(schema.conform(&mut object.clone()))))?;
    time("parse the schema", &|| drop(black_box(StructuralSchema::parse(&tree))))?;
    time("types for apply", &|| drop(black_box(to_types(&schema))))?;
    writeln!(out, "prune, default, validate: {:.1} µs", all - copy)
}
