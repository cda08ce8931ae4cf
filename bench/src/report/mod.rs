//! The report. A row has a result and its unit, the server's CPU time per operation, latency percentiles, a budget, and
//! the Go API server's result. The report is printed as a table, as Markdown, as JSON and as an SVG plot.

mod growth;
mod locks;
mod plot;
mod text;

use serde_json::{Value, json};

use crate::load::{Percentiles, RoundResult};
use crate::machine::Machine;

pub(crate) use growth::{CostKind, Growth, GrowthStep, MAX_RATIO, OPERATIONS};
pub(crate) use locks::LockHolds;
pub(crate) use text::{number, thousands};

/// The budget of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Budget {
    /// The result must not exceed the limit.
    AtMost(f64),
    /// The result must reach the limit.
    AtLeast(f64),
    /// One operation must take at least this many times less CPU than in the Go API server.
    CheaperThanGo(f64),
}

/// The Go API server's result of the same measurement.
#[derive(Clone, Copy, Debug)]
struct GoResult {
    value: f64,
    /// The CPU time of the server and etcd per operation, in microseconds.
    cpu: Option<f64>,
    latencies: Option<Percentiles>,
}

#[derive(Debug)]
struct ReportRow {
    /// The name of the scenario that added the row.
    scenario: &'static str,
    section: String,
    name: String,
    value: f64,
    unit: &'static str,
    budget: Option<Budget>,
    /// The server's CPU time per operation, in microseconds.
    cpu: Option<f64>,
    /// The Go API server's result, if it was measured.
    go: Option<GoResult>,
    latencies: Option<Percentiles>,
    /// True if latencies count from the scheduled time of a request, as in an open loop.
    from_schedule: bool,
    /// True if the row is about the machine and not about the server.
    is_about_machine: bool,
    /// True if the table of growth has the result in plots and Markdown.
    is_growth: bool,
    note: String,
}

impl ReportRow {
    /// The Go API server's CPU time per operation, divided by this server's.
    fn go_cpu_ratio(&self) -> Option<f64> {
        Some(self.go?.cpu? / self.cpu.filter(|cpu| *cpu > 0.0)?)
    }

    /// The used share of the budget. Up to 1 the budget is met. `None` if the row has no budget, or if its budget needs
    /// a CPU time that is not known.
    fn budget_used(&self) -> Option<f64> {
        match self.budget? {
            // Each unit above a limit of zero counts as another budget.
            Budget::AtMost(limit) if limit <= 0.0 => Some(1.0 + self.value),
            Budget::AtMost(limit) => Some(self.value / limit),
            Budget::AtLeast(limit) => Some(limit / self.value),
            Budget::CheaperThanGo(limit) => Some(limit / self.go_cpu_ratio()?),
        }
    }

    fn is_met(&self) -> Option<bool> {
        self.budget_used().map(|budget_used| budget_used <= 1.0)
    }
}

/// Completes a row that was just added.
pub(crate) struct RowBuilder<'r>(&'r mut ReportRow);

impl RowBuilder<'_> {
    /// Sets a budget: the result must not exceed `limit`.
    pub(crate) fn at_most(self, limit: f64) -> Self {
        self.0.budget = Some(Budget::AtMost(limit));
        self
    }

    /// Sets a budget: the result must reach `limit`.
    pub(crate) fn at_least(self, limit: f64) -> Self {
        self.0.budget = Some(Budget::AtLeast(limit));
        self
    }

    /// Sets the server's CPU time per operation, in microseconds.
    pub(crate) fn cpu(self, micros: Option<f64>) -> Self {
        self.0.cpu = micros;
        self
    }

    /// Sets a budget: one operation must take at least `times` times less CPU than in the Go API server.
    pub(crate) fn cheaper_than_go(self, times: f64) -> Self {
        self.0.budget = Some(Budget::CheaperThanGo(times));
        self
    }

    /// Marks the row as a result about the machine. The Go API server has no such result.
    pub(crate) fn about_machine(self) -> Self {
        self.0.is_about_machine = true;
        self
    }

    /// Marks the row as a result that is also in the table of growth.
    pub(crate) fn growth(self) -> Self {
        self.0.is_growth = true;
        self
    }

    /// Sets the CPU time and the latencies from the result of a closed loop.
    pub(crate) fn round(self, round: &RoundResult) -> Self {
        self.0.latencies = Some(round.percentiles());
        self.cpu(round.cpu_micros())
    }

    /// Sets latencies that count from the scheduled time.
    pub(crate) fn scheduled_latencies(self, latencies: Percentiles) -> Self {
        self.0.latencies = Some(latencies);
        self.0.from_schedule = true;
        self
    }

    /// Sets the note after the row.
    pub(crate) fn note(self, text: impl Into<String>) -> Self {
        self.0.note = text.into();
        self
    }
}

