//! Runs CEL's conformance tests: `cargo run -p pintle-cel --example conformance -- FOLDER`, where the folder contains
//! the `*.textproto` files of `google/cel-spec` (`tests/simple/testdata`).
//!
//! Skips tests that need protocol buffer messages, enums, unknown values or evaluation without type checking. Also
//! skips extensions that Kubernetes does not enable, and a few tests that cel-go does not pass as Kubernetes configures
//! it.

mod outcome;
mod textproto;

use std::io::Write as _;
use std::path::Path;

use outcome::{TestOutcome, run};
use textproto::Message;

/// Files about protocol buffer messages or about extensions that Kubernetes does not enable.
const SKIPPED_FILES: [&str; 11] = [
    "block_ext",
    "dynamic",
    "encoders_ext",
    "enums",
    "math_ext",
    "network_ext",
    "proto2",
    "proto2_ext",
    "proto3",
    "unknowns",
    "wrappers",
];

/// Tests that Kubernetes 1.36 does not pass either: a section and a prefix of the test names.
const EXPECTED_FAILURES: [(&str, &str); 14] = [
    // Identifiers in backticks are not enabled.
    ("quoted_map_fields", ""),
    // cel-go skips these: repeated keys and out-of-range indices are not errors.
    ("qualified_identifier_resolution", "map_value_repeat_key"),
    ("qualified_identifier_resolution", "map_value_repeat_key_heterogeneous"),
    ("value_errors", "indexof_out_of_range"),
    ("value_errors", "lastindexof_out_of_range"),
    ("legacy_nullable_types", "null_assignable_to_abstract_parameter_candidate"),
    // The checker already rejects a constant of a wrong type.
    ("map_fields", "map_bad_key_type_or_true"),
    ("map_fields", "map_bad_key_type_and_false"),
    // Iteration variables and variables of `cel.bind` shadow names of the container in later versions of cel-go.
    ("bind", "shadowing_namespace_"),
    ("namespace_shadowing", ""),
    // Kubernetes does not enable errors for selections from values without fields.
    ("optionals", "map_null_entry_no_such_key"),
    ("optionals", "map_present_key_invalid_field"),
    // Version 4 of the strings extension changes `format`, and version 3 adds `reverse`; Kubernetes enables version 2.
    ("format", ""),
    ("reverse", ""),
];

/// True for a test that is expected to fail.
fn is_expected_failure(file: &str, section: &str, test: &str) -> bool {
    let one_of = |(known, prefix): &(&str, &str)| *known == section && test.starts_with(prefix);
    (section != "format" || file == "string_ext") && EXPECTED_FAILURES.iter().any(one_of)
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let Some(folder) = std::env::args().nth(1) else {
        return writeln!(out, "usage: conformance FOLDER");
    };
    let verbose = std::env::args().any(|arg| arg == "-v");
    let mut files: Vec<_> = std::fs::read_dir(Path::new(&folder))?.filter_map(Result::ok).map(|f| f.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "textproto"));
    files.sort();
    let mut total = [0; 3];
    writeln!(out, "{:24} {:>7} {:>7} {:>9}", "file", "passed", "failed", "skipped")?;
    for path in files {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let file = Message::parse(&std::fs::read_to_string(&path)?);
        let mut counts = [0; 3];
        for section in file.all("section") {
            for test in section.all("test") {
                let skipped = SKIPPED_FILES.contains(&name.as_str())
                    || is_expected_failure(&name, &section.text("name"), &test.text("name"));
                let outcome = if skipped { TestOutcome::Skipped } else { run(test) };
                counts[match &outcome {
                    TestOutcome::Passed => 0,
                    TestOutcome::Failed(_) => 1,
                    TestOutcome::Skipped => 2,
                }] += 1;
                if let TestOutcome::Failed(reason) = outcome {
                    let (section, test, expr) = (section.text("name"), test.text("name"), test.text("expr"));
                    writeln!(out, "  {section}/{test}: {expr}\n    {reason}")?;
                } else if verbose && matches!(outcome, TestOutcome::Skipped) {
                    writeln!(out, "  skipped: {}", test.text("expr"))?;
                }
            }
        }
        writeln!(out, "{name:24} {:>7} {:>7} {:>9}", counts[0], counts[1], counts[2])?;
        for (sum, count) in total.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    writeln!(out, "{:24} {:>7} {:>7} {:>9}", "all", total[0], total[1], total[2])
}
