//! Table tests: the type, the value or error, the cost and the estimated cost of expressions. The rows are in
//! `tables/*.txt`. A row is an expression and, indented below it, the expected result. An empty line separates rows.
//! The expected results were compared to cel-go as kube-apiserver 1.36 configures it. `UPDATE_EXPECT=1` writes the
//! actual results.

mod fixture;

use std::fmt::Write as _;

use fixture::Fixture;
use pintle_cel::PER_CALL_COST_LIMIT;

/// The result of an expression, in the notation of the tables.
fn describe(fixture: &Fixture, expression: &str) -> String {
    let mut out = String::new();
    let checked = match fixture.env.check(expression) {
        Err(issues) => return issues.to_string(),
        Ok(checked) => checked,
    };
    let program = match fixture.env.program(&checked) {
        Err(error) => return format!("no program: {error}"),
        Ok(program) => program,
    };
    let bindings = fixture.bindings();
    let evaluation = program.evaluate(&bindings, PER_CALL_COST_LIMIT);
    let estimate = fixture.env.estimate_cost(&checked, &fixture.sizes);
    let _ = match &evaluation.result {
        Ok(value) => write!(out, "{}: {}", checked.output_type(), fixture::format_value(value)),
        Err(error) => write!(out, "{}, error: {error}", checked.output_type()),
    };
    let max = if estimate.max > 1 << 60 { "unbounded".to_owned() } else { estimate.max.to_string() };
    let _ = write!(out, "\ncost {}, estimated {} to {max}", evaluation.cost, estimate.min);
    out
}

/// Compares a table with the actual results.
#[track_caller]
fn check(table: &str) {
    let fixture = Fixture::kubernetes();
    pintle_scenarios::check_file(format!("{}/tests/tables/{table}", env!("CARGO_MANIFEST_DIR")), |text| {
        let rows = text.trim_end().split("\n\n").map(|row| {
            // `⏎` stands for a line break within an expression.
            let expression = row.lines().next().unwrap_or_default();
            let result = describe(&fixture, &expression.replace('⏎', "\n")).replace('\n', "\n  ");
            format!("{expression}\n  {result}\n")
        });
        rows.collect::<Vec<_>>().join("\n")
    });
}

#[test]
fn operators_match_cel_go() {
    check("operators.txt");
}

#[test]
fn objects_match_cel_go() {
    check("objects.txt");
}

#[test]
fn macros_match_cel_go() {
    check("macros.txt");
}

#[test]
fn strings_match_cel_go() {
    check("strings.txt");
}

#[test]
fn conversions_match_cel_go() {
    check("conversions.txt");
}

#[test]
fn dynamic_values_match_cel_go() {
    check("dynamic.txt");
}

#[test]
fn kubernetes_libraries_match_cel_go() {
    check("kubernetes.txt");
}

#[test]
fn type_check_errors_match_cel_go() {
    check("checks.txt");
}

#[test]
fn syntax_errors_match_cel_go() {
    check("syntax.txt");
}
