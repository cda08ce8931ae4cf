//! What was measured, as a table for people and as JSON for programs: each row a number with its unit, its budget where
//! the design names one, and a note.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::machine::Machine;

/// What a number is held to.
#[derive(Clone, Copy, Debug)]
enum Budget {
    AtMost(f64),
    AtLeast(f64),
}

#[derive(Debug)]
struct Row {
    section: &'static str,
    name: String,
    value: f64,
    unit: &'static str,
    budget: Option<Budget>,
    note: String,
}

impl Row {
    fn met(&self) -> Option<bool> {
        self.budget.map(|budget| match budget {
            Budget::AtMost(limit) => self.value <= limit,
            Budget::AtLeast(limit) => self.value >= limit,
        })
    }
}

/// A row that was just added, to be completed.
pub(crate) struct Added<'r>(&'r mut Row);

impl Added<'_> {
    /// The number may be no larger.
    pub(crate) fn at_most(self, limit: f64) -> Self {
        self.0.budget = Some(Budget::AtMost(limit));
        self
    }

    /// The number may be no smaller.
    pub(crate) fn at_least(self, limit: f64) -> Self {
        self.0.budget = Some(Budget::AtLeast(limit));
        self
    }

    /// What else is worth knowing.
    pub(crate) fn note(self, text: impl Into<String>) -> Self {
        self.0.note = text.into();
        self
    }
}

/// The rows so far.
pub(crate) struct Report {
    machine: Machine,
    section: &'static str,
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new(machine: Machine) -> Self {
        Self { machine, section: "", rows: Vec::new() }
    }

    /// Begins a section.
    pub(crate) fn section(&mut self, name: &'static str) {
        self.section = name;
    }

    /// Adds a number.
    pub(crate) fn row(&mut self, name: impl Into<String>, value: f64, unit: &'static str) -> Added<'_> {
        let row = Row { section: self.section, name: name.into(), value, unit, budget: None, note: String::new() };
        // Behind the rows of the same section: a section may be taken up again.
        let last = self.rows.iter().rposition(|other| other.section == self.section);
        let at = last.map_or(self.rows.len(), |last| last + 1);
        self.rows.insert(at, row);
        Added(&mut self.rows[at])
    }

    /// The table.
    pub(crate) fn text(&self) -> String {
        let mut out = format!("{}\n", self.machine);
        out.push_str("closed loop; medians of the rounds; a ratio compares with what ran in turns with it\n");
        let width = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or_default();
        let mut section = "";
        for row in &self.rows {
            if row.section != section {
                section = row.section;
                let _ = write!(out, "\n{section}\n");
            }
            let budget = match row.budget {
                None => String::new(),
                Some(Budget::AtMost(limit)) => format!("≤ {}", number(limit)),
                Some(Budget::AtLeast(limit)) => format!("≥ {}", number(limit)),
            };
            let met = match row.met() {
                None => "",
                Some(true) => "met",
                Some(false) => "MISSED",
            };
            let Row { name, unit, note, .. } = row;
            let line = format!("  {name:width$} {:>10} {unit:<10} {budget:<8} {met:<7} {note}", number(row.value));
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let (bound, limit) = match row.budget {
                None => (Value::Null, Value::Null),
                Some(Budget::AtMost(limit)) => (json!("at most"), json!(limit)),
                Some(Budget::AtLeast(limit)) => (json!("at least"), json!(limit)),
            };
            json!({
                "section": row.section, "name": row.name, "value": row.value, "unit": row.unit,
                "bound": bound, "limit": limit, "met": row.met(), "note": row.note,
            })
        });
        json!({ "machine": self.machine.json(), "rows": rows.collect::<Vec<_>>() })
    }
}

/// A number with the digits that mean something.
fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: f64, complete: fn(Added<'_>) -> Added<'_>, met: Option<bool>, text: &str) {
        let mut report = Report::new(Machine::default());
        report.section("section");
        complete(report.row("name", value, "ms"));
        assert_eq!(report.rows[0].met(), met);
        let table = report.text();
        let line: Vec<&str> = table.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(line.join(" "), text);
        assert_eq!(report.json()["rows"][0]["met"], json!(met));
    }

    #[test]
    fn budgets() {
        check(99.96, |row| row.at_most(100.0), Some(true), "name 100.0 ms ≤ 100 met");
        check(101.0, |row| row.at_most(100.0).note("slow"), Some(false), "name 101 ms ≤ 100 MISSED slow");
        check(0.61, |row| row.at_least(0.6), Some(true), "name 0.61 ms ≥ 0.60 met");
        check(5.0, |row| row, None, "name 5.00 ms");
    }
}