/// The results so far.
pub(crate) struct Report {
    machine: Machine,
    /// The measured server and the plan.
    subject: String,
    scenario: &'static str,
    section: String,
    rows: Vec<ReportRow>,
    /// How cost grows with each kind of thing.
    pub(crate) growth: Vec<Growth>,
    /// How long locks were held, if the server has recorded it.
    pub(crate) lock_holds: LockHolds,
    /// Failed and skipped measurements, with the reason.
    remarks: Vec<String>,
}

impl Report {
    /// Creates an empty report about `subject`.
    pub(crate) fn new(machine: Machine, subject: String) -> Self {
        let (rows, growth, remarks) = (Vec::new(), Vec::new(), Vec::new());
        let lock_holds = LockHolds::default();
        Self { machine, subject, scenario: "", section: String::new(), rows, growth, lock_holds, remarks }
    }

    /// Starts the rows of a scenario.
    pub(crate) fn scenario(&mut self, name: &'static str) {
        self.scenario = name;
    }

    /// Starts a section. A section may be continued later.
    pub(crate) fn section(&mut self, name: impl Into<String>) {
        self.section = name.into();
    }

    /// Adds a row to the current section.
    pub(crate) fn row(&mut self, name: impl Into<String>, value: f64, unit: &'static str) -> RowBuilder<'_> {
        let row = ReportRow {
            scenario: self.scenario,
            section: self.section.clone(),
            name: name.into(),
            value,
            unit,
            budget: None,
            cpu: None,
            go: None,
            latencies: None,
            from_schedule: false,
            is_about_machine: false,
            is_growth: false,
            note: String::new(),
        };
        // The row is inserted after the rows of the same section, which may have been started earlier.
        let last = self.rows.iter().rposition(|other| other.section == self.section);
        let at = last.map_or(self.rows.len(), |last| last + 1);
        self.rows.insert(at, row);
        RowBuilder(&mut self.rows[at])
    }

    /// Adds a row unless the value is `None`. It is `None` if the server's processes are not known.
    pub(crate) fn row_if_known(
        &mut self,
        name: impl Into<String>,
        value: Option<f64>,
        unit: &'static str,
        complete: impl FnOnce(RowBuilder<'_>) -> RowBuilder<'_>,
    ) {
        if let Some(value) = value {
            complete(self.row(name, value, unit));
        }
    }

    /// Adds the results of the last scenario on the Go API server to the scenario's rows. The names of sections are not
    /// compared, because they contain the sizes of responses, which differ.
    pub(crate) fn add_go_results(&mut self, go: Report) {
        for theirs in go.rows.into_iter().filter(|row| !row.is_about_machine) {
            let mut rows = self.rows.iter_mut().filter(|row| row.scenario == self.scenario);
            if let Some(row) = rows.find(|row| row.name == theirs.name) {
                row.go = Some(GoResult { value: theirs.value, cpu: theirs.cpu, latencies: theirs.latencies });
            }
        }
        self.remarks.extend(go.remarks.into_iter().map(|remark| format!("Go API server: {remark}")));
    }

    /// Adds a remark about a failed or skipped measurement.
    pub(crate) fn remark(&mut self, text: impl Into<String>) {
        self.remarks.push(text.into());
    }

    /// Formats the report as a text table.
    pub(crate) fn text(&self) -> String {
        text::table(self)
    }

    /// Formats the report as Markdown.
    pub(crate) fn markdown(&self) -> String {
        text::markdown(self)
    }

    /// Draws the report as an SVG plot.
    pub(crate) fn svg(&self) -> String {
        plot::draw(self)
    }

    /// Formats the report as JSON.
    pub(crate) fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let (bound, limit) = match row.budget {
                None => (Value::Null, Value::Null),
                Some(Budget::AtMost(limit)) => (json!("at most"), json!(limit)),
                Some(Budget::AtLeast(limit)) => (json!("at least"), json!(limit)),
                Some(Budget::CheaperThanGo(limit)) => (json!("times less CPU than the Go API server"), json!(limit)),
            };
            let go = row.go.map(|GoResult { value, cpu, latencies }| {
                json!({ "value": value, "cpuMicroseconds": cpu, "milliseconds": milliseconds(latencies) })
            });
            json!({
                "section": row.section, "name": row.name, "value": row.value, "unit": row.unit,
                "cpuMicroseconds": row.cpu, "milliseconds": milliseconds(row.latencies), "fromSchedule": row.from_schedule,
                "goApiServer": go, "goCpuRatio": row.go_cpu_ratio(),
                "bound": bound, "limit": limit, "met": row.is_met(), "note": row.note,
            })
        });
        json!({
            "machine": self.machine.json(), "subject": self.subject,
            "rows": rows.collect::<Vec<_>>(), "remarks": self.remarks,
        })
    }
}

