//! Expressions and what comes of them: type, value or error, cost, and the estimate made beforehand. The rows are in
//! `tables/*.txt`: an expression, and below it, indented, what is expected; rows are set apart by empty lines. What is
//! expected was compared to cel-go as kube-apiserver 1.36 configures it. `UPDATE_EXPECT=1` writes what is found.

mod world;

use std::fmt::Write as _;
use std::path::Path;

use pintle_cel::Budget;
use world::World;

/// What comes of an expression, in the words of the tables.
fn outcome(world: &World, expression: &str) -> String {
    let mut out = String::new();
    let checked = match world.env.check(expression) {
        Err(issues) => return issues.to_string(),
        Ok(checked) => checked,
    };
    let program = match world.env.program(&checked) {
        Err(error) => return format!("no program: {error}"),
        Ok(program) => program,
    };
    let bindings = world.bindings();
    let evaluation = program.evaluate(&bindings, Budget::limit(Budget::PER_CALL));
    let estimate = world.env.estimate(&checked, &world.sizes);
    let _ = match &evaluation.result {
        Ok(value) => write!(out, "{}: {}", checked.result(), world::show(value)),
        Err(error) => write!(out, "{}, error: {error}", checked.result()),
    };
    let most = if estimate.max > 1 << 60 { "unbounded".to_owned() } else { estimate.max.to_string() };
    let _ = write!(out, "\ncost {}, estimated {} to {most}", evaluation.cost, estimate.min);
    out
}

/// Compares a table to what is found.
#[track_caller]
fn check(table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables").join(table);
    let text = std::fs::read_to_string(&path).expect("the table is readable");
    let world = World::kubernetes();
    let mut found = String::new();
    let mut rows = 0;
    for row in text.trim_end().split("\n\n") {
        // A line break within an expression is written as this sign.
        let expression = row.lines().next().unwrap_or_default().replace('⏎', "\n");
        let outcome = outcome(&world, &expression).replace('\n', "\n  ");
        let _ = write!(found, "{}{}\n  {outcome}\n", if rows > 0 { "\n" } else { "" }, expression.replace('\n', "⏎"));
        rows += 1;
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &found).expect("the table is writable");
        return;
    }
    for (wanted, found) in text.trim_end().split("\n\n").zip(found.trim_end().split("\n\n")) {
        assert_eq!(wanted, found, "in {table}");
    }
    assert_eq!(text, found, "in {table}");
    assert!(rows > 0, "{table} has no rows");
}

#[test]
fn operators() {
    check("operators.txt");
}

#[test]
fn objects() {
    check("objects.txt");
}

#[test]
fn macros() {
    check("macros.txt");
}

#[test]
fn strings() {
    check("strings.txt");
}

#[test]
fn conversions() {
    check("conversions.txt");
}

#[test]
fn dynamic() {
    check("dynamic.txt");
}

#[test]
fn kubernetes() {
    check("kubernetes.txt");
}

#[test]
fn checks() {
    check("checks.txt");
}

#[test]
fn syntax() {
    check("syntax.txt");
}