fn milliseconds(latencies: Option<Percentiles>) -> Option<Value> {
    latencies.map(|Percentiles { p50, p99, p999 }| json!({ "p50": p50, "p99": p99, "p99.9": p999 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Complete = fn(RowBuilder<'_>) -> RowBuilder<'_>;

    fn check(value: f64, complete: Complete, is_met: Option<bool>, text: &str) {
        check_compared(value, complete, &[], is_met, text);
    }

    /// Checks a row after rows of the Go API server are added.
    fn check_compared(value: f64, complete: Complete, go: &[(&str, Complete)], is_met: Option<bool>, text: &str) {
        let mut report = Report::new(Machine::default(), "subject".to_owned());
        report.scenario("earlier");
        report.row("name", 0.0, "ms");
        report.scenario("scenario");
        report.section("section");
        complete(report.row("name", value, "ms"));
        let mut compared = Report::new(Machine::default(), String::new());
        for (name, complete) in go {
            complete(compared.row(*name, 7.0, "ms"));
        }
        report.add_go_results(compared);
        report.rows.remove(0);
        assert_eq!(report.rows[0].is_met(), is_met);
        let table = report.text();
        let line: Vec<&str> = table.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(line.join(" "), text);
        assert_eq!(report.json()["rows"][0]["met"], json!(is_met));
    }

    #[test]
    fn rows_show_whether_the_budget_is_met() {
        check(99.96, |row| row.at_most(100.0), Some(true), "name 100.0 ms ≤ 100 met");
        check(101.0, |row| row.at_most(100.0).note("slow"), Some(false), "name 101 ms ≤ 100 MISSED slow");
        check(0.0, |row| row.at_most(0.0), Some(true), "name 0.00 ms ≤ 0.00 met");
        check(1.0, |row| row.at_most(0.0), Some(false), "name 1.00 ms ≤ 0.00 MISSED");
        check(0.61, |row| row.at_least(0.6), Some(true), "name 0.61 ms ≥ 0.60 met");
        check(5.0, |row| row, None, "name 5.00 ms");
        check(5.0, |row| row.cheaper_than_go(20.0), None, "name 5.00 ms ≥ 20.0x not measured");
        let text = "name 5.00 ms 1.00/2.00/3.00";
        check(5.0, |row| row.scheduled_latencies(Percentiles { p50: 1.0, p99: 2.0, p999: 3.0 }), None, text);
    }

    #[test]
    fn rows_are_compared_with_the_same_row_of_the_go_api_server() {
        let go: &[(&str, Complete)] = &[("other", |row| row), ("name", |row| row.cpu(Some(120.0)))];
        let text = "name 5.00 ms 7.00 ms 10.0 µs 120 µs 12.0x";
        check_compared(5.0, |row| row.cpu(Some(10.0)), go, None, text);
        let missed = "name 5.00 ms 7.00 ms 10.0 µs 120 µs 12.0x ≥ 20.0x MISSED";
        check_compared(5.0, |row| row.cpu(Some(10.0)).cheaper_than_go(20.0), go, Some(false), missed);
        let unknown = "name 5.00 ms 7.00 ms 120 µs ≥ 20.0x not measured";
        check_compared(5.0, |row| row.cheaper_than_go(20.0), go, None, unknown);
        check_compared(5.0, |row| row, &[("name", |row| row.about_machine())], None, "name 5.00 ms");
    }
}
